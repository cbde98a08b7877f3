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
#include "shared/base/clock.h"
#include "shared/format/bucket.h"
#include "tests/figures/figure.h"
#include "tests/figures/item_place.h"
#include "tests/support/bulk.h"
#include "tests/support/random.h"

#define VALUE_MAX 16384u
#define ITEMS_MAX 4096u /* which have hints nearly always */

struct options {
    const char *uri;
    uint64_t items, gets, rounds, value;
};

struct meter {
    const struct options *options;
    okv *handle;
    uint64_t random;
    uint64_t *times; /* one for each get of a case */
    struct item_place *places;
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

static void read_now(struct meter *meter, const struct okv_read *reads, unsigned count)
{
    int rc = item_place_read(meter->handle, reads, count);

    if (rc)
        fail("a raw READ", rc);
}

static uint32_t extent_length(const struct item_place *place)
{
    return (uint32_t)okv_entry_extent_length(&place->entry);
}

static struct okv_read read_of(const struct meter *meter, uint64_t offset, uint32_t length,
                               size_t to)
{
    return (struct okv_read){.offset = offset,
                             .destination = meter->memory + to,
                             .memory = meter->registered,
                             .length = length};
}

static void read_extent(struct meter *meter, const struct item_place *place)
{
    uint32_t bucket_size = meter->handle->table.bucket_size;
    struct okv_read read = read_of(meter, place->entry.extent, extent_length(place), bucket_size);

    read_now(meter, &read, 1);
}

static void read_both(struct meter *meter, const struct item_place *place)
{
    uint32_t bucket_size = meter->handle->table.bucket_size;
    struct okv_read reads[] = {
        read_of(meter, place->offset, bucket_size, 0),
        read_of(meter, place->entry.extent, extent_length(place), bucket_size)};

    read_now(meter, reads, 2);
}

static void read_and_check_both(struct meter *meter, const struct item_place *place)
{
    const struct okv_welcome_fields *table = &meter->handle->table;

    read_both(meter, place);
    if (okv_bucket_check(meter->memory, table->bucket_size, table->boot_id, place->number, 0) ||
        okv_extent_checksum(meter->memory + table->bucket_size, extent_length(place),
                            table->boot_id) != place->entry.checksum)
        fail("a checksum", OKV_ECORRUPT);
}

/* ---- cases ---- */

static void get(struct meter *meter, const struct item_place *place)
{
    char key[BULK_KEY_BYTES];
    size_t length;

    bulk_key(key, place->item);
    int rc = okv_get(meter->handle, key, sizeof key, meter->value, VALUE_MAX, &length, NULL);
    if (rc || length != meter->options->value)
        fail("get", rc ? rc : OKV_ECORRUPT);
}

static void submit_and_poll(struct meter *meter, const struct item_place *place)
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

static void checksums(struct meter *meter, const struct item_place *place)
{
    static uint64_t sum;
    const uint8_t *extent = meter->memory + meter->handle->table.bucket_size;

    sum += okv_extent_checksum(extent, extent_length(place), 0);
    if (sum == 1) /* it is used */
        fail("the checksum", OKV_OK);
}

static void copy(struct meter *meter, const struct item_place *place)
{
    memcpy(meter->value, meter->memory + meter->handle->table.bucket_size, extent_length(place));
    __asm__ volatile("" ::"r"(meter->value) : "memory");
}

static void nothing(struct meter *meter, const struct item_place *place)
{
    (void)meter, (void)place;
}

enum { EXTENT, BOTH, CHECKED, GET, POLL, CHECKSUM, COPY, CLOCK, CASES };

static const char *const case_names[CASES] = {
    [EXTENT] = "READ of the extent",
    [BOTH] = "READs of bucket and extent, one doorbell",
    [CHECKED] = "the same, and both checksums",
    [GET] = "okv_get",
    [POLL] = "submit and poll",
    [CHECKSUM] = "checksum of the extent",
    [COPY] = "copy of the extent",
    [CLOCK] = "reading the clock, in each of them",
};

static void (*const case_runs[CASES])(struct meter *meter, const struct item_place *place) = {
    [EXTENT] = read_extent,
    [BOTH] = read_both,
    [CHECKED] = read_and_check_both,
    [GET] = get,
    [POLL] = submit_and_poll,
    [CHECKSUM] = checksums,
    [COPY] = copy,
    [CLOCK] = nothing,
};

/* The median, in us. */
static double run_case(struct meter *meter, unsigned which)
{
    uint64_t gets = meter->options->gets;

    for (uint64_t i = 0; i < gets; i++) {
        const struct item_place *place =
            &meter->places[random_below(&meter->random, meter->place_count)];
        uint64_t begin = okv_clock_ns();
        case_runs[which](meter, place);
        meter->times[i] = okv_clock_ns() - begin;
    }
    return (double)figure_median_time(meter->times, gets) / 1000;
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
    figure_print_cases(&(struct figure_cases){case_names, &times[0][0], CASES, rounds}, false);
}

/* ---- set-up ---- */

/* Finds where an item is. Those in overflow parts have no hints and are left out. */
static void place_find(struct meter *meter, uint64_t item)
{
    struct item_place *place = &meter->places[meter->place_count];
    int rc = item_place_find(meter->handle, item, meter->memory, meter->registered, place);

    if (rc < 0)
        fail("a raw READ", rc);
    meter->place_count += rc == 1 && place->entry.is_reference;
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
            get(meter, &(struct item_place){.item = i});
    for (uint64_t i = 0; i < items; i++)
        place_find(meter, i);
    if (meter->place_count == 0)
        fail("items without extents", OKV_EVALUESIZE);
    printf("%" PRIu64 " of %" PRIu64 " items have extents, of %" PRIu32
           " bytes, and are in the first parts of their buckets\n",
           meter->place_count, items, extent_length(&meter->places[0]));
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
