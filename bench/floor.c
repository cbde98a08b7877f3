#include "bench/floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/clock.h"

/* Operations of a slice: many times the depth, as the start and the end of a
 * slice have fewer under way. */
#define SLICE_OPERATIONS 200
#define SLICE_DEPTHS 8
/* Puts and pings are slower and less in question than gets. */
#define SLICE_REQUEST_PART 4
#define STRETCH_SECONDS 0.5
/* Longer than a server spins before it sleeps. */
#define SETTLE_MS 50
#define STAT_BYTES 65536
/* okv_probe() takes no more. */
#define PROBE_BUCKETS_MAX 64u

/* A round under way. */
struct floor {
    struct runner_worker *worker;
    struct floor_round *round;
    struct loop_tally *tally;
    uint32_t depth;
    uint32_t slice;
    uint64_t *samples;  /* of a slice of READs */
    enum loop_op op;    /* of the slice of operations under way, */
    uint64_t remaining; /* and how many are left of it */
};

static bool next_slice(void *user, enum loop_op *op, uint64_t *record)
{
    struct floor *floor = user;

    if (floor->remaining == 0)
        return false;
    floor->remaining--;
    *op = floor->op;
    *record = workload_chooser_next(&floor->worker->runner->chooser, &floor->worker->random);
    return true;
}

/* Submits `count` operations of one kind, or as many as fit before the deadline.
 * `latency` may be NULL. */
static int run_operations(struct floor *floor, enum floor_kind kind, uint64_t count,
                          uint64_t deadline_ns, struct histogram *latency)
{
    static const enum loop_op ops[] = {
        [FLOOR_GET] = LOOP_GET, [FLOOR_PUT] = LOOP_PUT, [FLOOR_PING] = LOOP_PING};
    struct loop *loop = &floor->worker->loop;
    struct okv_counters before;
    struct okv_counters after;
    struct loop_tally tally;

    floor->op = ops[kind];
    floor->remaining = count;
    loop->depth = floor->depth;
    loop_tally_init(&tally);
    okv_counters(loop->handle, &before);
    int rc = loop_run(loop, next_slice, floor, deadline_ns, &tally);
    okv_counters(loop->handle, &after);
    if (kind == FLOOR_GET)
        runner_counters_add(&floor->round->counters, &after, &before);
    if (latency)
        histogram_merge(latency, &tally.latency[floor->op]);
    loop_tally_merge(floor->tally, &tally);
    return rc;
}

static int note_failure(struct floor *floor, int code)
{
    const char *why = okv_why(floor->worker->handle);

    floor->tally->code = code;
    snprintf(floor->tally->why, sizeof floor->tally->why, "%s",
             why[0] != '\0' ? why : okv_strerror(code));
    return code;
}

static int run_reads(struct floor *floor)
{
    int rc = okv_probe(floor->worker->handle, floor->round->read_bytes, floor->slice, floor->depth,
                       floor->samples);
    if (rc != OKV_OK)
        return note_failure(floor, rc);
    for (uint32_t i = 0; i < floor->slice; i++)
        histogram_record(&floor->round->latency[FLOOR_READ], floor->samples[i]);
    return OKV_OK;
}

/* One slice of each kind; every other time backwards. */
static int run_slices(struct floor *floor, bool backwards)
{
    for (int i = 0; i < FLOOR_KIND_COUNT; i++) {
        enum floor_kind kind = (enum floor_kind)(backwards ? FLOOR_KIND_COUNT - 1 - i : i);
        uint32_t part = kind == FLOOR_GET ? 1 : SLICE_REQUEST_PART;
        int rc = kind == FLOOR_READ ? run_reads(floor)
                                    : run_operations(floor, kind, floor->slice / part, 0,
                                                     &floor->round->latency[kind]);
        if (rc != OKV_OK)
            return rc;
    }
    return OKV_OK;
}

static void sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L};

    nanosleep(&time, NULL);
}

/* The server's CPU time so far; *known is false when its figures do not have it. */
static int server_cpu_ms(struct floor *floor, double *ms, bool *known)
{
    char text[STAT_BYTES];
    size_t length = 0;

    int rc = okv_stat(floor->worker->handle, text, sizeof text, &length);
    if (rc != OKV_OK)
        return note_failure(floor, rc);
    const char *line = strncmp(text, "cpu_ms ", 7) == 0 ? text : strstr(text, "\ncpu_ms ");
    *known = line && sscanf(line, " cpu_ms %lf", ms) == 1;
    return OKV_OK;
}

