/*
 * How far gets are from the floor under them, and puts from theirs.
 *
 * The floor of a get is a raw READ: of one bucket or, where values are in extents, of
 * as many bytes as an item has, up to 64 buckets. That of a put is a ping. Both are
 * on the same connection, at the same depth. What is compared alternates in
 * small slices within each round, so that whatever else the machine does meets
 * all of them alike.
 *
 * Each round ends with a stretch of gets alone, for their rate and the server's
 * CPU time, and as long a stretch of nothing to compare that with.
 */
#ifndef OKV_BENCH_FLOOR_H
#define OKV_BENCH_FLOOR_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/histogram.h"
#include "bench/runner.h"

enum floor_kind { FLOOR_READ, FLOOR_GET, FLOOR_PUT, FLOOR_PING, FLOOR_KIND_COUNT };

struct floor_round {
    uint32_t read_bytes; /* of each raw READ */
    struct histogram latency[FLOOR_KIND_COUNT];
    struct okv_counters counters; /* of all gets, those of the stretch too */
    double stretch_seconds;
    uint64_t stretch_gets;
    bool cpu_known;        /* the server's figures have cpu_ms */
    double cpu_gets_ms;    /* the server's CPU time during the stretch of gets */
    double cpu_nothing_ms; /* and during the stretch of nothing */
};

/* What a round comes to. */
struct floor_figures {
    double read_p50_us, read_p99_us;
    double get_p50_us, get_p99_us;
    double put_p50_us, put_p99_us;
    double ping_p50_us, ping_p99_us;
    double get_over_read; /* p50s */
    double put_over_ping;
    double get_rate; /* per second, in the stretch */
    double reads_per_get;
};

/* Runs round `number` (from 1) on the runner's first connection. Gets, puts and
 * pings are tallied in `tally` too. Returns 0, or a code with its sentence in
 * the tally. */
int floor_round_run(struct runner *runner, uint32_t number, struct floor_round *round,
                    struct loop_tally *tally);

void floor_round_figures(const struct floor_round *round, struct floor_figures *figures);

#endif
