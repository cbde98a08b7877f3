/* Exchanges of as many bytes as READs have, by the calls of the socket alone: their lower bound. */
#ifndef OKV_SHARED_TRANSPORT_TCP_BARE_H
#define OKV_SHARED_TRANSPORT_TCP_BARE_H

#include "shared/transport/tcp/tcp.h"

/* Operation of the transport. It uses the connection's own stream, so nothing else may be under
 * way: OKV_EAGAIN. A message that comes meanwhile, or a failure, ends the connection. */
int okv_tcp_bare_read(struct okv_conn *conn, struct okv_bare_reads *reads);
/* Server: a bare frame. 0 or OKV_EPROTO. */
int okv_tcp_answer_bare(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame);

#endif
