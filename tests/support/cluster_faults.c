/* What goes wrong in the simulated world, and the operator's commands. */
#include "tests/support/cluster_world.h"

static void stop(struct world *world, unsigned index)
{
    uint64_t ms = world_below(world, world_chance(world, 50) ? 200 : 2500);

    world_trace(world, "%u stands still for %u ms", index + 1, (unsigned)ms);
    world->servers[index].stopped_until = world->now + ms * WORLD_MS;
}

static void stall(struct world *world, unsigned index, unsigned other)
{
    uint64_t until = world->now + world_below(world, 2000) * WORLD_MS;

    world_trace(world, "nothing passes from %u to %u", index + 1, other + 1);
    world->stalled_until[index][other] = until;
    if (world_chance(world, 50))
        world->stalled_until[other][index] = until;
}

static void tell(struct world *world, unsigned index, enum okv_protocol_event_type type,
                 unsigned server)
{
    struct world_item *item = world_push(world, world->now, WORLD_STEP);

    item->server = index;
    item->boot = world->servers[index].boot;
    item->event.type = type;
    item->event.server = server + 1;
}

/* To the server that is given if it is in sync, else to one that is. */
static void hand_over(struct world *world, unsigned to)
{
    const struct okv_shard_key *key = &world->key;

    if (!okv_key_has_server(key, to + 1) || key->primary.server == to + 1)
        to = (unsigned)key->isr[key->isr_count - 1].server - 1;
    world_trace(world, "hand over to %u", to + 1);

    tell(world, (unsigned)world->key.primary.server - 1, OKV_EVENT_HAND_OVER, to);
}

static void fill(struct world *world, unsigned index)
{
    struct world_server *server = &world->servers[index];

    world_trace(world, "%u is full", index + 1);
    server->is_full = true;
    if (world_chance(world, 20))
        tell(world, index, OKV_EVENT_SPENT, 0);
    server->log_has_changed = true; /* the next event tells it */
    server->full_until = world->now + world_below(world, 1000) * WORLD_MS;
}

/* A log loses its oldest part. */
static void forget(struct world *world, unsigned index)
{
    struct world_server *server = &world->servers[index];
    uint64_t kept = world_below(world, 10);

    if (server->published > server->begin + kept)
        server->begin = server->published - kept;
    server->log_has_changed = true;
}

/* The operator changes which servers are wanted; the set in sync stays. */
static void edit_key(struct world *world)
{
    world->revision++;
    world->key.by = world_below(world, 1000);
    world->key.wanted_count = world_chance(world, 70) ? WORLD_SERVERS : 2;
    for (unsigned i = 0; i < WORLD_SERVERS; i++)
        tell(world, i, OKV_EVENT_HINT, 0);
}

static void end_all(struct world *world)
{
    world_trace(world, "the faults are over");
    world->is_over = true;
    world->key.wanted_count = WORLD_SERVERS;
    world->revision++;
    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        world->servers[i].stopped_until = 0;
        world->servers[i].slow_until = 0;
        world->servers[i].full_until = 0;
        for (unsigned k = 0; k < WORLD_SERVERS; k++)
            world->stalled_until[i][k] = 0;
        tell(world, i, OKV_EVENT_HINT, 0);
    }
}

static void recover(struct world *world)
{
    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        struct world_server *server = &world->servers[i];
        server->log_has_changed |= server->is_full && world->now >= server->full_until;
        server->is_full &= world->now < server->full_until;
    }
}

static void choose(struct world *world)
{
    unsigned index = (unsigned)world_below(world, WORLD_SERVERS);
    unsigned other = (index + 1 + (unsigned)world_below(world, WORLD_SERVERS - 1)) % WORLD_SERVERS;
    struct world_server *server = &world->servers[index];

    switch (world_below(world, 16)) {
    case 0:
        if (server->is_up)
            world_server_crash(world, index);
        break;
    case 1:
    case 2:
        stop(world, index);
        break;
    case 3:
    case 4:
        stall(world, index, other);
        break;
    case 5:
        world_server_break(world, index, other);
        break;
    case 6:
    case 7:
    case 12:
    case 13:
    case 14:
        hand_over(world, index);
        break;
    case 8:
        fill(world, index);
        break;
    case 9:
        server->slow_until = world->now + world_below(world, 1500) * WORLD_MS;
        break;
    case 10:
        forget(world, index);
        break;
    default:
        edit_key(world);
    }
}

void world_fault_item(struct world *world)
{
    if (world->now >= world->faults_end)
        end_all(world);
    recover(world);
    if (world->is_over)
        return;
    choose(world);
    world_push(world, world->now + world_below(world, world->fault_gap_ms * WORLD_MS), WORLD_FAULT);
}
