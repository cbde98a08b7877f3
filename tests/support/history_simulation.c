#include "tests/support/history_simulation.h"

#include <stdlib.h>

/* How many operations may be waiting to take effect late; then the last ones never do. */
#define LATE_MAX 64

struct simulated_item {
    uint64_t value;
    uint64_t last;    /* the version, or the last one it had */
    uint64_t earlier; /* the one before */
    bool present;
};

/* An operation under way, or one that takes effect although nobody waits for it. */
struct simulated_operation {
    struct history_record record;
    uint64_t effect; /* when it takes effect */
    bool without;    /* it never does */
};

struct world {
    const struct history_simulation *params;
    uint64_t random;
    uint64_t next_value;
    struct simulated_item *items;
    struct history_log *logs;
    struct simulated_operation *current; /* one for each thread */
    struct simulated_operation late[LATE_MAX];
    unsigned late_count;
};

static uint64_t below(struct world *world, uint64_t bound)
{
    return history_random_below(&world->random, bound);
}

static bool percent(struct world *world, uint64_t percentage)
{
    return below(world, 100) < percentage;
}

/* ---- the store ---- */

static enum history_result refusal(const struct world *world, const struct history_record *record,
                                   const struct simulated_item *item)
{
    switch (record->kind) {
    case HISTORY_ADD:
        return item->present ? HISTORY_EXISTS : HISTORY_OK;
    case HISTORY_INCR:
        return item->present || !world->params->incr_needs_item ? HISTORY_OK : HISTORY_NOTFOUND;
    case HISTORY_PUT:
        return HISTORY_OK;
    default:
        if (!item->present)
            return HISTORY_NOTFOUND;
        return record->expected && record->expected != item->last ? HISTORY_CONFLICT : HISTORY_OK;
    }
}

static void take_effect(struct world *world, struct history_record *record)
{
    struct simulated_item *item = &world->items[record->key];

    record->result = (uint8_t)refusal(world, record, item);
    if (record->result == HISTORY_EXISTS || record->result == HISTORY_CONFLICT)
        record->version = percent(world, 50) ? item->last : 0;
    if (record->result != HISTORY_OK)
        return;
    if (record->kind == HISTORY_GET) {
        record->value = item->value;
        record->version = item->last;
        return;
    }
    item->present = record->kind != HISTORY_DELETE;
    if (!item->present) {
        item->value = 0;
        return;
    }
    item->value = record->kind == HISTORY_INCR ? item->value + record->argument : record->argument;
    item->earlier = item->last;
    item->last += 1 + below(world, world->params->version_step);
    record->version = item->last;
    if (record->kind == HISTORY_INCR)
        record->value = item->value;
}

/* ---- the threads ---- */

static uint8_t choose_kind(struct world *world, bool counter)
{
    static const uint8_t kinds[] = {
        HISTORY_GET, HISTORY_GET, HISTORY_GET, HISTORY_GET,    HISTORY_GET, HISTORY_PUT,
        HISTORY_PUT, HISTORY_CAS, HISTORY_CAS, HISTORY_DELETE, HISTORY_ADD,
    };

    if (counter && percent(world, 50))
        return HISTORY_INCR;
    return kinds[below(world, sizeof kinds)];
}

static uint64_t choose_expected(struct world *world, const struct simulated_item *item)
{
    uint64_t version = percent(world, 75) ? item->last : item->earlier;

    if (percent(world, world->params->odd_percent))
        version += below(world, world->params->version_step + 1);
    return version ? version : 1;
}

static void choose_operation(struct world *world, struct history_record *record)
{
    const struct history_simulation *params = world->params;

    record->key = percent(world, params->hot_percent) ? 0 : (uint32_t)below(world, params->keys);
    bool counter = record->key >= params->keys - params->counters;
    record->kind = choose_kind(world, counter);
    if (record->kind == HISTORY_CAS || (record->kind == HISTORY_DELETE && percent(world, 30)))
        record->expected = choose_expected(world, &world->items[record->key]);
    if (record->kind == HISTORY_INCR)
        record->argument = params->ambiguous ? below(world, 5) - 1 : 1;
    else if (record->kind != HISTORY_GET && record->kind != HISTORY_DELETE)
        record->argument = counter && params->ambiguous ? below(world, 4)
                           : counter                    ? ++world->next_value << 20
                                                        : ++world->next_value;
}

