/*
 * What a get costs, beside what it is made of: READs without anything around them, and the copy
 * and checksum of one bucket.
 *
 *   get_cost -s URI [--items N] [--value BYTES] [--gets N] [--rounds R] [--loaded]
 *   get_cost -s URI --only get|poll|many [--items N] [--gets N] [--loaded]
 *
 * One client gets items chosen at random. Each round measures every case once, in another order;
 * the ratios are medians of the rounds' ratios. --only runs one case once, without a clock around
 * each get, for callgrind: its instructions, divided by the gets, are those of one get.
 *
 * The server must have room for the items; they stay, and --loaded goes by those of an earlier run.
 */
#include <argp.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <okv.h>

#include "shared/base/clock.h"
#include "shared/format/hash.h"
#include "tests/figures/figure.h"
#include "tests/support/bulk.h"
#include "tests/support/random.h"

#define DEPTH 16
#define BATCH 32
#define VALUE_MAX 65536u

struct options {
    const char *uri;
    const char *only;
    uint64_t items, gets, rounds, value;
    bool loaded;
};

struct meter {
    const struct options *options;
    okv *handle;
    uint64_t random;
    uint64_t *times;      /* one for each get of a case */
    uint8_t *copy_from;   /* as many bytes as the index has */
    uint64_t copy_places; /* buckets in them */
    uint32_t bucket_bytes;
    uint32_t read_bytes; /* of the raw READ that gets are compared with */
    char keys[BATCH][BULK_KEY_BYTES];
    uint8_t values[BATCH][VALUE_MAX];
};

static void fail(const char *what, int code)
{
    fprintf(stderr, "get_cost: %s: %s\n", what, okv_strerror(code));
    exit(1);
}

static double median_time(struct meter *meter)
{
    return (double)figure_median_time(meter->times, meter->options->gets);
}

static struct okv_command next_get(struct meter *meter, unsigned place)
{
    bulk_key(meter->keys[place], random_below(&meter->random, meter->options->items));
    return (struct okv_command){
        .kind = OKV_GET,
        .tag = place,
        .key = meter->keys[place],
        .key_length = BULK_KEY_BYTES,
        .buffer = meter->values[place],
        .buffer_size = VALUE_MAX,
    };
}

/* ---- cases: each returns ns ---- */

/* okv_get(), one after the other: the median. */
static double run_get(struct meter *meter)
{
    for (uint64_t i = 0; i < meter->options->gets; i++) {
        struct okv_command get = next_get(meter, 0);
        size_t length;
        uint64_t begin = meter->options->only ? 0 : okv_clock_ns();
        int rc = okv_get(meter->handle, get.key, get.key_length, get.buffer, get.buffer_size,
                         &length, NULL);
        meter->times[i] = meter->options->only ? 0 : okv_clock_ns() - begin;
        if (rc || length != meter->options->value)
            fail("get", rc ? rc : OKV_ECORRUPT);
    }
    return median_time(meter);
}

/* Collects what ended; how much that was. */
static unsigned collect(struct meter *meter, uint32_t *free_places)
{
    struct okv_result results[DEPTH];
    int count = okv_poll(meter->handle, results, DEPTH);

    if (count < 0)
        fail("poll", count);
    for (int i = 0; i < count; i++) {
        if (results[i].status)
            fail("get", results[i].status);
        free_places[i] = (uint32_t)results[i].tag;
    }
    return (unsigned)count;
}

/* okv_submit() and okv_poll(), one get after the other: the median. */
static double run_poll_one(struct meter *meter)
{
    for (uint64_t i = 0; i < meter->options->gets; i++) {
        struct okv_command get = next_get(meter, 0);
        uint32_t place;
        uint64_t begin = okv_clock_ns();
        int rc = okv_submit(meter->handle, &get, 1, NULL);
        if (rc)
            fail("submit", rc);
        while (collect(meter, &place) == 0)
            ;
        meter->times[i] = okv_clock_ns() - begin;
    }
    return median_time(meter);
}

/* okv_submit() and okv_poll() with DEPTH gets under way: the mean. */
static double run_poll(struct meter *meter)
{
    uint32_t places[DEPTH];
    unsigned free_count = DEPTH;
    uint64_t begun = 0, ended = 0, gets = meter->options->gets;
    uint64_t begin = okv_clock_ns();

    for (uint32_t i = 0; i < DEPTH; i++)
        places[i] = i;
    while (ended < gets) {
        struct okv_command commands[DEPTH];
        size_t count = 0, accepted;
        for (; count < free_count && begun < gets; count++, begun++)
            commands[count] = next_get(meter, places[count]);
        int rc = okv_submit(meter->handle, commands, count, &accepted);
        if (rc)
            fail("submit", rc);
        free_count = collect(meter, places);
        ended += free_count;
    }
    return (double)(okv_clock_ns() - begin) / (double)gets;
}

