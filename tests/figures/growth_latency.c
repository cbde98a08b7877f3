/*
 * How long gets take while the table grows, and in a small and a large one.
 *
 *   growth_latency -s URI [--items N] [--rounds R] [--rate PUTS]
 *   growth_latency -s URI --sizes SMALL,LARGE [--rounds R] [--gets N]
 *
 * One client gets items chosen at random, one after the other, and takes the time of each. In
 * each round: at rest; while another thread overwrites all items, which changes no bucket
 * count; and while it doubles the number of items, after which they are deleted again. What
 * overwriting costs is not growth's: server and writer take CPU and network either way. --sizes
 * compares two tables, and with each the READ of a bucket without anything around it.
 *
 * The server must be empty and have the memory. Medians over the rounds, all times in ns.
 */
#include <argp.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <okv.h>

#include "bench/load/histogram.h"
#include "shared/base/clock.h"
#include "tests/figures/figure.h"
#include "tests/support/bulk.h"
#include "tests/support/random.h"

#define BENCH_READS 10000

struct options {
    const char *uri;
    uint64_t items;
    uint64_t small, large; /* 0: not --sizes */
    uint64_t rounds;
    uint64_t rate; /* puts per second; 0: as many as go */
    uint64_t gets;
};

struct writer {
    const char *uri;
    pthread_t thread;
    uint64_t begin, end, rate;
    int status;
    uint64_t took_ns;
    atomic_bool done;
};

struct sample {
    double p50, p99, reads, wrong_depths, gets, seconds;
};

enum phase { REST, OVERWRITING, GROWING, PHASES };
static const char *const phase_names[PHASES] = {"at rest", "overwriting", "growing"};

static void fail(const char *what, int code)
{
    fprintf(stderr, "growth_latency: %s: %s\n", what, okv_strerror(code));
    exit(1);
}

static okv *connect_to(const char *uri)
{
    char why[320];
    okv *handle;

    if (okv_open(uri, &(struct okv_options){.timeout_ms = 60000}, &handle, why, sizeof why)) {
        fprintf(stderr, "growth_latency: %s\n", why);
        exit(1);
    }
    return handle;
}

static void run_bulk(okv *handle, int kind, uint64_t begin, uint64_t end)
{
    struct bulk bulk = {.kind = kind, .begin = begin, .end = end};
    int rc = bulk_run(handle, &bulk, NULL);

    if (rc)
        fail(kind == OKV_PUT ? "put" : "delete", rc);
}

/* As many at a time as bulk_run() has under way; waits where a rate is given. */
static void *write_items(void *user)
{
    struct writer *writer = user;
    okv *handle = connect_to(writer->uri);
    uint64_t begin_ns = okv_clock_ns();

    for (uint64_t at = writer->begin, end; at < writer->end; at = end) {
        end = writer->rate && at + BULK_UNDER_WAY < writer->end ? at + BULK_UNDER_WAY : writer->end;
        run_bulk(handle, OKV_PUT, at, end);
        uint64_t due = writer->rate ? (end - writer->begin) * 1000000000u / writer->rate : 0;
        uint64_t spent = okv_clock_ns() - begin_ns;
        if (spent < due)
            nanosleep(&(struct timespec){(time_t)((due - spent) / 1000000000u),
                                         (long)((due - spent) % 1000000000u)},
                      NULL);
    }
    writer->took_ns = okv_clock_ns() - begin_ns;
    atomic_store(&writer->done, true);
    okv_close(&handle);
    return NULL;
}

static void get_one(okv *handle, uint64_t n, struct histogram *histogram)
{
    char key[BULK_KEY_BYTES];
    uint8_t value[BULK_VALUE_BYTES];
    size_t length;

    bulk_key(key, n);
    uint64_t begin = okv_clock_ns();
    int rc = okv_get(handle, key, sizeof key, value, sizeof value, &length, NULL);
    histogram_record(histogram, okv_clock_ns() - begin);
    if (rc)
        fail("get", rc);
    if (!bulk_value_is(value, length, n))
        fail("get", OKV_ECORRUPT);
}

