/*
 * What a get of a large item costs by a hint, beside what it is made of: the READ of its extent
 * alone, the same with the READ of its bucket before it at one doorbell, and those with the
 * checksums of both. What the last two are above the first, no get that asks the bucket what is
 * current, and believes nothing unchecked, can do without.
 *
 *   hint_cost -s URI [--items N] [--value BYTES] [--gets N] [--rounds R]
 *
 * Items are put first, and each has a hint before anything is measured. Each round measures every
 * case once, in another order; ratios are medians of the rounds' ratios.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/handle.h"
#include "shared/bucket.h"
#include "shared/clock.h"
#include "shared/hash.h"
#include "shared/linear.h"
#include "tests/figures/figure.h"
#include "tests/support/bulk.h"
#include "tests/support/random.h"

#define VALUE_MAX 16384u
#define ITEMS_MAX 4096u /* which have hints nearly always */
#define POLLS_MAX 100000000u

struct options {
    const char *uri;
    uint64_t items, gets, rounds, value;
};

/* Where an item's bytes are. */
struct place {
    uint64_t item;
    uint64_t number; /* of the bucket */
    uint64_t bucket;
    uint64_t extent;
    uint32_t length;
    uint64_t checksum;
};

struct meter {
    const struct options *options;
    okv *handle;
    uint64_t random;
    uint64_t *times; /* one for each get of a case */
    struct place *places;
    uint64_t place_count;
    uint8_t *memory; /* a bucket, and behind it an extent */
    struct okv_memory *registered;
    uint8_t value[VALUE_MAX];
};

static void fail(const char *what, int code)
{
    fprintf(stderr, "hint_cost: %s: %s\n", what, okv_strerror(code));
    exit(1);
}

/* ---- READs without okv around them ---- */

/* Posts them at once and waits for all of them. */
static void read_now(struct meter *meter, const struct okv_read *reads, unsigned count)
{
    const okv *handle = meter->handle;
    struct okv_event events[8];
    unsigned done = 0;
    int rc = handle->transport->post_read(handle->conn, reads, count);

    for (unsigned i = 0; rc == 0 && done < count; i++) {
        int n = handle->transport->poll(handle->conn->endpoint, events, 8);
        for (int k = 0; rc == 0 && k < n; k++)
            rc = events[k].type == OKV_EVENT_READ ? events[k].status : OKV_EIO;
        if (n < 0 || i == POLLS_MAX)
            rc = OKV_EIO;
        done += n > 0 ? (unsigned)n : 0;
    }
    if (rc)
        fail("a raw READ", rc);
}

static struct okv_read read_of(const struct meter *meter, uint64_t offset, uint32_t length,
                               size_t to)
{
    return (struct okv_read){.offset = offset,
                             .destination = meter->memory + to,
                             .memory = meter->registered,
                             .length = length};
}

static void read_extent(struct meter *meter, const struct place *place)
{
    uint32_t bucket_size = meter->handle->table.bucket_size;
    struct okv_read read = read_of(meter, place->extent, place->length, bucket_size);

    read_now(meter, &read, 1);
}

static void read_both(struct meter *meter, const struct place *place)
{
    uint32_t bucket_size = meter->handle->table.bucket_size;
    struct okv_read reads[] = {read_of(meter, place->bucket, bucket_size, 0),
                               read_of(meter, place->extent, place->length, bucket_size)};

    read_now(meter, reads, 2);
}

static void read_and_check_both(struct meter *meter, const struct place *place)
{
    const struct okv_welcome_fields *table = &meter->handle->table;

    read_both(meter, place);
    if (okv_bucket_check(meter->memory, table->bucket_size, table->boot_id, place->number, 0) ||
        okv_extent_checksum(meter->memory + table->bucket_size, place->length, table->boot_id) !=
            place->checksum)
        fail("a checksum", OKV_ECORRUPT);
}

/* ---- cases ---- */

static void get(struct meter *meter, const struct place *place)
{
    char key[BULK_KEY_BYTES];
    size_t length;

    bulk_key(key, place->item);
    int rc = okv_get(meter->handle, key, sizeof key, meter->value, VALUE_MAX, &length, NULL);
    if (rc || length != meter->options->value)
        fail("get", rc ? rc : OKV_ECORRUPT);
}

