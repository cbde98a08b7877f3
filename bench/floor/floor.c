#include "bench/floor/floor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/floor/floor_copy.h"
#include "bench/floor/floor_gets.h"
#include "bench/interrupt.h"
#include "shared/base/clock.h"
#include "shared/base/printable.h"

/* Operations of a slice: many times the depth, because its start and end have fewer under way. */
#define SLICE_OPERATIONS 256
#define SLICE_DEPTHS 16
/* Slices of requests are shorter: they take longer than READs. Pings only wake the server. */
#define SLICE_REQUEST_DIVISOR 4
#define SLICE_PING_DIVISOR 16
/* Gets that find out whether items are in extents. */
#define SAMPLE_GETS 64
#define STRETCH_SECONDS 0.5
/* Longer than a server spins before it sleeps. */
#define SETTLE_MS 50
#define PROGRESS_NS 500000000u
/* The limit of okv_bench_read(). */
#define PROBE_BUCKETS_MAX 64u

/* Tallies of a round: one for each kind, and one for operations that are not compared. */
#define TALLY_APART FLOOR_KIND_COUNT
#define TALLY_COUNT (FLOOR_KIND_COUNT + 1)

/* The present round. */
struct floor {
    const struct options *options;
    struct runner_first first;
    okv *handle; /* of first.target */
    struct floor_round *round;
    struct loop_tally *tallies; /* [TALLY_COUNT] */
    struct loop_tally *tally;   /* the caller's */
    struct floor_copy copy;     /* local:// only */
    struct floor_gets gets;
    uint64_t *samples; /* [slice], of READs */
    uint32_t slice;
    uint32_t read_depth;
    enum operation operation; /* of the present slice, */
    uint64_t remaining;       /* and how many are left */
};

static const struct floor_kind_of {
    const char *name;
    enum operation operation; /* unused for copies and READs */
} kinds[FLOOR_KIND_COUNT] = {
    [FLOOR_COPY] = {.name = "copy"},
    [FLOOR_READ] = {.name = "read"},
    [FLOOR_GET] = {.name = "get", .operation = OPERATION_GET},
    [FLOOR_PUT] = {.name = "put", .operation = OPERATION_PUT},
    [FLOOR_ECHO] = {.name = "echo", .operation = OPERATION_ECHO},
    [FLOOR_PING] = {.name = "ping", .operation = OPERATION_PING},
};

const char *floor_kind_name(enum floor_kind kind)
{
    return kinds[kind].name;
}

static int note_failure(struct floor *floor, int code, const char *why)
{
    floor->tally->code = code;
    snprintf(floor->tally->why, sizeof floor->tally->why, "%s",
             why && why[0] != '\0' ? why : okv_strerror(code));
    return code;
}

/* ---- slices -------------------------------------------------------------- */

static bool next_of_slice(void *user, struct loop_order *order)
{
    struct floor *floor = user;

    if (floor->remaining == 0)
        return false;
    floor->remaining--;
    *order = (struct loop_order){
        .operation = floor->operation,
        .record = workload_chooser_next(floor->first.chooser, floor->first.random,
                                        floor->options->choice.records),
    };
    return true;
}

static void count_slice(struct floor_round *round, enum floor_kind kind, uint64_t count,
                        uint64_t total_ns)
{
    histogram_record(&round->pace[kind], total_ns * 1000 / count);
    round->seconds[kind] += (double)total_ns / 1e9;
}

/* Runs `count` operations of one kind, or as many as fit before the deadline (0: none). If
 * `compared`, they count for the kind. */
static int run_operations(struct floor *floor, enum floor_kind kind, uint64_t count,
                          uint64_t deadline_ns, bool compared)
{
    const struct options *options = floor->options;
    bool batches = kind == FLOOR_GET && options->get_many > 0;
    struct loop_run_config config = {
        .next = next_of_slice,
        .user = floor,
        .depth = batches ? options->get_many : options->depth,
        .batches = batches,
        .deadline_ns = deadline_ns,
        .tally = &floor->tallies[compared ? kind : TALLY_APART],
    };
    struct okv_counters before, after;

    floor->operation = kinds[kind].operation;
    floor->remaining = count;
    okv_counters(floor->handle, &before);
    uint64_t start_ns = okv_clock_ns();
    int rc = loop_run(floor->first.loop, &config);
    uint64_t end_ns = okv_clock_ns();
    okv_counters(floor->handle, &after);
    if (kind == FLOOR_GET)
        runner_counters_add(&floor->round->counters, &after, &before);
    if (compared && rc == OKV_OK)
        count_slice(floor->round, kind, count, end_ns - start_ns);
    return rc;
}

