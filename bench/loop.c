#include "bench/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/workload.h"
#include "shared/clock.h"

#define RESULTS 64
/* How long to wait for a result before looking whether to go on. */
#define WAIT_MS 100

void loop_tally_init(struct loop_tally *tally)
{
    memset(tally, 0, sizeof *tally);
    for (int op = 0; op < LOOP_OP_COUNT; op++)
        histogram_init(&tally->latency[op]);
}

void loop_tally_merge(struct loop_tally *into, const struct loop_tally *from)
{
    for (int op = 0; op < LOOP_OP_COUNT; op++)
        histogram_merge(&into->latency[op], &from->latency[op]);
    into->missing += from->missing;
    into->wrong += from->wrong;
    into->failed += from->failed;
    if (into->code == OKV_OK && from->code != OKV_OK) {
        into->code = from->code;
        memcpy(into->why, from->why, sizeof into->why);
    }
}

int loop_init(struct loop *loop, const struct loop_config *config)
{
    size_t key_size = config->key_size;
    size_t value_size = config->value_size;

    *loop = (struct loop){.handle = config->handle,
                          .stop = config->stop,
                          .done = config->done,
                          .slot_count = config->slot_count,
                          .depth = config->slot_count,
                          .key_size = config->key_size,
                          .value_size = config->value_size,
                          .counter = (uint64_t)config->id << 48};
    loop->slots = calloc(loop->slot_count, sizeof *loop->slots);
    loop->free_slots = calloc(loop->slot_count, sizeof *loop->free_slots);
    loop->commands = calloc(loop->slot_count, sizeof *loop->commands);
    loop->results = calloc(loop->slot_count, sizeof *loop->results);
    loop->memory_size = loop->slot_count * (key_size + value_size);
    loop->memory = calloc(1, loop->memory_size);
    int rc = loop->slots && loop->free_slots && loop->commands && loop->results && loop->memory
                 ? OKV_OK
                 : OKV_ENOMEM;
    if (rc == OKV_OK && config->registered)
        rc = okv_register(loop->handle, loop->memory, loop->memory_size, &loop->registration);
    if (rc != OKV_OK) {
        loop_fini(loop);
        return rc;
    }
    for (uint32_t i = 0; i < loop->slot_count; i++) {
        loop->slots[i].value = loop->memory + i * value_size;
        loop->slots[i].key = loop->memory + loop->slot_count * value_size + i * key_size;
        loop->free_slots[loop->free_count++] = i;
    }
    return OKV_OK;
}

void loop_fini(struct loop *loop)
{
    free(loop->slots);
    free(loop->free_slots);
    free(loop->commands);
    free(loop->results);
    free(loop->memory);
    loop->commands = NULL;
    loop->results = NULL;
    loop->slots = NULL;
    loop->free_slots = NULL;
    loop->memory = NULL;
}

/* Remembers the first failure. */
static void note_failure(struct loop *loop, int code)
{
    struct loop_tally *tally = loop->tally;

    if (tally->code != OKV_OK)
        return;
    const char *why = okv_why(loop->handle);
    tally->code = code;
    snprintf(tally->why, sizeof tally->why, "%s", why[0] != '\0' ? why : okv_strerror(code));
}

/* Codes that every later operation would meet too. */
static bool is_final(int code)
{
    switch (code) {
    case OKV_EINVAL:
    case OKV_EKEYSIZE:
    case OKV_EVALUESIZE:
    case OKV_EFULL:
    case OKV_EDISCONNECTED:
    case OKV_ESHUTDOWN:
    case OKV_EPROTO:
    case OKV_ENOMEM:
    case OKV_EIO:
        return true;
    default:
        return false;
    }
}

/* Takes a slot for an operation and adds its command to those that were gathered. */
static void gather(struct loop *loop, enum loop_op op, uint64_t record)
{
    static const enum okv_kind kinds[] = {
        [LOOP_GET] = OKV_GET, [LOOP_PUT] = OKV_PUT, [LOOP_PING] = OKV_PING};
    uint32_t index = loop->free_slots[--loop->free_count];
    struct loop_slot *slot = &loop->slots[index];
    struct okv_command command = {.kind = kinds[op], .tag = index};

    slot->op = op;
    slot->record = record;
    if (op != LOOP_PING) {
        workload_key_write(record, slot->key, loop->key_size);
        command.key = slot->key;
        command.key_length = loop->key_size;
    }
    if (op == LOOP_PUT) {
        workload_value_write(record, ++loop->counter, slot->value, loop->value_size);
        command.value = slot->value;
        command.value_length = loop->value_size;
    } else if (op == LOOP_GET) {
        command.buffer = slot->value;
        command.buffer_size = loop->value_size;
    }
    loop->commands[loop->gathered++] = command;
}

/* Submits what was gathered, with one doorbell. Returns 0, or why the rest, which stays
 * gathered, was not taken. */
static int submit(struct loop *loop)
{
    uint64_t start_ns = okv_clock_ns();
    size_t accepted = 0;

    if (loop->gathered == 0)
        return OKV_OK;
    for (uint32_t i = 0; i < loop->gathered; i++)
        loop->slots[loop->commands[i].tag].start_ns = start_ns;
    int rc = okv_submit(loop->handle, loop->commands, loop->gathered, &accepted);
    loop->gathered -= (uint32_t)accepted;
    memmove(loop->commands, loop->commands + accepted, loop->gathered * sizeof *loop->commands);
    return rc;
}

/* Gives back the slots of what is not to be submitted any more. */
static void drop_gathered(struct loop *loop)
{
    while (loop->gathered > 0)
        loop->free_slots[loop->free_count++] = (uint32_t)loop->commands[--loop->gathered].tag;
}