/* okv_get_many() of BATCH: the mean of one get. */
static double run_many(struct meter *meter)
{
    struct okv_command commands[BATCH];
    struct okv_result results[BATCH];
    uint64_t batches = meter->options->gets / BATCH + 1, spent = 0;

    for (uint64_t i = 0; i < batches; i++) {
        for (unsigned place = 0; place < BATCH; place++)
            commands[place] = next_get(meter, place);
        uint64_t begin = okv_clock_ns();
        int rc = okv_get_many(meter->handle, commands, results, BATCH);
        spent += okv_clock_ns() - begin;
        for (unsigned place = 0; place < BATCH && rc == 0; place++)
            rc = results[place].status;
        if (rc)
            fail("get-many", rc);
    }
    return (double)spent / (double)(batches * BATCH);
}

static void probe(struct meter *meter, uint32_t depth)
{
    int rc = okv_probe(meter->handle, meter->read_bytes, (uint32_t)meter->options->gets, depth,
                       meter->times, NULL);

    if (rc)
        fail("probe", rc);
}

static double run_read(struct meter *meter)
{
    probe(meter, 1);
    return median_time(meter);
}

static double mean_read(struct meter *meter, uint32_t depth)
{
    uint64_t begin = okv_clock_ns();

    probe(meter, depth);
    return (double)(okv_clock_ns() - begin) / (double)meter->options->gets;
}

static double run_read_depth(struct meter *meter)
{
    return mean_read(meter, DEPTH);
}

static double run_read_batch(struct meter *meter)
{
    return mean_read(meter, BATCH);
}

/* The copy and checksum of a bucket from a random place: the median. */
static double run_copy(struct meter *meter)
{
    static uint64_t sum;
    uint8_t image[4096];

    for (uint64_t i = 0; i < meter->options->gets; i++) {
        uint64_t at = random_below(&meter->random, meter->copy_places) * meter->bucket_bytes;
        uint64_t begin = okv_clock_ns();
        memcpy(image, meter->copy_from + at, meter->bucket_bytes);
        sum += okv_hash_checksum(image, meter->bucket_bytes, 0);
        meter->times[i] = okv_clock_ns() - begin;
    }
    return median_time(meter) + (sum == 1); /* the sum is used */
}

static double run_clock(struct meter *meter)
{
    for (uint64_t i = 0; i < meter->options->gets; i++) {
        uint64_t begin = okv_clock_ns();
        meter->times[i] = okv_clock_ns() - begin;
    }
    return median_time(meter);
}

enum { READ, GET, POLL_ONE, COPY, READ_DEPTH, POLL, READ_BATCH, MANY, CLOCK, CASES };

static const struct {
    const char *name;
    double (*run)(struct meter *meter);
} cases[CASES] = {
    [READ] = {"raw READ, depth 1: median", run_read},
    [GET] = {"okv_get: median", run_get},
    [POLL_ONE] = {"submit and poll, depth 1: median", run_poll_one},
    [COPY] = {"copy and checksum of a bucket: median", run_copy},
    [READ_DEPTH] = {"raw READ, depth 16: mean", run_read_depth},
    [POLL] = {"submit and poll, depth 16: mean", run_poll},
    [READ_BATCH] = {"raw READ, depth 32: mean", run_read_batch},
    [MANY] = {"get-many of 32, each: mean", run_many},
    [CLOCK] = {"reading the clock: median", run_clock},
};

/* ---- rounds ---- */

static void print_ratio(double (*figures)[CASES], uint64_t rounds, int above, int below)
{
    double ratios[FIGURE_ROUNDS_MAX];

    for (uint64_t round = 0; round < rounds; round++)
        ratios[round] = figures[round][above] / figures[round][below];
    double middle = figure_median(ratios, rounds);
    printf("%5.2f  (%.2f to %.2f)  %s / %s\n", middle, ratios[0], ratios[rounds - 1],
           cases[above].name, cases[below].name);
}

static void compare_cases(struct meter *meter)
{
    static double figures[FIGURE_ROUNDS_MAX][CASES];
    uint64_t rounds = meter->options->rounds;

    for (uint64_t round = 0; round < rounds; round++)
        for (unsigned i = 0; i < CASES; i++) {
            unsigned at = (unsigned)(round + i) % CASES;
            figures[round][at] = cases[at].run(meter);
        }
    for (unsigned i = 0; i < CASES; i++) {
        double values[FIGURE_ROUNDS_MAX];
        for (uint64_t round = 0; round < rounds; round++)
            values[round] = figures[round][i];
        double middle = figure_median(values, rounds);
        printf("%9.0f ns  (%.0f to %.0f)  %s\n", middle, values[0], values[rounds - 1],
               cases[i].name);
    }
    print_ratio(figures, rounds, GET, READ);
    print_ratio(figures, rounds, POLL_ONE, READ);
    print_ratio(figures, rounds, GET, COPY);
    print_ratio(figures, rounds, POLL, READ_DEPTH);
    print_ratio(figures, rounds, MANY, READ_BATCH);
}

