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
/* Publishes what all required members have, and begins to serve when that is all of before. */
void okv_roles_publish(struct okv_protocol *protocol, uint64_t now_us);

#endif
