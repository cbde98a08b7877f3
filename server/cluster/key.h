/*
 * The value of a shard's key in etcd: who leads it, and who may.
 *
 * The in-sync set (`isr`) has the copies that may become primary without a loss: each has all that
 * was published. Its entries name incarnations: the life of one log, which has lost nothing that it
 * acknowledged. A copy that begins with an empty log is another incarnation on the same server, and
 * may not lead.
 */
#ifndef OKV_SERVER_CLUSTER_KEY_H
#define OKV_SERVER_CLUSTER_KEY_H

#include <stdbool.h>
#include <stdint.h>

#define OKV_COPIES_MAX 8

struct okv_member {
    uint64_t server; /* 0: none */
    uint64_t incarnation;
};

struct okv_shard_key {
    uint64_t epoch; /* from 1; one primary each */
    uint64_t by;    /* of the transaction that wrote it: its sender knows it again */
    struct okv_member primary;
    struct okv_member isr[OKV_COPIES_MAX];
    uint64_t wanted[OKV_COPIES_MAX]; /* servers that should have a copy */
    unsigned isr_count, wanted_count;
};

bool okv_member_is(struct okv_member a, struct okv_member b);
bool okv_key_has(const struct okv_shard_key *key, struct okv_member member);
bool okv_key_has_server(const struct okv_shard_key *key, uint64_t server);
bool okv_key_wants(const struct okv_shard_key *key, uint64_t server);
/* There is room: a set that is full stays as it is. */
void okv_key_add(struct okv_shard_key *key, struct okv_member member);
void okv_key_remove(struct okv_shard_key *key, struct okv_member member);

#endif
