/* One connection: made, watched, written to, ended. */
#ifndef OKV_SHARED_TRANSPORT_TCP_CONN_H
#define OKV_SHARED_TRANSPORT_TCP_CONN_H

#include "shared/transport/tcp/tcp.h"

/* Makes a connection without a stream, which the caller moves to it. OKV_ENOMEM. */
int okv_tcp_conn_new(struct okv_tcp_endpoint *endpoint, struct okv_tcp_conn **out);
/* Closes its socket. */
void okv_tcp_conn_close(struct okv_tcp_conn *conn);
/* Frees one that is destroyed, unless its caller still has receive slots of it. */
void okv_tcp_conn_free_destroyed(struct okv_tcp_conn *conn);
/* Of one that is in no list. */
void okv_tcp_conn_free(struct okv_tcp_conn *conn);
/* Makes it one of its endpoint's, and watches it. */
void okv_tcp_conn_attach(struct okv_tcp_conn *conn);
/* Has the endpoint's set watch for what the connection waits for. */
void okv_tcp_conn_watch(struct okv_tcp_conn *conn);
/* Ends a connection: queues it for its OKV_EVENT_CLOSED. `why` is for people, and may be "". */
void okv_tcp_conn_end(struct okv_tcp_conn *conn, int status, const char *why);
/* Adds a frame to the output. Without room the peer has had more sent than it may ask for, and the
 * connection ends. */
void okv_tcp_conn_add(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame,
                      const uint8_t *body, uint32_t index);
/* Sends what waits, as far as the socket and a step have room. */
void okv_tcp_conn_write(struct okv_tcp_conn *conn);
/* Looks how far the peer has acknowledged what was sent; and of some connections that were not
 * looked at for a while. */
void okv_tcp_conn_settle(struct okv_tcp_conn *conn);
void okv_tcp_settle_some(struct okv_tcp_endpoint *endpoint);
/* Puts it at the end of its region's queue of those that are ready, unless it is there; and takes
 * it out. `is_readable`: to be read, not only to be written to. */
void okv_tcp_conn_list_ready(struct okv_tcp_conn *conn, bool is_readable);
void okv_tcp_conn_forget_ready(struct okv_tcp_conn *conn);
/* Makes the descriptor of an armed endpoint readable. */
void okv_tcp_announce(struct okv_tcp_endpoint *endpoint);
/* Queues an event; there is room for all that can be under way. */
void okv_tcp_queue_event(struct okv_tcp_conn *conn, const struct okv_event *event);

#endif
