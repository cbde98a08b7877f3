/*
 * What gets with several under way cost beside what they are made of: READs of buckets alone, the
 * same with the checksum of each image, and with the search for the key in it. What the last is
 * above the first, no get that believes nothing unchecked can do without.
 *
 *   look_cost -s URI [--items N] [--depth D] [--gets N] [--rounds R]
 *
 * Items are put first. Each round measures every case in slices by turns, each time in another
 * order; ratios are medians of the rounds' ratios. Items that take a second READ are left out
 * everywhere.
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

#define DEPTH_MAX 64u
#define ITEMS_MAX 100000000u
#define EVENTS 64
/* Depths in a slice: so few that what disturbs a machine disturbs all cases. */
#define SLICE_DEPTHS 16

struct options {
    const char *uri;
    uint64_t items, gets, rounds, depth;
};

struct meter {
    const struct options *options;
    okv *handle;
    uint64_t random;
    struct item_place *places;
    uint64_t place_count;
    uint64_t slice;                  /* gets in one */
    const struct item_place **order; /* [slice] */
    char (*keys)[BULK_KEY_BYTES];
    uint8_t *images; /* [depth] */
    struct okv_memory *registered;
    uint8_t values[DEPTH_MAX][BULK_VALUE_BYTES];
};

static void fail(const char *what, int code)
{
    fprintf(stderr, "look_cost: %s: %s\n", what, okv_strerror(code));
    exit(1);
}

/* ---- READs, and what is done with what they bring ---- */

typedef void look_function(struct meter *meter, const uint8_t *image, uint64_t which);

static void look_not(struct meter *meter, const uint8_t *image, uint64_t which)
{
    (void)meter, (void)image, (void)which;
}

static void look_check(struct meter *meter, const uint8_t *image, uint64_t which)
{
    const struct okv_welcome_fields *table = &meter->handle->table;

    if (okv_bucket_check(image, table->bucket_size, table->boot_id, meter->order[which]->number, 0))
        fail("a checksum", OKV_ECORRUPT);
}

static void look_find(struct meter *meter, const uint8_t *image, uint64_t which)
{
    struct okv_entry entry;
    uint32_t position = 0;

    look_check(meter, image, which);
    if (okv_bucket_find(image, meter->order[which]->hash, meter->keys[which], BULK_KEY_BYTES,
                        &position, &entry) != 1)
        fail("an item", OKV_ENOTFOUND);
    memcpy(meter->values[0], entry.value, BULK_VALUE_BYTES);
}

/* As the floor of kv-bench: those that one turn found ended are followed by as many with one
 * doorbell. */
static void run_reads(struct meter *meter, look_function *look)
{
    const okv *handle = meter->handle;
    uint32_t size = handle->table.bucket_size;
    uint64_t gets = meter->slice, begun = 0, ended = 0;
    struct okv_read reads[DEPTH_MAX];
    struct okv_event events[EVENTS];
    unsigned count = (unsigned)meter->options->depth;

    for (unsigned i = 0; i < count; i++)
        reads[i].destination = meter->images + (size_t)i * size;
    while (ended < gets) {
        for (unsigned i = 0; i < count; i++, begun++) {
            reads[i].offset = meter->order[begun]->offset;
            reads[i].memory = meter->registered;
            reads[i].length = size;
            uint64_t slot = (uint64_t)((uint8_t *)reads[i].destination - meter->images) / size;
            reads[i].cookie = slot << 32 | begun;
        }
        int rc = count ? handle->transport->post_read(handle->conn, reads, count) : 0;
        if (rc)
            fail("a raw READ", rc);
        int n = handle->transport->poll(handle->conn->endpoint, events, EVENTS);
        if (n < 0)
            fail("a raw READ", n);
        count = 0;
        for (int i = 0; i < n; i++) {
            if (events[i].type != OKV_EVENT_READ || events[i].status)
                fail("a raw READ", OKV_EIO);
            uint8_t *image = meter->images + (events[i].cookie >> 32) * size;
            look(meter, image, (uint32_t)events[i].cookie);
            if (begun + count < gets)
                reads[count++].destination = image;
        }
        ended += (unsigned)n;
    }
}

static void run_bare(struct meter *meter)
{
    run_reads(meter, look_not);
}

static void run_check(struct meter *meter)
{
    run_reads(meter, look_check);
}

