/*
 * The floor, a baseline that no get or put can beat: raw READs and echoes.
 *
 * The floor of a get is a raw READ of one bucket or, for values in extents, of the item's bytes, up
 * to 64 buckets. The floor of a put is an echo: a request with as many bytes, which the server
 * drops, and a reply as long as a put's. All use the same connection at the same depth. Their
 * slices alternate within a round, so that noise of the machine meets all of them alike.
 *
 * Over ofi:// a raw READ is a bare fi_read(), on an endpoint of its own beside the connection:
 * okv's transport does more than a device's doorbell there, and is no part of the floor.
 *
 * Over local:// a READ is a copy. There the floor also has a plain copy, without okv: it copies a
 * bucket from a random address in as much memory as the index has, and hashes the copy as okv's
 * check does.
 *
 * Latencies are compared by their medians. The rate of a slice is its operations over the time from
 * its first submission to its last result. The rate of a round is the median of its slices, so a
 * stall of the machine affects one slice only. With --get-many a slice of gets consists of batches,
 * each with one READ per key at once, and its rate counts keys.
 *
 * Each round ends with a stretch of gets alone and an equally long stretch of nothing. They compare
 * the server's CPU time.
 */
#ifndef OKV_BENCH_FLOOR_FLOOR_H
#define OKV_BENCH_FLOOR_FLOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/load/histogram.h"
#include "bench/load/runner.h"

enum floor_kind {
    FLOOR_COPY, /* local:// only */
    FLOOR_READ,
    FLOOR_GET,
    FLOOR_PUT,
    FLOOR_ECHO,
    FLOOR_PING,
    FLOOR_KIND_COUNT
};

struct floor_round {
    uint32_t read_bytes; /* of each raw READ */
    bool read_whole;     /* a raw READ fetches as much as a get */
    bool echo_whole;     /* an echo carries as much as a put */
    struct histogram latency[FLOOR_KIND_COUNT];
    struct histogram pace[FLOOR_KIND_COUNT]; /* of each slice: ps per operation or key */
    double seconds[FLOOR_KIND_COUNT];        /* all slices of a kind */
    struct okv_counters counters;            /* of all gets, also of the stretch */
    double stretch_seconds;
    uint64_t stretch_gets;
    bool cpu_known;        /* the server reports its CPU time */
    double cpu_gets_ms;    /* during the stretch of gets */
    double cpu_nothing_ms; /* during the stretch of nothing */
};

/* The figures of a round; 0 where there is nothing to compare. */
struct floor_figures {
    double p50_us[FLOOR_KIND_COUNT];
    double p99_us[FLOOR_KIND_COUNT];
    double rate[FLOOR_KIND_COUNT]; /* per second */
    double get_over_copy;          /* p50s */
    double get_over_read;
    double put_over_echo;
    double get_rate_over_read; /* rates */
    double reads_per_get;
};

/* "read", "get"; static. */
const char *floor_kind_name(enum floor_kind kind);

/* Runs round `number` (from 1) on the runner's first connection, to okv, with values of one size.
 * Adds all counts to `tally`, but not the latencies of gets. Returns 0, or a code with a sentence
 * in the tally. */
int floor_round_run(struct runner *runner, uint32_t number, struct floor_round *round,
                    struct loop_tally *tally);

void floor_round_figures(const struct floor_round *round, struct floor_figures *figures);

#endif
