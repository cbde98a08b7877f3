#include "server/cluster/key.h"

bool okv_member_is(struct okv_member a, struct okv_member b)
{
    return a.server == b.server && a.incarnation == b.incarnation;
}

bool okv_key_has(const struct okv_shard_key *key, struct okv_member member)
{
    for (unsigned i = 0; i < key->isr_count; i++)
        if (okv_member_is(key->isr[i], member))
            return true;
    return false;
}

bool okv_key_has_server(const struct okv_shard_key *key, uint64_t server)
{
    for (unsigned i = 0; i < key->isr_count; i++)
        if (key->isr[i].server == server)
            return true;
    return false;
}

bool okv_key_wants(const struct okv_shard_key *key, uint64_t server)
{
    for (unsigned i = 0; i < key->wanted_count; i++)
        if (key->wanted[i] == server)
            return true;
    return false;
}

void okv_key_add(struct okv_shard_key *key, struct okv_member member)
{
    if (key->isr_count < OKV_COPIES_MAX && !okv_key_has(key, member))
        key->isr[key->isr_count++] = member;
}

void okv_key_remove(struct okv_shard_key *key, struct okv_member member)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < key->isr_count; i++)
        if (!okv_member_is(key->isr[i], member))
            key->isr[kept++] = key->isr[i];
    key->isr_count = kept;
}
