#include "tests/support/cluster_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/random.h"

#define ITEMS 4096
#define ARENA (1u << 20)

#define FAULTS_MS 8000
#define CALM_MS 10000
#define LAST_PUTS 3 /* in the calm that follows: then a run ends */

/* A binary heap of what is to happen, by time and then by order. */
struct entry {
    uint64_t at, order;
    unsigned item;
};

static struct world_item items[ITEMS];
static unsigned free_items[ITEMS], free_count;
static struct entry heap[ITEMS];
static uint32_t arena[ARENA];

/* ---- chance, clocks, words ---- */

uint64_t world_below(struct world *world, uint64_t end)
{
    return random_below(&world->random, end);
}

bool world_chance(struct world *world, unsigned percent)
{
    return world_below(world, 100) < percent;
}

uint64_t world_delay(struct world *world)
{
    uint64_t most = world_chance(world, 97) ? 2 : world_chance(world, 90) ? 60 : 900;

    if (world->is_over && most > 60)
        most = 60;
    return WORLD_MS / 20 + world_below(world, most * WORLD_MS);
}

uint64_t world_clock_us(const struct world *world, const struct world_clock *clock)
{
    return clock->offset_us +
           world->now / 1000 * (uint64_t)(1000000 + clock->ppm) / UINT64_C(1000000);
}

struct world_clock world_make_clock(struct world *world)
{
    struct world_clock clock = {.offset_us = UINT64_C(1000000) + world_below(world, 100000000)};

    if (world->options.ppm > 0)
        clock.ppm = (int64_t)world_below(world, 3) * world->options.ppm - world->options.ppm;
    return clock;
}

void world_fail(struct world *world, const char *format, ...)
{
    va_list arguments;

    if (world->failure[0])
        return;
    va_start(arguments, format);
    vsnprintf(world->failure, sizeof world->failure, format, arguments);
    va_end(arguments);
    world_trace(world, "FAILURE: %s", world->failure);
}

void world_trace(struct world *world, const char *format, ...)
{
    va_list arguments;

    if (!world->options.is_traced)
        return;
    fprintf(stderr, "%10.3f ms ", (double)world->now / (double)WORLD_MS);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* ---- the queue ---- */

static bool is_before(const struct entry *a, const struct entry *b)
{
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void exchange(unsigned i, unsigned k)
{
    struct entry entry = heap[i];

    heap[i] = heap[k];
    heap[k] = entry;
}

struct world_item *world_push(struct world *world, uint64_t at, enum world_kind kind)
{
    unsigned i = world->queued, number;

    if (free_count == 1) { /* the last one serves until the run ends */
        world_fail(world, "too much happens at once");
        world->queued = i = 0;
    }
    number = free_items[free_count > 1 ? --free_count : 0];
    heap[i] = (struct entry){at, ++world->order, number};
    world->queued++;
    for (; i > 0 && is_before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
        exchange(i, (i - 1) / 2);
    memset(&items[number], 0, sizeof items[number]);
    items[number].kind = kind;
    items[number].at = at;
    items[number].order = world->order;
    return &items[number];
}

static unsigned pop(struct world *world)
{
    unsigned number = heap[0].item, i = 0;

    heap[0] = heap[--world->queued];
    for (;;) {
        unsigned least = i;
        for (unsigned child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < world->queued && is_before(&heap[child], &heap[least]))
                least = child;
        if (least == i)
            break;
        exchange(i, least);
        i = least;
    }
    return number;
}

uint32_t *world_frames(struct world *world, uint64_t count)
{
    uint32_t *frames = arena + world->arena_used;

    if (count > ARENA - world->arena_used) {
        world_fail(world, "too many frames");
        return arena;
    }
    world->arena_used += (unsigned)count;
    return frames;
}

/* ---- the run ---- */

static void handle(struct world *world, const struct world_item *item)
{
    switch (item->kind) {
    case WORLD_ETCD:
        world_etcd_item(world, item);
        break;
    case WORLD_FAULT:
        world_fault_item(world);
        break;
    case WORLD_FETCH:
    case WORLD_STATUS:
    case WORLD_REPLY:
    case WORLD_SAMPLE:
    case WORLD_CLIENT:
        world_client_item(world, item);
        break;
    default:
        world_server_item(world, item);
    }
}

static void choose_protocol(struct world *world)
{
    world->protocol = (struct okv_protocol_options){
        .lease_us = 1000000,
        .beat_us = 100000,
        .silent_us = 500000,
        .suspect_us = world_chance(world, 75) ? 1100000 : 700000, /* before the wait is over */
        .short_us = 50000,
        .short_beat_us = 15000,
        .again_us = 200000,
        .rho_ppm = 500,
        .lag_max = world_chance(world, 20) ? 1 : 1000,
        .copies_min = world_chance(world, 20) ? 2 : 1,
        .acks_disk = world_chance(world, 60),
        .takes_over = world_chance(world, 85),
    };
}

static void begin(struct world *world)
{
    choose_protocol(world);
    world->revision = 100;
    world->key = (struct okv_shard_key){
        .epoch = 1,
        .primary = {1, 1},
        .isr = {{1, 1}},
        .isr_count = 1,
        .wanted = {1, 2, 3},
        .wanted_count = WORLD_SERVERS,
    };
    world->faults_end = world->options.is_calm ? 0 : FAULTS_MS * WORLD_MS;
    world->fault_gap_ms = UINT64_C(100) << world_below(world, 6);
    world->etcd_losses = world_chance(world, 50) ? 30 : 2;
    world->end = (FAULTS_MS + CALM_MS) * WORLD_MS;
    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        world->servers[i].clock = world_make_clock(world);
        world->servers[i].incarnation = 1;
        world_server_start(world, i);
    }
    for (unsigned i = 0; i < WORLD_CLIENTS; i++) {
        world->clients[i].clock = world_make_clock(world);
        world->clients[i].operation = 1;
        world_push(world, world_delay(world), WORLD_CLIENT)->client = i;
    }
    world_push(world, 300 * WORLD_MS, WORLD_FAULT);
}

/* All is up and connected for longer than a take-over lasts: a server that may lead does. */
static void check_end(struct world *world)
{
    bool could = false;

    for (unsigned i = 0; i < WORLD_SERVERS; i++) {
        const struct okv_protocol *protocol = &world->servers[i].protocol;
        could |= okv_key_has(&world->key, protocol->self) &&
                 (world->protocol.takes_over || okv_member_is(world->key.primary, protocol->self));
    }
    if (could)
        world_fail(world, "no write succeeds at the end");
}

bool world_run(struct world *world, const struct world_options *options)
{
    memset(world, 0, sizeof *world);
    world->options = *options;
    world->random = random_mix(options->seed);
    for (unsigned i = 0; i < ITEMS; i++)
        free_items[i] = i;
    free_count = ITEMS;
    begin(world);
    while (!world->failure[0] && heap[0].at < world->end && world->last_puts < LAST_PUTS) {
        unsigned number = pop(world);
        world->now = items[number].at;
        handle(world, &items[number]);
        free_items[free_count++] = number;
    }
    if (!world->failure[0] && world->last_puts < LAST_PUTS)
        check_end(world);
    return !world->failure[0];
}
