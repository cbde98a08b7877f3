/* Posts receives, sends, READs and heartbeats to the device, and counts them. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_POST_H
#define OKV_SHARED_TRANSPORT_VERBS_POST_H

#include "shared/transport/verbs/verbs.h"

/* Posts all receive slots, before the queue pair leaves the state INIT. Returns 0 or an errno
 * value. */
int okv_verbs_post_slots(struct verbs_conn *conn);
/* Posts receive slot `index`. */
void okv_verbs_post_slot(struct verbs_conn *conn, unsigned index);
const uint8_t *okv_verbs_slot(const struct verbs_conn *conn, unsigned index);
void okv_verbs_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event);
/* Counts a completion. */
void okv_verbs_conn_completed(struct verbs_conn *conn, const struct ibv_wc *wc);
uint8_t *okv_verbs_send_buffer(struct okv_conn *conn);
int okv_verbs_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate);
void okv_verbs_flush(struct okv_conn *conn);
int okv_verbs_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count);
int okv_verbs_heartbeat(struct okv_conn *conn);

#endif
