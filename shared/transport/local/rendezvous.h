/* A client's advertised buffers, and the server's rendezvous reads of them. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_RENDEZVOUS_H
#define OKV_SHARED_TRANSPORT_LOCAL_RENDEZVOUS_H

#include "shared/transport/local/local.h"

int okv_local_advertise(struct okv_conn *conn, const void *base, size_t length,
                        struct okv_advert **out);
void okv_local_withdraw(struct okv_advert *advert, bool is_read);
int okv_local_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);
/* Copies a piece for the connections with rendezvous reads, which take turns. Reports those that
 * are complete or have failed; returns their number. */
int okv_local_run_rendezvous(struct okv_local_endpoint *endpoint, struct okv_event *events,
                             int max);
/* Reports those of a connection that has ended. */
int okv_local_end_rendezvous(struct okv_local_conn *conn, struct okv_event *events, int max);

#endif