static void run_find(struct meter *meter)
{
    run_reads(meter, look_find);
}

/* ---- gets ---- */

static void check_result(const struct okv_result *result)
{
    if (result->status || result->length != BULK_VALUE_BYTES)
        fail("get", result->status ? result->status : OKV_ECORRUPT);
}

static void command_fill(struct meter *meter, struct okv_command *command, uint64_t which,
                         uint64_t place)
{
    *command = (struct okv_command){
        .kind = OKV_GET,
        .tag = place,
        .key = meter->keys[which],
        .key_length = BULK_KEY_BYTES,
        .buffer = meter->values[place],
        .buffer_size = BULK_VALUE_BYTES,
    };
}

static void run_poll(struct meter *meter)
{
    struct okv_command commands[DEPTH_MAX];
    struct okv_result results[EVENTS];
    uint64_t gets = meter->slice, begun = 0, ended = 0;
    unsigned count = (unsigned)meter->options->depth;

    for (unsigned i = 0; i < count; i++)
        results[i].tag = i;
    while (ended < gets) {
        size_t accepted = 0;
        for (unsigned i = 0; i < count; i++, begun++)
            command_fill(meter, &commands[i], begun, results[i].tag);
        int rc = count ? okv_submit(meter->handle, commands, count, &accepted) : 0;
        if (rc || accepted != count)
            fail("submit", rc);
        int n = okv_poll(meter->handle, results, EVENTS);
        if (n < 0)
            fail("poll", n);
        for (int i = 0; i < n; i++)
            check_result(&results[i]);
        ended += (unsigned)n;
        count = gets - begun < (unsigned)n ? (unsigned)(gets - begun) : (unsigned)n;
    }
}

static void run_many(struct meter *meter)
{
    struct okv_command commands[DEPTH_MAX];
    struct okv_result results[DEPTH_MAX];
    unsigned depth = (unsigned)meter->options->depth;

    for (uint64_t done = 0; done < meter->slice; done += depth) {
        for (unsigned i = 0; i < depth; i++)
            command_fill(meter, &commands[i], done + i, i);
        int rc = okv_get_many(meter->handle, commands, results, depth);
        if (rc)
            fail("get-many", rc);
        for (unsigned i = 0; i < depth; i++)
            check_result(&results[i]);
    }
}

/* ---- rounds ---- */

enum { BARE, CHECK, FIND, POLL, MANY, CASES };

static const char *const case_names[CASES] = {
    [BARE] = "READs",
    [CHECK] = "the same, and their checksums",
    [FIND] = "the same, the search for the key and a copy of the value",
    [POLL] = "okv_submit and okv_poll",
    [MANY] = "okv_get_many",
};

static void (*const case_runs[CASES])(struct meter *meter) = {
    [BARE] = run_bare, [CHECK] = run_check, [FIND] = run_find, [POLL] = run_poll, [MANY] = run_many,
};

/* Nanoseconds of a slice. */
static uint64_t run_slice(struct meter *meter, unsigned which)
{
    for (uint64_t i = 0; i < meter->slice; i++) {
        meter->order[i] = &meter->places[random_below(&meter->random, meter->place_count)];
        bulk_key(meter->keys[i], meter->order[i]->item);
    }
    uint64_t begin = okv_clock_ns();
    case_runs[which](meter);
    return okv_clock_ns() - begin;
}

static void run_round(struct meter *meter, double times[CASES])
{
    uint64_t slices = meter->options->gets / meter->slice, spent[CASES] = {0};

    for (uint64_t slice = 0; slice < slices; slice++)
        for (unsigned i = 0; i < CASES; i++) {
            unsigned which = (unsigned)(slice + i) % CASES;
            spent[which] += run_slice(meter, which);
        }
    for (unsigned i = 0; i < CASES; i++)
        times[i] = (double)spent[i] / (double)(slices * meter->slice) / 1000;
}

static void compare_cases(struct meter *meter)
{
    static double times[FIGURE_ROUNDS_MAX][CASES];
    uint64_t rounds = meter->options->rounds;

    for (unsigned i = 0; i < CASES; i++) /* finds the caches */
        run_slice(meter, i);
    for (uint64_t round = 0; round < rounds; round++)
        run_round(meter, times[round]);
    figure_print_cases(&(struct figure_cases){case_names, &times[0][0], CASES, rounds}, true);
}