/* Gets until `done` is set, or `gets` of them. */
static struct sample measure(okv *handle, uint64_t items, const atomic_bool *done, uint64_t gets,
                             uint64_t *random)
{
    static struct histogram histogram;
    struct okv_counters before, after;
    uint64_t begin = okv_clock_ns();

    histogram_init(&histogram);
    okv_counters(handle, &before);
    while (done ? !atomic_load(done) : histogram.count < gets)
        get_one(handle, random_below(random, items), &histogram);
    okv_counters(handle, &after);
    double count = (double)histogram.count;
    return (struct sample){
        .p50 = (double)histogram_percentile(&histogram, 50),
        .p99 = (double)histogram_percentile(&histogram, 99),
        .reads = (double)(after.reads - before.reads) / count,
        .wrong_depths = (double)(after.wrong_depths - before.wrong_depths),
        .gets = count,
        .seconds = (double)(okv_clock_ns() - begin) / 1e9,
    };
}

static double median(const struct sample *samples, uint64_t count, size_t field)
{
    double values[FIGURE_ROUNDS_MAX];

    for (uint64_t i = 0; i < count; i++)
        memcpy(&values[i], (const char *)&samples[i] + field, sizeof values[i]);
    return figure_median(values, count);
}
#define MEDIAN(samples, count, field) median(samples, count, offsetof(struct sample, field))

static void print_sample(uint64_t round, const char *name, const struct sample *sample)
{
    printf("%5" PRIu64 " %-12s %9.0f %9.0f %8.4f %9.0f %6.0f %7.2f\n", round, name, sample->p50,
           sample->p99, sample->reads, sample->gets, sample->wrong_depths, sample->seconds);
    fflush(stdout);
}

static struct sample run_phase(const struct options *options, okv *handle, enum phase phase,
                               uint64_t rest_gets, uint64_t *random)
{
    uint64_t items = options->items;
    struct writer writer = {
        .uri = options->uri,
        .begin = phase == GROWING ? items : 0,
        .end = phase == GROWING ? 2 * items : items,
        .rate = options->rate,
    };

    if (phase == REST)
        return measure(handle, items, NULL, rest_gets, random);
    if (pthread_create(&writer.thread, NULL, write_items, &writer))
        fail("thread", OKV_ENOMEM);
    struct sample sample = measure(handle, items, &writer.done, 0, random);
    pthread_join(writer.thread, NULL);
    return sample;
}

/* The order of the phases is another one in each round. */
static void compare_phases(const struct options *options)
{
    static struct sample samples[PHASES][FIGURE_ROUNDS_MAX];
    okv *handle = connect_to(options->uri), *loader = connect_to(options->uri);
    uint64_t random = random_seed();

    run_bulk(loader, OKV_PUT, 0, options->items);
    printf("%5s %-12s %9s %9s %8s %9s %6s %7s\n", "round", "", "p50", "p99", "reads", "gets",
           "depths", "seconds");
    for (uint64_t round = 0; round < options->rounds; round++)
        for (unsigned i = 0; i < PHASES; i++) {
            enum phase phase = (enum phase)((round + i) % PHASES);
            struct sample *sample = &samples[phase][round];
            *sample = run_phase(options, handle, phase, options->gets, &random);
            print_sample(round + 1, phase_names[phase], sample);
            if (phase == GROWING)
                run_bulk(loader, OKV_DELETE, options->items, 2 * options->items);
        }
    double p50 = MEDIAN(samples[REST], options->rounds, p50);
    double p99 = MEDIAN(samples[REST], options->rounds, p99);
    for (unsigned phase = 0; phase < PHASES; phase++)
        printf("%-12s medians: p50 %.0f, p99 %.0f, READs per get %.4f; to at rest: p50 %.2f, p99 "
               "%.2f\n",
               phase_names[phase], MEDIAN(samples[phase], options->rounds, p50),
               MEDIAN(samples[phase], options->rounds, p99),
               MEDIAN(samples[phase], options->rounds, reads),
               MEDIAN(samples[phase], options->rounds, p50) / p50,
               MEDIAN(samples[phase], options->rounds, p99) / p99);
    okv_close(&loader);
    okv_close(&handle);
}

