/* A copy: what it answers its primary. */
#ifndef OKV_SERVER_CLUSTER_COPY_H
#define OKV_SERVER_CLUSTER_COPY_H

#include "server/cluster/protocol.h"

/* Becomes a copy of `epoch`, whose primary is `leader`, or 0 while it did not say so. */
void okv_copy_follow(struct okv_protocol *protocol, uint64_t leader, uint64_t epoch,
                     uint64_t now_us);
/* JOIN, SHIP, BEAT and RELEASED. */
void okv_copy_message(struct okv_protocol *protocol, uint64_t server,
                      const struct okv_peer_message *message, uint64_t now_us);
/* Asks for a snapshot in place of the log. The primary has it sent once this copy is not in the
 * set: until then it may be the last one. */
void okv_copy_spend(struct okv_protocol *protocol);
/* The snapshot is loaded. */
void okv_copy_loaded(struct okv_protocol *protocol, uint64_t position, uint64_t whole);
/* Acknowledges the frames that are owed, if they are safe. */
void okv_copy_acknowledge(struct okv_protocol *protocol, uint64_t now_us);

#endif
