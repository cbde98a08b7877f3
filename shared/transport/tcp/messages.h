/* Send buffers, READs, and signs of life. */
#ifndef OKV_SHARED_TRANSPORT_TCP_MESSAGES_H
#define OKV_SHARED_TRANSPORT_TCP_MESSAGES_H

#include "shared/transport/tcp/tcp.h"

/* Operations of the transport. */
uint8_t *okv_tcp_send_buffer(struct okv_conn *conn);
int okv_tcp_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate);
void okv_tcp_flush(struct okv_conn *conn);
void okv_tcp_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event);
int okv_tcp_heartbeat(struct okv_conn *conn);
int okv_tcp_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count);

/* Frames that have come: 0, or OKV_EPROTO. */
/* Server: what wants data, and gets `bytes`; a READ. */
int okv_tcp_answer(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame,
                   const uint8_t *bytes);
int okv_tcp_answer_read(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame);
/* Client: the header of an answer, and the answer. */
int okv_tcp_begin_data(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame);
int okv_tcp_end_data(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame);

#endif
