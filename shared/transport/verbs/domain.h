/* The protection domain of a client's handle. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_DOMAIN_H
#define OKV_SHARED_TRANSPORT_VERBS_DOMAIN_H

#include "shared/transport/verbs/verbs.h"

/* OKV_ENOMEM, or what errno says. */
int okv_verbs_domain_open(struct ibv_context *verbs, struct verbs_domain *out,
                          struct okv_diag *diag);
/* After all objects in it. */
void okv_verbs_domain_close(struct verbs_domain *domain);

#endif
