/* The client's advertised buffers, and the server's rendezvous reads of them. */
#ifndef OKV_SHARED_TRANSPORT_TCP_RENDEZVOUS_H
#define OKV_SHARED_TRANSPORT_TCP_RENDEZVOUS_H

#include "shared/transport/tcp/tcp.h"

/* Operations of the transport. */
int okv_tcp_advertise(struct okv_conn *conn, const void *base, size_t length,
                      struct okv_advert **out);
void okv_tcp_withdraw(struct okv_advert *advert, bool is_read);
int okv_tcp_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);

/* Frames that have come: 0, or OKV_EPROTO. */
/* Client: a piece of a buffer is wanted. */
int okv_tcp_answer_fetch(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame);
/* Server: the header of a piece, the piece, and that there is none. */
int okv_tcp_begin_piece(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame);
int okv_tcp_end_piece(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame);
int okv_tcp_refused(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame);

/* Ends rendezvous reads under way with OKV_EDISCONNECTED: adds their events to the `*count` events
 * that there are, up to `max`. True when none is left. */
bool okv_tcp_end_rendezvous(struct okv_tcp_conn *conn, struct okv_event *events, int max,
                            int *count);

#endif