/* ---- set-up ---- */

static void put_items(struct meter *meter)
{
    const struct options *options = meter->options;
    struct bulk bulk = {.kind = OKV_PUT, .end = options->items};
    uint64_t culprit = 0;

    if (options->value == BULK_VALUE_BYTES) {
        int rc = bulk_run(meter->handle, &bulk, &culprit);
        if (rc)
            fail("put", rc);
        return;
    }
    for (uint64_t i = 0; i < options->items; i++) {
        bulk_key(meter->keys[0], i);
        int rc = okv_put(meter->handle, meter->keys[0], BULK_KEY_BYTES, meter->values[0],
                         options->value, NULL);
        if (rc)
            fail("put", rc);
    }
}

static void meter_init(struct meter *meter, const struct options *options)
{
    struct okv_options how = {.timeout_ms = 60000};
    struct okv_info info;
    char why[320];

    meter->options = options;
    meter->random = random_seed();
    if (okv_open(options->uri, &how, &meter->handle, why, sizeof why)) {
        fprintf(stderr, "get_cost: %s\n", why);
        exit(1);
    }
    okv_info(meter->handle, &info);
    bool in_bucket = options->value + BULK_KEY_BYTES < info.bucket_bytes / 2;
    meter->read_bytes = in_bucket ? info.bucket_bytes : (uint32_t)options->value;
    meter->times = calloc(options->gets, sizeof *meter->times);
    if (!meter->times)
        fail("start", OKV_ENOMEM);
}

/* The index has its size now. */
static void copy_init(struct meter *meter)
{
    struct okv_info info;

    okv_info(meter->handle, &info);
    meter->bucket_bytes = info.bucket_bytes;
    meter->copy_places = info.buckets;
    meter->copy_from = malloc(info.buckets * info.bucket_bytes);
    if (!meter->copy_from)
        fail("start", OKV_ENOMEM);
    memset(meter->copy_from, 1, info.buckets * info.bucket_bytes);
}

static void run_only(struct meter *meter)
{
    struct okv_counters before, after;

    okv_counters(meter->handle, &before);
    if (!strcmp(meter->options->only, "get"))
        run_get(meter);
    else if (!strcmp(meter->options->only, "poll"))
        run_poll(meter);
    else
        run_many(meter);
    okv_counters(meter->handle, &after);
    printf("%" PRIu64 " gets\n", after.gets - before.gets);
}

enum option_key {
    OPTION_ITEMS = 256,
    OPTION_VALUE,
    OPTION_GETS,
    OPTION_ROUNDS,
    OPTION_ONLY,
    OPTION_LOADED
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;

    switch (key) {
    case 's':
        options->uri = text;
        return 0;
    case OPTION_ITEMS:
        options->items = figure_number(text, 1, 1000000000, state);
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
    case OPTION_ONLY:
        if (strcmp(text, "get") && strcmp(text, "poll") && strcmp(text, "many"))
            argp_error(state, "--only %s: get, poll or many", text);
        options->only = text;
        return 0;
    case OPTION_LOADED:
        options->loaded = true;
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
        {"items", OPTION_ITEMS, "N", 0, "Items to put first (1000000)", 0},
        {"value", OPTION_VALUE, "BYTES", 0, "Of each value (32)", 0},
        {"gets", OPTION_GETS, "N", 0, "Gets of each measurement (100000)", 0},
        {"rounds", OPTION_ROUNDS, "R", 0, "Of measurements (7)", 0},
        {"loaded", OPTION_LOADED, NULL, 0, "The items are there", 0},
        {"only", OPTION_ONLY, "CASE", 0, "Run get, poll or many once, and nothing else", 0},
        {0},
    };
    static const struct argp parser = {.options = known,
                                       .parser = parse_option,
                                       .doc = "Measures gets beside what they are made of."};
    static struct meter meter;
    struct options options = {
        .items = 1000000, .gets = 100000, .rounds = 7, .value = BULK_VALUE_BYTES};

    argp_parse(&parser, argc, argv, 0, NULL, &options);
    meter_init(&meter, &options);
    if (!options.loaded)
        put_items(&meter);
    if (options.only)
        run_only(&meter);
    else {
        run_get(&meter); /* learns the index */
        copy_init(&meter);
        compare_cases(&meter);
    }
    okv_close(&meter.handle);
    free(meter.copy_from);
    free(meter.times);
    return 0;
}
