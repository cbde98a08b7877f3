/* Messages: send buffers to ring, ring to receive buffers. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_MESSAGES_H
#define OKV_SHARED_TRANSPORT_LOCAL_MESSAGES_H

#include "shared/transport/local/local.h"

uint8_t *okv_local_send_buffer(struct okv_conn *conn);
int okv_local_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate);
/* Sends queued messages as far as the ring has room, and notifies the peer if it waits. */
void okv_local_flush(struct okv_conn *conn);
/* Receives up to `max` messages; returns their number. Ends the connection when the peer has ended
 * it and the ring is empty, and when the peer broke the rules. */
int okv_local_receive(struct okv_local_conn *conn, struct okv_event *events, int max);
void okv_local_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event);

#endif
