#include "bench/floor/floor_gets.h"

#include <stdio.h>
#include <stdlib.h>

#include "shared/base/clock.h"

/* The limit of memory for values; a slice with more runs in pieces. */
#define VALUES_MAX (UINT64_C(64) << 20)
#define POLL_MAX 64
#define WAIT_MS 100

struct floor_get {
    uint64_t record;
    uint64_t start_ns;
    uint64_t latency_ns;
    size_t length;
    int status;
};

static uint32_t slots_of(const struct options *options, uint32_t slice, uint32_t depth)
{
    uint64_t fit = VALUES_MAX / options->values.high;
    uint32_t slots = fit < slice ? (uint32_t)fit / depth * depth : slice;

    return slots < depth ? depth : slots;
}

int floor_gets_init(struct floor_gets *gets, okv *handle, const struct options *options,
                    uint32_t slice)
{
    uint32_t depth = options->get_many > 0 ? options->get_many : options->depth;
    uint32_t slots = slots_of(options, slice, depth);
    size_t value_size = options->values.high;
    size_t size = slots * (value_size + options->key_size);

    *gets =
        (struct floor_gets){.handle = handle, .options = options, .slots = slots, .depth = depth};
    gets->gets = calloc(slots, sizeof *gets->gets);
    gets->commands = calloc(slots, sizeof *gets->commands);
    gets->results = calloc(slots > POLL_MAX ? slots : POLL_MAX, sizeof *gets->results);
    gets->memory = calloc(1, size);
    if (!gets->gets || !gets->commands || !gets->results || !gets->memory)
        return OKV_ENOMEM;
    for (uint32_t i = 0; i < slots; i++)
        gets->commands[i] = (struct okv_command){
            .kind = OKV_GET,
            .tag = i,
            .key = gets->memory + slots * value_size + i * options->key_size,
            .key_length = options->key_size,
            .buffer = gets->memory + i * value_size,
            .buffer_size = value_size,
        };
    return options->registered ? okv_register(handle, gets->memory, size, &gets->registration)
                               : OKV_OK;
}

void floor_gets_fini(struct floor_gets *gets)
{
    if (gets->registration)
        okv_unregister(gets->handle, &gets->registration);
    free(gets->gets);
    free(gets->commands);
    free(gets->results);
    free(gets->memory);
}

static void prepare(struct floor_gets *gets, const struct floor_gets_slice *slice, uint32_t count)
{
    const struct options *options = gets->options;

    for (uint32_t i = 0; i < count; i++) {
        gets->gets[i].record =
            workload_chooser_next(slice->chooser, slice->random, options->choice.records);
        workload_key_write(gets->gets[i].record, (char *)gets->commands[i].key, options->key_size);
    }
}

static void take_result(struct floor_get *get, const struct okv_result *result, uint64_t now)
{
    get->latency_ns = now - get->start_ns;
    get->length = result->length;
    get->status = result->status;
}

/* Submits as many gets as `depth` allows. Returns 0, or the reason why none was accepted while none
 * is under way. */
static int submit(struct floor_gets *gets, uint32_t count, uint32_t *submitted, uint32_t done)
{
    uint32_t room = gets->depth - (*submitted - done);
    uint32_t n = count - *submitted < room ? count - *submitted : room;
    size_t accepted = 0;

    if (n == 0)
        return OKV_OK;
    uint64_t now = okv_clock_ns();
    for (uint32_t i = 0; i < n; i++)
        gets->gets[*submitted + i].start_ns = now;
    int rc = okv_submit(gets->handle, gets->commands + *submitted, n, &accepted);
    *submitted += (uint32_t)accepted;
    return *submitted > done ? OKV_OK : rc;
}

/* Depth 1: blocking gets. */
static int run_alone(struct floor_gets *gets, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct okv_command *command = &gets->commands[i];
        struct floor_get *get = &gets->gets[i];
        get->start_ns = okv_clock_ns();
        get->status = okv_get(gets->handle, command->key, command->key_length, command->buffer,
                              command->buffer_size, &get->length, NULL);
        get->latency_ns = okv_clock_ns() - get->start_ns;
        if (get->status != OKV_OK && okv_why(gets->handle)[0] != '\0')
            return get->status; /* and so would the next */
    }
    return OKV_OK;
}

static int run_single(struct floor_gets *gets, uint32_t count)
{
    uint32_t submitted = 0;
    uint32_t done = 0;

    while (done < count) {
        int rc = submit(gets, count, &submitted, done);
        if (rc != OKV_OK)
            return rc;
        int n = okv_poll(gets->handle, gets->results, POLL_MAX);
        if (n < 0)
            return n;
        if (n == 0) {
            okv_wait(gets->handle, WAIT_MS);
            continue;
        }
        uint64_t now = okv_clock_ns();
        for (int i = 0; i < n; i++)
            take_result(&gets->gets[gets->results[i].tag], &gets->results[i], now);
        done += (uint32_t)n;
    }
    return OKV_OK;
}

static int run_batches(struct floor_gets *gets, uint32_t count)
{
    for (uint32_t first = 0; first < count; first += gets->depth) {
        uint32_t n = count - first < gets->depth ? count - first : gets->depth;
        uint64_t start_ns = okv_clock_ns();
        int rc = okv_call_many(gets->handle, gets->commands + first, gets->results, n);
        if (rc != OKV_OK)
            return rc;
        uint64_t now = okv_clock_ns();
        for (uint32_t i = 0; i < n; i++) {
            gets->gets[first + i].start_ns = start_ns;
            take_result(&gets->gets[first + i], &gets->results[i], now);
        }
    }
    return OKV_OK;
}

static int run_slots(struct floor_gets *gets, uint32_t count)
{
    if (gets->options->get_many > 0)
        return run_batches(gets, count);
    return gets->depth == 1 ? run_alone(gets, count) : run_single(gets, count);
}

static void note_failure(const struct floor_gets *gets, struct loop_tally *tally, int code)
{
    const char *why = okv_why(gets->handle);

    if (tally->code != OKV_OK)
        return;
    tally->code = code;
    snprintf(tally->why, sizeof tally->why, "%s", why[0] != '\0' ? why : okv_strerror(code));
}

static void check(const struct floor_gets *gets, const struct floor_gets_slice *slice,
                  uint32_t count)
{
    struct loop_tally *tally = slice->tally;

    for (uint32_t i = 0; i < count; i++) {
        const struct floor_get *get = &gets->gets[i];
        const char *value = gets->commands[i].buffer;
        if (get->status == OKV_ENOTFOUND) {
            tally->missing++;
        } else if (get->status == OKV_ETOOSMALL ||
                   (get->status == OKV_OK &&
                    !workload_value_check(get->record, value, get->length))) {
            tally->wrong++;
        } else if (get->status != OKV_OK) {
            tally->failed++;
            note_failure(gets, tally, get->status);
            continue;
        }
        if (slice->latency)
            histogram_record(slice->latency, get->latency_ns);
    }
}

int floor_gets_run(struct floor_gets *gets, struct floor_gets_slice *slice)
{
    slice->total_ns = 0;
    for (uint32_t done = 0; done < slice->count;) {
        uint32_t left = slice->count - done;
        uint32_t count = left < gets->slots ? left : gets->slots;
        prepare(gets, slice, count);
        uint64_t start_ns = okv_clock_ns();
        int rc = run_slots(gets, count);
        if (rc != OKV_OK) {
            note_failure(gets, slice->tally, rc);
            return rc;
        }
        slice->total_ns += okv_clock_ns() - start_ns;
        check(gets, slice, count);
        done += count;
    }
    return OKV_OK;
}