static void begin(struct world *world, struct simulated_operation *operation, uint64_t now)
{
    const struct history_simulation *params = world->params;

    *operation = (struct simulated_operation){0};
    choose_operation(world, &operation->record);
    operation->record.invoke = now + below(world, params->duration + 1);
    operation->effect = operation->record.invoke + below(world, params->duration + 1);
    operation->record.response = operation->effect + below(world, params->duration + 1);
    if (below(world, 1000) >= params->unknown_permille)
        return;
    operation->record.result = HISTORY_UNKNOWN;
    operation->without = below(world, 3) == 0;
    if (operation->without || percent(world, 50) || world->late_count == LATE_MAX)
        return;
    operation->effect += below(world, 20 * (uint64_t)params->duration + 1);
    world->late[world->late_count++] = *operation;
    /* The thread goes on; what it leaves behind no longer is its business. */
    operation->without = true;
    operation->effect = operation->record.response;
}

/* Whose turn it is; a late operation's if `late`. */
static unsigned choose_next(const struct world *world, bool *late)
{
    unsigned next = 0;
    uint64_t effect = UINT64_MAX;

    for (unsigned i = 0; i < world->params->threads; i++) {
        if (world->current[i].effect < effect) {
            effect = world->current[i].effect;
            next = i;
            *late = false;
        }
    }
    for (unsigned i = 0; i < world->late_count; i++) {
        if (world->late[i].effect < effect) {
            effect = world->late[i].effect;
            next = i;
            *late = true;
        }
    }
    return next;
}

/* The thread has its answer, or gave up waiting at the time of the response. */
static bool finish(struct world *world, unsigned thread)
{
    struct simulated_operation *operation = &world->current[thread];
    bool unknown = operation->record.result == HISTORY_UNKNOWN;

    if (!unknown) {
        take_effect(world, &operation->record);
    } else if (!operation->without) {
        struct history_record dropped = operation->record;
        take_effect(world, &dropped);
    }
    if (!history_log_append(&world->logs[thread], &operation->record))
        return false;
    begin(world, operation, operation->record.response);
    return true;
}

static bool run(struct world *world)
{
    for (unsigned i = 0; i < world->params->threads; i++)
        begin(world, &world->current[i], 1);
    for (uint64_t done = 0; done < world->params->operations;) {
        bool late = false;
        unsigned next = choose_next(world, &late);
        if (late) {
            take_effect(world, &world->late[next].record);
            world->late[next] = world->late[--world->late_count];
            continue;
        }
        if (!finish(world, next))
            return false;
        done++;
    }
    /* What took effect must be on record, also if the end came before its time was up. */
    for (unsigned i = 0; i < world->params->threads; i++)
        if (world->current[i].record.result == HISTORY_UNKNOWN &&
            !history_log_append(&world->logs[i], &world->current[i].record))
            return false;
    return true;
}

bool history_simulate(const struct history_simulation *simulation, struct history *out)
{
    uint32_t threads = simulation->threads;
    struct world world = {.params = simulation,
                          .random = (simulation->seed + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    bool good;

    *out = (struct history){0};
    if (!world.random)
        world.random = 1;
    world.items = calloc(simulation->keys, sizeof *world.items);
    world.current = calloc(threads, sizeof *world.current);
    world.logs = aligned_alloc(_Alignof(struct history_log), threads * sizeof *world.logs);
    good = world.items && world.current && world.logs;
    for (uint32_t i = 0; world.logs && i < threads; i++)
        good =
            history_log_init(&world.logs[i], (uint16_t)i, simulation->operations / threads + 1) &&
            good;
    good = good && run(&world) && history_merge(out, world.logs, threads);
    for (uint32_t i = 0; world.logs && i < threads; i++)
        history_log_fini(&world.logs[i]);
    free(world.items);
    free(world.current);
    free(world.logs);
    return good;
}
