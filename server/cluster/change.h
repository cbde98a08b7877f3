/* The key in etcd: one request at a time, and what is known of the value. */
#ifndef OKV_SERVER_CLUSTER_CHANGE_H
#define OKV_SERVER_CLUSTER_CHANGE_H

#include "server/cluster/protocol.h"

/* What an answer means. */
enum okv_change_outcome {
    OKV_CHANGE_NOTHING, /* nothing is known that was not before */
    OKV_CHANGE_READ,    /* the key was read, or another has changed it */
    OKV_CHANGE_DONE,    /* what was proposed is the key's value */
    OKV_CHANGE_DEAD,    /* it never will be: another has changed the key */
};

/* `protocol->proposed` is to become the value. Nothing else was proposed, and the key is known. */
void okv_change_propose(struct okv_protocol *protocol);
/* Forgets the request under way and the proposal, which another epoch has made void. */
void okv_change_abandon(struct okv_protocol *protocol);
/* Sends what is due. */
void okv_change_ask(struct okv_protocol *protocol, uint64_t now_us);
/* An event from KEY to FOREIGN. */
enum okv_change_outcome okv_change_answer(struct okv_protocol *protocol,
                                          const struct okv_protocol_event *event, uint64_t now_us);

#endif