static void submit_and_poll(struct meter *meter, const struct place *place)
{
    char key[BULK_KEY_BYTES];
    struct okv_result result;
    int n = 0;

    bulk_key(key, place->item);
    int rc = okv_submit_get(meter->handle, key, sizeof key, meter->value, VALUE_MAX, 0);
    while (rc == 0 && n == 0)
        n = okv_poll(meter->handle, &result, 1);
    if (rc || n < 0 || result.status)
        fail("submit and poll", rc ? rc : n < 0 ? n : result.status);
}

static void checksums(struct meter *meter, const struct place *place)
{
    static uint64_t sum;
    const uint8_t *extent = meter->memory + meter->handle->table.bucket_size;

    sum += okv_extent_checksum(extent, place->length, 0);
    if (sum == 1) /* it is used */
        fail("the checksum", OKV_OK);
}

static void copy(struct meter *meter, const struct place *place)
{
    memcpy(meter->value, meter->memory + meter->handle->table.bucket_size, place->length);
    __asm__ volatile("" ::"r"(meter->value) : "memory");
}

static void nothing(struct meter *meter, const struct place *place)
{
    (void)meter, (void)place;
}

enum { EXTENT, BOTH, CHECKED, GET, POLL, CHECKSUM, COPY, CLOCK, CASES };

static const struct {
    const char *name;
    void (*run)(struct meter *meter, const struct place *place);
} cases[CASES] = {
    [EXTENT] = {"READ of the extent", read_extent},
    [BOTH] = {"READs of bucket and extent, one doorbell", read_both},
    [CHECKED] = {"the same, and both checksums", read_and_check_both},
    [GET] = {"okv_get", get},
    [POLL] = {"submit and poll", submit_and_poll},
    [CHECKSUM] = {"checksum of the extent", checksums},
    [COPY] = {"copy of the extent", copy},
    [CLOCK] = {"reading the clock, in each of them", nothing},
};

/* The median. */
static double run_case(struct meter *meter, unsigned which)
{
    uint64_t gets = meter->options->gets;

    for (uint64_t i = 0; i < gets; i++) {
        const struct place *place =
            &meter->places[random_below(&meter->random, meter->place_count)];
        uint64_t begin = okv_clock_ns();
        cases[which].run(meter, place);
        meter->times[i] = okv_clock_ns() - begin;
    }
    return (double)figure_median_time(meter->times, gets);
}

/* ---- rounds ---- */

static void compare_cases(struct meter *meter)
{
    static double times[FIGURE_ROUNDS_MAX][CASES];
    uint64_t rounds = meter->options->rounds;
    struct okv_counters before, after;

    okv_counters(meter->handle, &before);
    for (uint64_t round = 0; round < rounds; round++)
        for (unsigned i = 0; i < CASES; i++) {
            unsigned which = (unsigned)(round + i) % CASES;
            times[round][which] = run_case(meter, which);
        }
    okv_counters(meter->handle, &after);
    printf("%" PRIu64 " gets, %" PRIu64 " by a hint\n", after.gets - before.gets,
           after.hints_right - before.hints_right);
    printf("%12s  %21s\n", "ns", "over the first");
    for (unsigned i = 0; i < CASES; i++) {
        double values[FIGURE_ROUNDS_MAX], ratios[FIGURE_ROUNDS_MAX];
        for (uint64_t round = 0; round < rounds; round++) {
            values[round] = times[round][i];
            ratios[round] = times[round][i] / times[round][EXTENT];
        }
        double ratio = figure_median(ratios, rounds);
        printf("%12.0f  %5.2f (%5.2f to %5.2f)  %s\n", figure_median(values, rounds), ratio,
               ratios[0], ratios[rounds - 1], cases[i].name);
    }
}

/* ---- set-up ---- */

static uint64_t bucket_offset(const okv *handle, uint64_t bucket)
{
    const struct okv_welcome_fields *table = &handle->table;
    uint64_t segment = handle->directory[bucket / table->segment_buckets];

    return segment + bucket % table->segment_buckets * table->bucket_size;
}

