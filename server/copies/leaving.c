#include "server/copies/leaving.h"

#include "server/core/server.h"
#include "server/database/database.h"

/* Returns the databases that this server leads and others could. A hand-over may come to nothing,
 * and is begun again. */
static unsigned hand_over_all(struct okv_copies *copies)
{
    unsigned led = 0;

    for (unsigned i = 0; i < copies->server->database_count; i++) {
        struct okv_copy *copy = &copies->of[i];
        struct okv_protocol_event event = {.type = OKV_EVENT_HAND_OVER,
                                           .server = okv_copy_successor(copy)};
        if (!copy->served || event.server == 0 || !okv_copies_have_etcd(copies))
            continue;
        led++;
        if (copy->protocol.phase == OKV_HAND_OVER_NONE)
            okv_copy_tell(copy, &event);
    }
    return led;
}

/* Its clients reach another server, which has a device of its own. Once: that one may lose its
 * device, too, and hand over to this one. */
static void give_way(struct okv_copies *copies)
{
    unsigned led = copies->has_given_way ? 0 : hand_over_all(copies);

    if (led > 0 && !copies->gives_way)
        okv_log_say(&copies->server->log, OKV_LOG_WARNING, "cluster",
                    "a listener is closed: this server hands over what it leads");
    copies->has_given_way |= copies->gives_way && led == 0;
    copies->gives_way |= led > 0;
}

void okv_leaving_run(struct okv_copies *copies)
{
    if (atomic_load(&copies->has_to_leave))
        atomic_store(&copies->led, hand_over_all(copies));
    if (atomic_load(&copies->server->stats.listeners_closed) > 0)
        give_way(copies);
    else
        copies->gives_way = copies->has_given_way = false;
}
