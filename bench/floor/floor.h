/*
 * How far gets are from the floor under them, and puts from theirs.
 *
 * The floor of a get is a raw READ: of one bucket or, where values are in extents, of
 * as many bytes as an item has, up to 64 buckets. That of a put is an echo: a request
 * with as many bytes, which the server drops, and a reply as long. All are on the same
 * connection, at the same depth. What is compared alternates in small slices within each
 * round, so that whatever else the machine does meets all of them alike.
 *
 * Over local:// a READ is a copy. There the floor is also given without any of okv: what it
 * takes to copy a bucket from a random place of as much memory as the index has, and to hash
 * the copy as its check does.
 *
 * Latencies are compared by their medians. The rate of a slice is its operations over the time
 * from its first submission to its last result, and that of a round the median of its slices:
 * a machine that stands still for a while spoils one of them. With --get-many a get's slice
 * is batches, each of as many READs as it has keys at once, and its rate counts keys.
 *
 * Each round ends with a stretch of gets alone, for the server's CPU time, and as long a
 * stretch of nothing to compare that with.
 */
#ifndef OKV_BENCH_FLOOR_FLOOR_H
#define OKV_BENCH_FLOOR_FLOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/load/runner.h"
#include "bench/report/histogram.h"

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
    bool read_whole;     /* those are all that a get has to fetch */
    bool echo_whole;     /* an echo has all that a put has */
    struct histogram latency[FLOOR_KIND_COUNT];
    struct histogram pace[FLOOR_KIND_COUNT]; /* of each slice: ps for an operation, or a key */
    double seconds[FLOOR_KIND_COUNT];        /* of all slices of a kind */
    struct okv_counters counters;            /* of all gets, those of the stretch too */
    double stretch_seconds;
    uint64_t stretch_gets;
    bool cpu_known;        /* the server tells its CPU time */
    double cpu_gets_ms;    /* it, during the stretch of gets */
    double cpu_nothing_ms; /* and during the stretch of nothing */
};

/* What a round comes to; 0 where there is nothing to compare with. */
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

/* Runs round `number` (from 1) on the runner's first connection, which is okv's; values are
 * of one size. What came of all is added to `tally`, though not the gets' latencies. Returns 0, or
 * a code with its sentence in the tally. */
int floor_round_run(struct runner *runner, uint32_t number, struct floor_round *round,
                    struct loop_tally *tally);

void floor_round_figures(const struct floor_round *round, struct floor_figures *figures);

#endif
