/*
 * Clients of the simulated world. A get is a READ of a server's memory, also of one that stands
 * still. It counts only if the server's clock is below the valid-until of a status that the client
 * has READ, of the epoch that it knew when it posted. Of that clock it knows an upper bound: a
 * sample that the server read after the client's request was posted, and what has passed since.
 */
#include <inttypes.h>
#include <string.h>

#include "tests/support/cluster_world.h"

#define GIVEN_UP_MS 700

static uint64_t now_us(const struct world *world, unsigned client)
{
    return world_clock_us(world, &world->clients[client].clock);
}

/* The highest that the server's clock may have; UINT64_MAX: unknown. */
static uint64_t upper_bound_us(const struct world *world, const struct world_session *session,
                               uint64_t now)
{
    uint64_t bound = UINT64_MAX;

    for (unsigned i = 0; i < session->taken && i < WORLD_SAMPLES; i++) {
        const struct world_sample *sample = &session->samples[i];
        uint64_t passed = now - sample->posted_us;
        uint64_t high = sample->clock_us + passed +
                        (passed * 3 * world->protocol.rho_ppm + 999999) / 1000000 + 1;
        if (high < bound)
            bound = high;
    }
    return bound;
}

static struct world_item *post(struct world *world, unsigned client, enum world_kind kind,
                               uint64_t delay)
{
    struct world_client *self = &world->clients[client];
    struct world_item *item = world_push(world, world->now + delay, kind);

    item->client = client;
    item->server = self->server;
    item->operation = self->operation;
    item->posted_us = now_us(world, client);
    item->epoch = self->sessions[self->server].epoch;
    return item;
}

/* What was answered or seen is a floor for all that begins later. */
static void count(struct world *world, struct world_client *client, uint64_t position)
{
    if (position < client->floor + client->is_put)
        world_fail(world, "a %s at %" PRIu64 " began after %" PRIu64 " was seen",
                   client->is_put ? "put" : "get", position, client->floor);
    if (position > world->seen)
        world->seen = position;
    if (client->is_put) {
        world->puts++;
        world->last_puts += world->is_over;
    } else {
        world->gets++;
    }
}

static void begin_next(struct world *world, unsigned client)
{
    world->clients[client].operation++;
    world_push(world, world->now + world_below(world, 40 * WORLD_MS), WORLD_CLIENT)->client =
        client;
}

/* By a READ, a message or as a put; it is given up if nothing comes back. */
static void begin(struct world *world, unsigned client)
{
    struct world_client *self = &world->clients[client];
    unsigned kind = (unsigned)world_below(world, 10);

    self->floor = world->seen;
    self->server = world->is_over || world_chance(world, 85)
                       ? (unsigned)world->key.primary.server - 1
                       : (unsigned)world_below(world, WORLD_SERVERS);
    self->is_put = kind >= 7;
    post(world, client, WORLD_CLIENT, GIVEN_UP_MS * WORLD_MS);
    if (self->is_put) {
        post(world, client, WORLD_PUT, world_delay(world));
    } else if (kind == 6) {
        post(world, client, WORLD_ASK, world_delay(world));
    } else {
        if (self->sessions[self->server].taken == 0 || world_chance(world, 5))
            post(world, client, WORLD_PING, world_delay(world));
        if (world_chance(world, 50))
            post(world, client, WORLD_STATUS, world_delay(world));
        post(world, client, WORLD_FETCH, world_delay(world));
    }
}

/* A READ takes what the memory has when it arrives; completions are in order, so a status that was
 * posted first is known by then. */
static void fetch(struct world *world, const struct world_item *item)
{
    struct world_server *server = &world->servers[item->server];
    struct world_item *reply;

    if (!server->is_up)
        return;
    reply = world_push(world, world->now + world_delay(world), WORLD_REPLY);
    reply->client = item->client;
    reply->server = item->server;
    reply->operation = item->operation;
    reply->boot = server->boot;
    reply->is_read = true;
    reply->position = server->published;
    reply->is_status = item->kind == WORLD_STATUS;
    reply->clock_us = server->status.valid_until_us;
    reply->epoch = item->kind == WORLD_STATUS ? server->status.epoch : item->epoch;
}

/* Those of another boot are not those of this connection. */
static struct world_session *find_session(struct world *world, const struct world_item *item)
{
    struct world_session *session = &world->clients[item->client].sessions[item->server];

    if (session->boot != item->boot) {
        memset(session, 0, sizeof *session);
        session->boot = item->boot;
    }
    return session;
}

/* The server served in this epoch already when the READ was posted, and until after it completed.
 * Without the first, the memory may be from before: that of a copy, or of an older epoch. */
static bool is_covered(const struct world *world, const struct world_session *session,
                       const struct world_item *item)
{
    uint64_t clock = upper_bound_us(world, session, now_us(world, item->client));

    return session->epoch != 0 && item->epoch == session->epoch && clock < session->valid_until_us;
}

static void complete(struct world *world, const struct world_item *item)
{
    struct world_client *client = &world->clients[item->client];
    struct world_session *session = find_session(world, item);
    if (item->is_status) {
        session->valid_until_us = item->clock_us;
        session->epoch = item->clock_us > 0 ? item->epoch : 0;
        return;
    }
    if (item->operation != client->operation)
        return;
    if (item->is_read && !is_covered(world, session, item))
        world->stale++; /* it has no result */
    else
        count(world, client, item->position);
    begin_next(world, item->client);
}

static void take_sample(struct world *world, const struct world_item *item)
{
    struct world_session *session = find_session(world, item);

    session->samples[session->taken++ % WORLD_SAMPLES] =
        (struct world_sample){item->posted_us, item->clock_us};
}

void world_answer_put(struct world *world, struct world_put put, uint64_t position)
{
    struct world_item *reply = world_push(world, world->now + world_delay(world), WORLD_REPLY);

    reply->client = put.client;
    reply->operation = put.operation;
    reply->position = position;
    reply->is_answer = true;
}

void world_client_item(struct world *world, const struct world_item *item)
{
    struct world_client *client = &world->clients[item->client];

    switch (item->kind) {
    case WORLD_CLIENT:
        if (item->operation == 0)
            begin(world, item->client);
        else if (item->operation == client->operation)
            begin_next(world, item->client);
        break;
    case WORLD_FETCH:
    case WORLD_STATUS:
        fetch(world, item);
        break;
    case WORLD_SAMPLE:
        take_sample(world, item);
        break;
    default:
        if (!item->is_answer) {
            complete(world, item);
        } else if (item->operation == client->operation) {
            count(world, client, item->position);
            begin_next(world, item->client);
        }
    }
}
