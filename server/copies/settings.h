/* What an administrator sets of a cluster. */
#ifndef OKV_SERVER_COPIES_SETTINGS_H
#define OKV_SERVER_COPIES_SETTINGS_H

#include "server/copies/documents.h"
#include "shared/base/diag.h"

/* As of a cluster that is created without any word about them. */
void okv_settings_init(struct okv_cluster_document *cluster);
/* Takes in words such as `copies=3`, with spaces between (docs/protocol-admin.md). OKV_EINVAL: a
 * word, or what comes of them, makes no sense. `*cluster` may have changed by then. */
int okv_settings_read(const char *words, struct okv_cluster_document *cluster,
                      struct okv_diag *why);
/* OKV_EINVAL: the copies, the lease or the time to wait are out of range. */
int okv_settings_check(const struct okv_cluster_document *cluster, struct okv_diag *why);

#endif