/* ---- set-up ---- */

/* Finds where an item is, unless it takes more than one READ. */
static void place_find(struct meter *meter, uint64_t item)
{
    struct item_place *place = &meter->places[meter->place_count];
    int rc = item_place_find(meter->handle, item, meter->images, meter->registered, place);

    if (rc < 0)
        fail("a raw READ", rc);
    meter->place_count += rc == 1 && !place->entry.is_reference;
}

static void items_prepare(struct meter *meter)
{
    const struct bulk load = {.kind = OKV_PUT, .end = meter->options->items};
    uint64_t culprit;
    int rc = bulk_run(meter->handle, &load, &culprit);

    if (rc)
        fail("put", rc);
    const struct bulk read = {.kind = OKV_GET, .end = meter->options->items};
    rc = bulk_run(meter->handle, &read, &culprit); /* learns the index */
    if (rc)
        fail("get", rc);
    for (uint64_t i = 0; i < meter->options->items; i++)
        place_find(meter, i);
    if (meter->place_count == 0)
        fail("items in buckets", OKV_ENOTFOUND);
    printf("%" PRIu64 " of %" PRIu64 " items take one READ of %" PRIu32 " bytes\n",
           meter->place_count, meter->options->items, meter->handle->table.bucket_size);
}

static void meter_init(struct meter *meter, const struct options *options)
{
    struct okv_options how = {.timeout_ms = 60000, .depth = DEPTH_MAX};
    char why[320];

    meter->options = options;
    meter->random = random_seed();
    meter->slice = options->depth * SLICE_DEPTHS;
    if (okv_open(options->uri, &how, &meter->handle, why, sizeof why)) {
        fprintf(stderr, "look_cost: %s\n", why);
        exit(1);
    }
    size_t size = options->depth * meter->handle->table.bucket_size;
    meter->places = calloc(options->items, sizeof *meter->places);
    meter->order = calloc(meter->slice, sizeof *meter->order);
    meter->keys = calloc(meter->slice, sizeof *meter->keys);
    meter->images = calloc(1, size);
    if (!meter->places || !meter->order || !meter->keys || !meter->images)
        fail("start", OKV_ENOMEM);
    int rc = meter->handle->transport->memory_register(meter->handle->conn->endpoint, meter->images,
                                                       size, &meter->registered);
    if (rc)
        fail("start", rc);
}

static void meter_fini(struct meter *meter)
{
    meter->handle->transport->memory_unregister(meter->registered);
    okv_close(&meter->handle);
    free(meter->images);
    free(meter->keys);
    free(meter->order);
    free(meter->places);
}

enum option_key { OPTION_ITEMS = 256, OPTION_DEPTH, OPTION_GETS, OPTION_ROUNDS };

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
    case OPTION_DEPTH:
        options->depth = figure_number(text, 1, DEPTH_MAX, state);
        return 0;
    case OPTION_GETS:
        options->gets = figure_number(text, 1, 100000000, state);
        return 0;
    case OPTION_ROUNDS:
        options->rounds = figure_number(text, 1, FIGURE_ROUNDS_MAX, state);
        return 0;
    case ARGP_KEY_END:
        if (!options->uri)
            argp_error(state, "name the server: -s URI");
        if (options->gets < options->depth * SLICE_DEPTHS)
            argp_error(state, "--gets is at least %d times --depth", SLICE_DEPTHS);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"server", 's', "URI", 0, "The server", 0},
        {"items", OPTION_ITEMS, "N", 0, "Items to put first (100000)", 0},
        {"depth", OPTION_DEPTH, "D", 0, "Under way at a time (16)", 0},
        {"gets", OPTION_GETS, "N", 0, "Gets of each measurement (8192)", 0},
        {"rounds", OPTION_ROUNDS, "R", 0, "Of measurements (11)", 0},
        {0},
    };
    static const struct argp parser = {
        .options = known,
        .parser = parse_option,
        .doc = "Measures gets with several under way beside what they are made of."};
    static struct meter meter;
    struct options options = {.items = 100000, .depth = 16, .gets = 8192, .rounds = 11};

    argp_parse(&parser, argc, argv, 0, NULL, &options);
    meter_init(&meter, &options);
    items_prepare(&meter);
    compare_cases(&meter);
    meter_fini(&meter);
    return 0;
}