/* Counts the result of what is in a slot. Returns 0 or a final code. */
static int count_result(struct loop *loop, const struct loop_slot *slot,
                        const struct okv_result *result)
{
    struct loop_tally *tally = loop->tally;
    bool get = slot->op == LOOP_GET;

    if (result->status == OKV_OK || (get && result->status == OKV_ENOTFOUND)) {
        histogram_record(&tally->latency[slot->op], loop->now_ns - slot->start_ns);
        if (result->status == OKV_ENOTFOUND)
            tally->missing++;
        else if (get && !workload_value_check(slot->record, slot->value, result->length))
            tally->wrong++;
    } else if (get && result->status == OKV_ETOOSMALL) {
        tally->wrong++;
    } else {
        tally->failed++;
        note_failure(loop, result->status);
        return is_final(result->status) ? result->status : OKV_OK;
    }
    return OKV_OK;
}

static int finish(struct loop *loop, const struct okv_result *result)
{
    loop->free_slots[loop->free_count++] = (uint32_t)result->tag;
    return count_result(loop, &loop->slots[result->tag], result);
}

/* Collects what has ended. Returns 0, or the code after which nothing more comes. */
static int collect(struct loop *loop)
{
    struct okv_result results[RESULTS];
    int failure = OKV_OK;

    int count = okv_poll(loop->handle, results, RESULTS);
    if (count < 0) {
        note_failure(loop, count);
        return count;
    }
    if (count == 0) {
        okv_wait(loop->handle, WAIT_MS); /* what ends it is for the next poll to say */
        return OKV_OK;
    }
    loop->now_ns = okv_clock_ns();
    for (int i = 0; i < count; i++) {
        int rc = finish(loop, &results[i]);
        if (rc != OKV_OK)
            failure = rc;
    }
    atomic_fetch_add_explicit(loop->done, (unsigned long)count, memory_order_relaxed);
    return failure;
}

/* Operations under way. */
static uint32_t pending(const struct loop *loop)
{
    return loop->slot_count - loop->free_count - loop->gathered;
}

/* Whether more may be submitted. */
static bool goes_on(const struct loop *loop, uint64_t deadline_ns)
{
    if (atomic_load_explicit(loop->stop, memory_order_relaxed))
        return false;
    return deadline_ns == 0 || loop->now_ns < deadline_ns;
}

/* What the operations of a run are. */
struct source {
    loop_next *next;
    void *user;
    bool over;
};

/* Submits what makes `depth` under way, or all that there is. Returns 0 or a final code. */
static int fill(struct loop *loop, struct source *source)
{
    while (!source->over && pending(loop) + loop->gathered < loop->depth) {
        enum loop_op op;
        uint64_t record;
        if (source->next(source->user, &op, &record))
            gather(loop, op, record);
        else
            source->over = true;
    }
    int rc = submit(loop);
    if (rc == OKV_OK || (rc == OKV_EAGAIN && pending(loop) > 0))
        return OKV_OK;
    note_failure(loop, rc);
    return rc;
}

int loop_run(struct loop *loop, loop_next *next, void *user, uint64_t deadline_ns,
             struct loop_tally *tally)
{
    struct source source = {.next = next, .user = user};
    int rc = OKV_OK;

    loop->tally = tally;
    loop->now_ns = okv_clock_ns();
    while (rc == OKV_OK) {
        if (goes_on(loop, deadline_ns))
            rc = fill(loop, &source);
        else
            drop_gathered(loop);
        if (rc == OKV_OK && pending(loop) == 0)
            break;
        if (rc == OKV_OK)
            rc = collect(loop);
    }
    drop_gathered(loop);
    if (rc != OKV_OK)
        atomic_store_explicit(loop->stop, true, memory_order_relaxed);
    return rc;
}

/* ---- batches ------------------------------------------------------------ */

/* Fills the commands of a batch. Returns how many there are. */
static uint32_t batch_fill(struct loop *loop, loop_next *next, void *user)
{
    uint32_t count = 0;

    while (count < loop->depth) {
        struct loop_slot *slot = &loop->slots[count];
        if (!next(user, &slot->op, &slot->record))
            break;
        slot->op = LOOP_GET;
        workload_key_write(slot->record, slot->key, loop->key_size);
        loop->commands[count++] = (struct okv_command){.kind = OKV_GET,
                                                       .key = slot->key,
                                                       .key_length = loop->key_size,
                                                       .buffer = slot->value,
                                                       .buffer_size = loop->value_size};
    }
    return count;
}

static int batch_run(struct loop *loop, uint32_t count)
{
    uint64_t start_ns = okv_clock_ns();
    int rc = okv_get_many(loop->handle, loop->commands, loop->results, count);

    if (rc != OKV_OK) {
        note_failure(loop, rc);
        return rc;
    }
    loop->now_ns = okv_clock_ns();
    for (uint32_t i = 0; i < count; i++) {
        loop->slots[i].start_ns = start_ns;
        int final = count_result(loop, &loop->slots[i], &loop->results[i]);
        if (final != OKV_OK)
            rc = final;
    }
    atomic_fetch_add_explicit(loop->done, count, memory_order_relaxed);
    return rc;
}

int loop_run_many(struct loop *loop, loop_next *next, void *user, uint64_t deadline_ns,
                  struct loop_tally *tally)
{
    uint32_t count = 0;
    int rc = OKV_OK;

    loop->tally = tally;
    loop->now_ns = okv_clock_ns();
    while (rc == OKV_OK && goes_on(loop, deadline_ns) && (count = batch_fill(loop, next, user)) > 0)
        rc = batch_run(loop, count);
    if (rc != OKV_OK)
        atomic_store_explicit(loop->stop, true, memory_order_relaxed);
    return rc;
}
