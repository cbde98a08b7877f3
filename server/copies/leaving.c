#include "server/copies/leaving.h"

#include "server/core/server.h"
#include "server/database/database.h"

/* It may come to nothing, and is begun again. False: this server does not lead, or must go on. */
static bool hand_over(struct okv_copy *copy)
{
    const struct okv_protocol_event event = {.type = OKV_EVENT_HAND_OVER,
                                             .server = okv_copy_successor(copy)};

    if (!copy->served || event.server == 0 || !okv_copies_have_etcd(copy->copies))
        return false;
    if (copy->protocol.phase == OKV_HAND_OVER_NONE)
        okv_copy_tell(copy, &event);
    return true;
}

/* The clients of a closed listener reach another server, which has a device of its own. If that one
 * loses its device, too, and hands over to this one, this one keeps the lead. An epoch that follows
 * its own directly means that nobody took over: it tries again. */
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