/* READs of a bucket at random places of the index. */
static struct sample measure_floor(okv *handle)
{
    static uint64_t latencies[BENCH_READS];
    static struct histogram histogram;
    struct okv_info info;

    okv_info(handle, &info);
    histogram_init(&histogram);
    int rc = okv_bench_read(handle, info.bucket_bytes, BENCH_READS, 1, latencies, NULL);
    if (rc)
        fail("bench read", rc);
    for (unsigned i = 0; i < BENCH_READS; i++)
        histogram_record(&histogram, latencies[i]);
    return (struct sample){.p50 = (double)histogram_percentile(&histogram, 50),
                           .p99 = (double)histogram_percentile(&histogram, 99),
                           .reads = 1,
                           .gets = BENCH_READS};
}

static void compare_sizes(const struct options *options)
{
    static struct sample samples[2][2][FIGURE_ROUNDS_MAX]; /* size, gets or floor */
    const uint64_t sizes[2] = {options->small, options->large};
    okv *handle = connect_to(options->uri), *loader = connect_to(options->uri);
    uint64_t random = random_seed(), there = 0;

    printf("%5s %-12s %9s %9s %8s %9s %6s %7s\n", "round", "items", "p50", "p99", "reads", "gets",
           "depths", "seconds");
    for (unsigned size = 0; size < 2; size++) {
        char name[32];
        run_bulk(loader, OKV_PUT, there, sizes[size]);
        there = sizes[size];
        measure(handle, there, NULL, options->gets, &random); /* learns the index */
        snprintf(name, sizeof name, "%" PRIu64, there);
        for (uint64_t round = 0; round < options->rounds; round++) {
            samples[size][0][round] = measure(handle, there, NULL, options->gets, &random);
            print_sample(round + 1, name, &samples[size][0][round]);
            samples[size][1][round] = measure_floor(handle);
            print_sample(round + 1, "  floor", &samples[size][1][round]);
        }
    }
    for (unsigned what = 0; what < 2; what++) {
        double small = MEDIAN(samples[0][what], options->rounds, p50);
        double large = MEDIAN(samples[1][what], options->rounds, p50);
        printf("%s: median p50 %.0f at %" PRIu64 " items, %.0f at %" PRIu64 ": ratio %.2f\n",
               what ? "floor" : "get", small, sizes[0], large, sizes[1], large / small);
    }
    okv_close(&loader);
    okv_close(&handle);
}

enum option_key { OPTION_ITEMS = 256, OPTION_SIZES, OPTION_ROUNDS, OPTION_RATE, OPTION_GETS };

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
    case OPTION_SIZES:
        if (sscanf(text, "%" SCNu64 ",%" SCNu64, &options->small, &options->large) != 2 ||
            options->small == 0 || options->large < options->small)
            argp_error(state, "--sizes %s: give two numbers, like 10000,10000000", text);
        return 0;
    case OPTION_ROUNDS:
        options->rounds = figure_number(text, 1, FIGURE_ROUNDS_MAX, state);
        return 0;
    case OPTION_RATE:
        options->rate = figure_number(text, 0, 1000000000, state);
        return 0;
    case OPTION_GETS:
        options->gets = figure_number(text, 1, 1000000000, state);
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
        {"server", 's', "URI", 0, "An empty server", 0},
        {"items", OPTION_ITEMS, "N", 0, "Items before doubling (200000)", 0},
        {"sizes", OPTION_SIZES, "SMALL,LARGE", 0, "Compare gets of two tables instead", 0},
        {"rounds", OPTION_ROUNDS, "R", 0, "Of each measurement (7)", 0},
        {"rate", OPTION_RATE, "PUTS", 0, "Puts per second; 0: as many as go (0)", 0},
        {"gets", OPTION_GETS, "N", 0, "Gets of a measurement at rest (100000)", 0},
        {0},
    };
    static const struct argp parser = {
        .options = known,
        .parser = parse_option,
        .doc = "Measures gets while the table grows, and in a small and a large table."};
    struct options options = {.items = 200000, .rounds = 7, .gets = 100000};

    argp_parse(&parser, argc, argv, 0, NULL, &options);
    if (options.large)
        compare_sizes(&options);
    else
        compare_phases(&options);
    return 0;
}
