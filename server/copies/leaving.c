#include "server/copies/leaving.h"

#include "server/core/server.h"
#include "server/database/database.h"

/* Who is to lead. Not the one that led before, if there is another: it may have left for the same
 * reason. 0: nobody can. */
static uint64_t choose(const struct okv_copy *copy)
{
    const struct okv_shard_key *key = &copy->protocol.key;
    uint64_t chosen = 0;

    for (unsigned i = 0; i < key->isr_count; i++) {
        uint64_t server = key->isr[i].server;
        bool is_better = chosen == 0 || chosen == copy->elections.predecessor;
        if (is_better && okv_members_have(&copy->protocol, server))
            chosen = server;
    }
    return okv_copies_have_etcd(copy->copies) ? chosen : 0;
}

/* It may come to nothing, and is begun again. False: this server does not lead, or must go on. */
static bool hand_over(struct okv_copy *copy)
{
    const struct okv_protocol_event event = {.type = OKV_EVENT_HAND_OVER, .server = choose(copy)};

    if (!copy->served || event.server == 0)
        return false;
    if (copy->protocol.phase == OKV_HAND_OVER_NONE)
        okv_copy_tell(copy, &event);
    return true;
}

/* Its clients reach another server, which has a device of its own. That one may lose its device,
 * too, and hand over to this one, which keeps it: if it leads in the next epoch itself, nobody took
 * over. */
static void give_way(struct okv_copy *copy)
{
    if (!copy->served || (copy->gave_way && copy->served > copy->gave_way + 1))
        return;
    uint64_t epoch = copy->served;
    bool is_begun = hand_over(copy);
    if (is_begun && copy->gave_way == 0)
        okv_log_say(&copy->copies->server->log, OKV_LOG_WARNING, "cluster",
                    "database %s: a listener is closed: this server hands over what it leads",
                    copy->database->config->name);
    if (is_begun)
        copy->gave_way = epoch;
}

void okv_leaving_run(struct okv_copies *copies)
{
    bool is_closed = atomic_load(&copies->server->stats.listeners_closed) > 0;
    bool has_to_leave = atomic_load(&copies->has_to_leave);
    unsigned led = 0;

    for (unsigned i = 0; i < copies->server->database_count; i++) {
        struct okv_copy *copy = &copies->of[i];
        if (has_to_leave)
            led += hand_over(copy);
        else if (is_closed)
            give_way(copy);
        else
            copy->gave_way = 0;
    }
    if (has_to_leave)
        atomic_store(&copies->led, led);
}