static int run_reads(struct floor *floor, bool compared)
{
    struct floor_round *round = floor->round;
    uint64_t total_ns = 0;
    int rc = okv_bench_read(floor->handle, round->read_bytes, floor->slice, floor->read_depth,
                            floor->samples, &total_ns);

    if (rc != OKV_OK)
        return note_failure(floor, rc, okv_why(floor->handle));
    if (!compared)
        return OKV_OK;
    for (uint32_t i = 0; i < floor->slice; i++)
        histogram_record(&round->latency[FLOOR_READ], floor->samples[i]);
    count_slice(round, FLOOR_READ, floor->slice, total_ns);
    return OKV_OK;
}

static int run_gets(struct floor *floor, bool compared)
{
    struct floor_round *round = floor->round;
    struct floor_gets_slice slice = {
        .chooser = floor->first.chooser,
        .random = floor->first.random,
        .count = floor->slice,
        .latency = compared ? &round->latency[FLOOR_GET] : NULL,
        .tally = &floor->tallies[TALLY_APART],
    };
    struct okv_counters before, after;

    okv_counters(floor->handle, &before);
    int rc = floor_gets_run(&floor->gets, &slice);
    okv_counters(floor->handle, &after);
    runner_counters_add(&round->counters, &after, &before);
    if (compared && rc == OKV_OK)
        count_slice(round, FLOOR_GET, floor->slice, slice.total_ns);
    return rc;
}

static void run_copies(struct floor *floor, bool compared)
{
    struct floor_round *round = floor->round;

    if (!floor->copy.memory)
        return;
    uint64_t total_ns = floor_copy_run(&floor->copy, floor->first.random, floor->slice,
                                       compared ? &round->latency[FLOOR_COPY] : NULL);
    if (compared)
        count_slice(round, FLOOR_COPY, floor->slice, total_ns);
}

/* A server falls asleep during READs and gets in which it has no part. Pings wake it, so that puts
 * and echos find it in the same state. */
static const enum floor_kind slice_order[FLOOR_KIND_COUNT] = {
    FLOOR_COPY, FLOOR_READ, FLOOR_GET, FLOOR_PING, FLOOR_PUT, FLOOR_ECHO,
};

/* One slice of each kind, in reverse order every other time. */
static int run_slices(struct floor *floor, bool backwards, bool compared)
{
    int rc = OKV_OK;

    for (int i = 0; i < FLOOR_KIND_COUNT && rc == OKV_OK; i++) {
        enum floor_kind kind = slice_order[backwards ? FLOOR_KIND_COUNT - 1 - i : i];
        uint32_t divisor = kind == FLOOR_PING ? SLICE_PING_DIVISOR : SLICE_REQUEST_DIVISOR;
        if (kind == FLOOR_COPY)
            run_copies(floor, compared);
        else if (kind == FLOOR_READ)
            rc = run_reads(floor, compared);
        else if (kind == FLOOR_GET)
            rc = run_gets(floor, compared);
        else
            rc = run_operations(floor, kind, floor->slice / divisor, 0, compared);
    }
    return rc;
}

/* ---- the server's CPU time ----------------------------------------------- */

static void sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L};

    nanosleep(&time, NULL);
}

/* The server's CPU time so far; NAN if unknown. */
static int server_cpu_ms(struct floor *floor, double *ms)
{
    struct target *target = floor->first.target;
    struct target_stat stat;
    int rc = target->ops->stat(target, &stat);

    if (rc != OKV_OK)
        return note_failure(floor, rc, target->ops->why(target));
    *ms = stat.cpu_ms;
    return OKV_OK;
}

