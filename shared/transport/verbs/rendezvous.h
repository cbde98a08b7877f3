/* A client's advertised buffers, and the server's rendezvous reads of them. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_RENDEZVOUS_H
#define OKV_SHARED_TRANSPORT_VERBS_RENDEZVOUS_H

#include "shared/transport/verbs/verbs.h"

int okv_verbs_advertise(struct okv_conn *conn, const void *base, size_t length,
                        struct okv_advert **out);
void okv_verbs_withdraw(struct okv_advert *advert, bool is_read);
int okv_verbs_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);
/* A piece has completed; returns the number of events, 1 or 0. */
int okv_verbs_complete_piece(struct verbs_conn *conn, const struct ibv_wc *wc,
                             struct okv_event *event);
/* Reports the rendezvous reads that the device never completed, and must not touch any more. True
 * when none is left. */
bool okv_verbs_end_rendezvous_reads(struct verbs_conn *conn, struct okv_event *events, int max,
                                    int *count);

#endif
