/* etcd of the simulated world: a register that is compared and set, with answers that get lost. */
#include <inttypes.h>

#include "tests/support/cluster_world.h"

static struct world_item *answer(struct world *world, uint64_t at, const struct world_item *request,
                                 enum okv_protocol_event_type type)
{
    struct world_item *item = world_push(world, at, WORLD_STEP);

    item->server = request->server;
    item->boot = request->boot;
    item->event.type = type;
    item->event.request = request->event.request;
    return item;
}

/* A request whose answer is lost is unknown after 400 ms, and may still be carried out later, if it
 * arrives at all. */
void world_etcd_request(struct world *world, unsigned index,
                        const struct okv_protocol_action *action)
{
    bool is_lost = !world->is_over && world_chance(world, world->etcd_losses);
    bool is_unknown = is_lost || (!world->is_over && world_chance(world, world->etcd_losses));
    uint64_t late = is_unknown && world_chance(world, 50) ? world_below(world, 2500) * WORLD_MS : 0;
    struct world_item request = {.server = index, .boot = world->servers[index].boot};
    struct world_item *item;

    request.event.request = action->request;
    if (is_unknown)
        answer(world, world->now + 400 * WORLD_MS, &request, OKV_EVENT_UNKNOWN);
    if (is_lost)
        return;
    item = world_push(world, world->now + late + world_delay(world), WORLD_ETCD);
    item->server = index;
    item->boot = request.boot;
    item->event.request = action->request;
    item->event.key = action->key;
    item->event.revision = action->revision;
    item->is_change = action->type == OKV_ACTION_CHANGE_KEY;
    item->is_unanswered = is_unknown;
}

static void trace_key(struct world *world, unsigned server)
{
    const struct okv_shard_key *key = &world->key;

    world_trace(world,
                "etcd: %u sets epoch %" PRIu64 ", primary %" PRIu64 ", %u in sync: %" PRIu64
                " %" PRIu64 " %" PRIu64,
                server + 1, key->epoch, key->primary.server, key->isr_count, key->isr[0].server,
                key->isr[1].server, key->isr[2].server);
}

void world_etcd_item(struct world *world, const struct world_item *item)
{
    uint64_t at = world->now + world_delay(world);
    struct world_item *reply;
    bool is_done = item->is_change && item->event.revision == world->revision;

    if (is_done) {
        world->key = item->event.key;
        world->revision += 1 + world_below(world, 3);
        trace_key(world, item->server);
        if (!okv_key_has(&world->key, world->key.primary))
            world_fail(world, "the primary is not in sync");
    }
    if (item->is_unanswered)
        return;
    reply = answer(world, at, item,
                   !item->is_change ? OKV_EVENT_KEY
                   : is_done        ? OKV_EVENT_CHANGED
                                    : OKV_EVENT_REFUSED);
    reply->event.key = world->key;
    reply->event.revision = world->revision;
}