/* Runs gets alone, then nothing, and reads the server's CPU time around both. */
static int run_stretch(struct floor *floor)
{
    struct floor_round *round = floor->round;
    double cpu[3] = {0};

    sleep_ms(SETTLE_MS);
    int rc = server_cpu_ms(floor, &cpu[0]);
    if (rc != OKV_OK)
        return rc;
    uint64_t gets = round->counters.gets;
    uint64_t start_ns = okv_clock_ns();
    /* Not compared: no READs alternate with these gets. */
    rc = run_operations(floor, FLOOR_GET, UINT64_MAX, start_ns + (uint64_t)(STRETCH_SECONDS * 1e9),
                        false);
    if (rc != OKV_OK)
        return rc;
    round->stretch_seconds = (double)(okv_clock_ns() - start_ns) / 1e9;
    round->stretch_gets = round->counters.gets - gets;
    rc = server_cpu_ms(floor, &cpu[1]);
    if (rc != OKV_OK)
        return rc;
    sleep_ms((unsigned)(round->stretch_seconds * 1e3));
    rc = server_cpu_ms(floor, &cpu[2]);
    if (rc != OKV_OK)
        return rc;
    round->cpu_known = !isnan(cpu[0]) && !isnan(cpu[1]) && !isnan(cpu[2]);
    round->cpu_gets_ms = round->cpu_known ? cpu[1] - cpu[0] : 0;
    round->cpu_nothing_ms = round->cpu_known ? cpu[2] - cpu[1] : 0;
    return OKV_OK;
}

/* ---- a round ------------------------------------------------------------- */

static int run_round(struct floor *floor, uint32_t number)
{
    const struct options *options = floor->options;
    uint64_t wanted = options->operations > 0 ? options->operations : UINT64_MAX;
    uint64_t shown_ns = 0;
    uint64_t done = 0;
    /* A first slice of each kind warms the caches. */
    int rc = run_slices(floor, false, false);
    uint64_t deadline_ns =
        options->seconds > 0 ? okv_clock_ns() + (uint64_t)(options->seconds * 1e9) : UINT64_MAX;

    for (uint32_t i = number; rc == OKV_OK && done < wanted; i++, done += floor->slice) {
        uint64_t now = okv_clock_ns();
        if (now >= deadline_ns || interrupted())
            break;
        if (options->progress && now - shown_ns > PROGRESS_NS) {
            okv_printable_clear_line();
            fprintf(stderr, "floor, round %u: %llu gets", number, (unsigned long long)done);
            shown_ns = now;
        }
        rc = run_slices(floor, i % 2 == 0, true);
    }
    if (rc == OKV_OK && !interrupted())
        rc = run_stretch(floor);
    if (options->progress)
        okv_printable_clear_line();
    return rc;
}

/* Bytes of the raw READ: a bucket, or the value if items are in extents (a key is usually in the
 * bucket). The server decides which items are in extents, also small ones when buckets are full, so
 * some gets find out what most are. */
static int choose_read_bytes(struct floor *floor, const struct okv_info *info)
{
    const struct options *options = floor->options;
    struct okv_counters before, after;

    okv_counters(floor->handle, &before);
    int rc = run_operations(floor, FLOOR_GET, SAMPLE_GETS, 0, false);
    if (rc != OKV_OK)
        return rc;
    okv_counters(floor->handle, &after);
    uint64_t size = options->values.high;
    uint64_t most = (uint64_t)info->bucket_bytes * PROBE_BUCKETS_MAX;
    floor->round->echo_whole = options->key_size + size <= info->max_message_value;
    if (after.extent_reads - before.extent_reads < SAMPLE_GETS / 2)
        size = info->bucket_bytes;
    floor->round->read_bytes = (uint32_t)(size < most ? size : most);
    floor->round->read_whole = size <= most;
    return OKV_OK;
}

/* Allocates the memory of a round; over local:// also the source of copies, where a get reads one
 * bucket. */
