/* Who becomes primary, and when it serves. */
#ifndef OKV_SERVER_CLUSTER_ROLES_H
#define OKV_SERVER_CLUSTER_ROLES_H

#include "server/cluster/change.h"
#include "server/cluster/protocol.h"

/* What an answer of etcd means for the role. */
void okv_roles_answered(struct okv_protocol *protocol, enum okv_change_outcome outcome,
                        uint64_t now_us);
/* A copy whose primary is silent, or has released it, asks for the key. */
void okv_roles_suspect(struct okv_protocol *protocol, uint64_t now_us);
/* Tries to become primary outside the in-sync set, whose members are lost: what they alone had
 * published is lost, too. Nothing happens if it leads, loads a snapshot, or does not know the key.
 */
void okv_roles_recover(struct okv_protocol *protocol);
/* Publishes what all required members have, and begins to serve when that is all of before. */
void okv_roles_publish(struct okv_protocol *protocol, uint64_t now_us);

#endif
