/* A primary decides who leaves and who joins the in-sync set. */
#ifndef OKV_SERVER_CLUSTER_MEMBERS_H
#define OKV_SERVER_CLUSTER_MEMBERS_H

#include "server/cluster/protocol.h"

/* Whether this copy may be handed the shard: it is in the set, and answers. */
bool okv_members_have(const struct okv_protocol *protocol, uint64_t server);
/* Whether a member of the set could lead: it answers, and is not full. */
bool okv_members_have_another(const struct okv_protocol *protocol, uint64_t now_us);
/* This server stood still that long, which is not held against its copies. */
void okv_members_excuse(struct okv_protocol *protocol, uint64_t late_us);
/* Proposes to remove one that holds up the others, else to add one that has caught up. */
void okv_members_decide(struct okv_protocol *protocol, uint64_t now_us);

#endif