static int floor_prepare(struct floor *floor)
{
    const struct options *options = floor->options;
    struct okv_info info;

    floor->samples = calloc(floor->slice, sizeof *floor->samples);
    floor->tallies = calloc(TALLY_COUNT, sizeof *floor->tallies);
    if (!floor->samples || !floor->tallies)
        return note_failure(floor, OKV_ENOMEM, NULL);
    for (int i = 0; i < TALLY_COUNT; i++)
        loop_tally_init(&floor->tallies[i]);
    okv_info(floor->handle, &info);
    int rc = choose_read_bytes(floor, &info);
    if (rc != OKV_OK)
        return rc;
    rc = floor_gets_init(&floor->gets, floor->handle, options, floor->slice);
    if (rc != OKV_OK)
        return note_failure(floor, rc, okv_why(floor->handle));
    if (strcmp(info.transport, "local") != 0 || floor->round->read_bytes != info.bucket_bytes)
        return OKV_OK;
    rc = floor_copy_init(&floor->copy, info.buckets, info.bucket_bytes);
    return rc == OKV_OK ? rc : note_failure(floor, rc, "no memory to copy buckets from");
}

/* Merges the tallies of the round into the caller's. */
static void floor_finish(struct floor *floor)
{
    for (int i = 0; floor->tallies && i < TALLY_COUNT; i++) {
        const struct loop_tally *tally = &floor->tallies[i];
        if (i == FLOOR_PUT || i == FLOOR_ECHO || i == FLOOR_PING)
            histogram_merge(&floor->round->latency[i], &tally->latency[kinds[i].operation]);
        loop_tally_merge(floor->tally, tally);
    }
    free(floor->tallies);
    free(floor->samples);
    floor_gets_fini(&floor->gets);
    floor_copy_fini(&floor->copy);
}

/* Rounded to whole depths or batches. */
static uint32_t slice_of(const struct options *options)
{
    uint32_t batch = options->get_many > 0 ? options->get_many : 1;
    uint32_t depth = options->depth > batch ? options->depth : batch;
    uint32_t slice =
        depth * SLICE_DEPTHS > SLICE_OPERATIONS ? depth * SLICE_DEPTHS : SLICE_OPERATIONS;

    return (slice + batch - 1) / batch * batch;
}

int floor_round_run(struct runner *runner, uint32_t number, struct floor_round *round,
                    struct loop_tally *tally)
{
    const struct options *options = runner_options(runner);
    struct floor floor = {
        .options = options,
        .round = round,
        .tally = tally,
        .slice = slice_of(options),
        .read_depth = options->get_many > 0 ? options->get_many : options->depth,
    };

    memset(round, 0, sizeof *round);
    for (int kind = 0; kind < FLOOR_KIND_COUNT; kind++) {
        histogram_init(&round->latency[kind]);
        histogram_init(&round->pace[kind]);
    }
    runner_first(runner, &floor.first);
    if (!floor.first.target->ops->handle)
        return note_failure(&floor, OKV_EUNSUPPORTED, "only okv has this floor");
    floor.handle = floor.first.target->ops->handle(floor.first.target);
    int rc = floor_prepare(&floor);
    if (rc == OKV_OK)
        rc = run_round(&floor, number);
    floor_finish(&floor);
    return rc;
}

/* ---- figures ------------------------------------------------------------- */

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

void floor_round_figures(const struct floor_round *round, struct floor_figures *figures)
{
    memset(figures, 0, sizeof *figures);
    for (int kind = 0; kind < FLOOR_KIND_COUNT; kind++) {
        const struct histogram *latency = &round->latency[kind];
        figures->p50_us[kind] = (double)histogram_percentile(latency, 50) / 1e3;
        figures->p99_us[kind] = (double)histogram_percentile(latency, 99) / 1e3;
        figures->rate[kind] = ratio(1e12, (double)histogram_percentile(&round->pace[kind], 50));
    }
    figures->get_over_copy = ratio(figures->p50_us[FLOOR_GET], figures->p50_us[FLOOR_COPY]);
    if (round->read_whole) {
        figures->get_over_read = ratio(figures->p50_us[FLOOR_GET], figures->p50_us[FLOOR_READ]);
        figures->get_rate_over_read = ratio(figures->rate[FLOOR_GET], figures->rate[FLOOR_READ]);
    }
    if (round->echo_whole)
        figures->put_over_echo = ratio(figures->p50_us[FLOOR_PUT], figures->p50_us[FLOOR_ECHO]);
    figures->reads_per_get = ratio((double)round->counters.reads, (double)round->counters.gets);
}