/* Finds where an item is. Those in overflow parts have no hints and are left out. */
static void item_find(struct meter *meter, uint64_t item)
{
    const struct okv_welcome_fields *table = &meter->handle->table;
    struct place *place = &meter->places[meter->place_count];
    char key[BULK_KEY_BYTES];
    struct okv_entry entry;
    uint32_t position = 0;

    bulk_key(key, item);
    uint64_t hash = okv_hash_key(key, sizeof key, table->hash_seed);
    place->item = item;
    place->number = okv_linear_bucket(hash, meter->handle->bucket_count);
    place->bucket = bucket_offset(meter->handle, place->number);
    struct okv_read read = read_of(meter, place->bucket, table->bucket_size, 0);
    read_now(meter, &read, 1);
    if (okv_bucket_check(meter->memory, table->bucket_size, table->boot_id, place->number, 0) ||
        okv_bucket_find(meter->memory, hash, key, sizeof key, &position, &entry) != 1 ||
        !entry.is_reference)
        return;
    place->extent = entry.extent;
    place->length = (uint32_t)okv_entry_extent_length(&entry);
    place->checksum = entry.checksum;
    meter->place_count++;
}

static void items_prepare(struct meter *meter)
{
    uint64_t items = meter->options->items;
    char key[BULK_KEY_BYTES];

    for (uint64_t i = 0; i < items; i++) {
        bulk_key(key, i);
        int rc = okv_put(meter->handle, key, sizeof key, meter->value, meter->options->value, NULL);
        if (rc)
            fail("put", rc);
    }
    for (unsigned round = 0; round < 2; round++) /* learns the index, then hints */
        for (uint64_t i = 0; i < items; i++)
            get(meter, &(struct place){.item = i});
    for (uint64_t i = 0; i < items; i++)
        item_find(meter, i);
    if (meter->place_count == 0)
        fail("items without extents", OKV_EVALUESIZE);
    printf("%" PRIu64 " of %" PRIu64 " items have extents, of %" PRIu32
           " bytes, and are in the first parts of their buckets\n",
           meter->place_count, items, meter->places[0].length);
}

static void meter_init(struct meter *meter, const struct options *options)
{
    struct okv_options how = {.timeout_ms = 60000};
    char why[320];

    meter->options = options;
    meter->random = random_seed();
    if (okv_open(options->uri, &how, &meter->handle, why, sizeof why)) {
        fprintf(stderr, "hint_cost: %s\n", why);
        exit(1);
    }
    const okv *handle = meter->handle;
    size_t size = handle->table.bucket_size + VALUE_MAX + BULK_KEY_BYTES;
    meter->times = calloc(options->gets, sizeof *meter->times);
    meter->places = calloc(options->items, sizeof *meter->places);
    meter->memory = calloc(1, size);
    if (!meter->times || !meter->places || !meter->memory)
        fail("start", OKV_ENOMEM);
    int rc = handle->transport->memory_register(handle->conn->endpoint, meter->memory, size,
                                                &meter->registered);
    if (rc)
        fail("start", rc);
}

static void meter_fini(struct meter *meter)
{
    meter->handle->transport->memory_unregister(meter->registered);
    okv_close(&meter->handle);
    free(meter->memory);
    free(meter->places);
    free(meter->times);
}

enum option_key { OPTION_ITEMS = 256, OPTION_VALUE, OPTION_GETS, OPTION_ROUNDS };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 's':
        options->uri = text;
        return 0;
    case OPTION_ITEMS:
        options->items = figure_number(text, 1, ITEMS_MAX, state);
        return 0;
    case OPTION_VALUE:
        options->value = figure_number(text, 1, VALUE_MAX, state);
        return 0;
    case OPTION_GETS:
        options->gets = figure_number(text, 1, 1000000000, state);
        return 0;
    case OPTION_ROUNDS:
        options->rounds = figure_number(text, 1, FIGURE_ROUNDS_MAX, state);
        return 0;
    case ARGP_KEY_END:
        if (!options->uri)
            argp_error(state, "name the server: -s URI");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"server", 's', "URI", 0, "The server", 0},
        {"items", OPTION_ITEMS, "N", 0, "Items to put first (1000)", 0},
        {"value", OPTION_VALUE, "BYTES", 0, "Of each value (4096)", 0},
        {"gets", OPTION_GETS, "N", 0, "Gets of each measurement (5000)", 0},
        {"rounds", OPTION_ROUNDS, "R", 0, "Of measurements (7)", 0},
        {0},
    };
    static const struct argp parser = {
        .options = known,
        .parser = parse_option,
        .doc = "Measures gets of large items by hints beside what they are made of."};
    static struct meter meter;
    struct options options = {.items = 1000, .gets = 5000, .rounds = 7, .value = 4096};

    argp_parse(&parser, argc, argv, 0, NULL, &options);
    meter_init(&meter, &options);
    items_prepare(&meter);
    compare_cases(&meter);
    meter_fini(&meter);
    return 0;
}