/* Gets alone, then nothing, between readings of the server's CPU time. */
static int run_stretch(struct floor *floor)
{
    struct floor_round *round = floor->round;
    double cpu[3] = {0};
    bool known = false;

    sleep_ms(SETTLE_MS);
    int rc = server_cpu_ms(floor, &cpu[0], &known);
    if (rc != OKV_OK)
        return rc;
    uint64_t gets = round->counters.gets;
    uint64_t start_ns = okv_clock_ns();
    /* No READs run beside these gets: their latencies are not to be compared. */
    rc = run_operations(floor, FLOOR_GET, UINT64_MAX, start_ns + (uint64_t)(STRETCH_SECONDS * 1e9),
                        NULL);
    if (rc != OKV_OK)
        return rc;
    round->stretch_seconds = (double)(okv_clock_ns() - start_ns) / 1e9;
    round->stretch_gets = round->counters.gets - gets;
    rc = server_cpu_ms(floor, &cpu[1], &known);
    if (rc != OKV_OK)
        return rc;
    sleep_ms((unsigned)(round->stretch_seconds * 1e3));
    rc = server_cpu_ms(floor, &cpu[2], &known);
    if (rc != OKV_OK)
        return rc;
    round->cpu_known = known;
    round->cpu_gets_ms = cpu[1] - cpu[0];
    round->cpu_nothing_ms = cpu[2] - cpu[1];
    return OKV_OK;
}

static int run_round(struct floor *floor, uint32_t number)
{
    const struct options *options = floor->worker->runner->options;
    uint64_t deadline_ns =
        options->seconds > 0 ? okv_clock_ns() + (uint64_t)(options->seconds * 1e9) : UINT64_MAX;
    uint64_t wanted = options->operations > 0 ? options->operations : UINT64_MAX;
    uint64_t shown_ns = 0;
    uint64_t done = 0;
    int rc = OKV_OK;

    for (uint32_t i = number; rc == OKV_OK && done < wanted; i++, done += floor->slice) {
        uint64_t now = okv_clock_ns();
        if (now >= deadline_ns)
            break;
        if (options->progress && now - shown_ns > 500000000u) {
            fprintf(stderr, "\r\033[Kfloor, round %u: %llu gets", number, (unsigned long long)done);
            shown_ns = now;
        }
        rc = run_slices(floor, i % 2 == 0);
    }
    if (rc == OKV_OK)
        rc = run_stretch(floor);
    if (options->progress)
        fputs("\r\033[K", stderr);
    return rc;
}

/* Bytes of the raw READ that a get is compared with. Whether an item is in an extent is
 * for the server to decide: a get of one shows it. */
static int choose_read_bytes(struct floor *floor)
{
    const struct options *options = floor->worker->runner->options;
    okv *handle = floor->worker->handle;
    struct okv_counters before;
    struct okv_counters after;
    struct okv_info info;

    okv_info(handle, &info);
    okv_counters(handle, &before);
    int rc = run_operations(floor, FLOOR_GET, 1, 0, NULL);
    if (rc != OKV_OK)
        return rc;
    okv_counters(handle, &after);
    uint64_t size = (uint64_t)options->key_size + options->value_size;
    uint64_t most = (uint64_t)info.bucket_bytes * PROBE_BUCKETS_MAX;
    if (after.extent_reads == before.extent_reads)
        size = info.bucket_bytes;
    floor->round->read_bytes = (uint32_t)(size < most ? size : most);
    return OKV_OK;
}

int floor_round_run(struct runner *runner, uint32_t number, struct floor_round *round,
                    struct loop_tally *tally)
{
    uint32_t depth = runner->options->depth;
    struct floor floor = {.worker = &runner->workers[0],
                          .round = round,
                          .tally = tally,
                          .depth = depth,
                          .slice = depth * SLICE_DEPTHS > SLICE_OPERATIONS ? depth * SLICE_DEPTHS
                                                                           : SLICE_OPERATIONS};

    memset(round, 0, sizeof *round);
    for (int kind = 0; kind < FLOOR_KIND_COUNT; kind++)
        histogram_init(&round->latency[kind]);
    int rc = choose_read_bytes(&floor);
    if (rc != OKV_OK)
        return rc;
    floor.samples = calloc(floor.slice, sizeof *floor.samples);
    if (!floor.samples)
        return note_failure(&floor, OKV_ENOMEM);
    rc = run_round(&floor, number);
    free(floor.samples);
    return rc;
}

static double percentile_us(const struct floor_round *round, enum floor_kind kind, double percent)
{
    return (double)histogram_percentile(&round->latency[kind], percent) / 1e3;
}

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void floor_round_figures(const struct floor_round *round, struct floor_figures *figures)
{
    *figures = (struct floor_figures){
        .read_p50_us = percentile_us(round, FLOOR_READ, 50),
        .read_p99_us = percentile_us(round, FLOOR_READ, 99),
        .get_p50_us = percentile_us(round, FLOOR_GET, 50),
        .get_p99_us = percentile_us(round, FLOOR_GET, 99),
        .put_p50_us = percentile_us(round, FLOOR_PUT, 50),
        .put_p99_us = percentile_us(round, FLOOR_PUT, 99),
        .ping_p50_us = percentile_us(round, FLOOR_PING, 50),
        .ping_p99_us = percentile_us(round, FLOOR_PING, 99),
        .get_rate = ratio((double)round->stretch_gets, round->stretch_seconds),
        .reads_per_get = ratio((double)round->counters.reads, (double)round->counters.gets),
    };
    figures->get_over_read = ratio(figures->get_p50_us, figures->read_p50_us);
    figures->put_over_ping = ratio(figures->put_p50_us, figures->ping_p50_us);
}
