/*
 * The named figures of a target's rounds, for summaries and ratios. Each figure has the same index
 * in every round.
 */
#ifndef OKV_BENCH_REPORT_REPORT_FIGURES_H
#define OKV_BENCH_REPORT_REPORT_FIGURES_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/report/report.h"

/* Percentiles of an operation. */
enum report_percentile { REPORT_P50, REPORT_P90, REPORT_P99, REPORT_P99_9, REPORT_MAX };
#define REPORT_PERCENTILES 5

/* Indexes of a phase's figures; those of operations begin at REPORT_LATENCIES. */
enum report_phase_figure {
    REPORT_RATE,
    REPORT_READS_PER_GET,
    REPORT_WIRE_BYTES,
    REPORT_CLIENT_CPU,
    REPORT_SERVER_CPU,
    REPORT_LATENCIES,
};
#define REPORT_PHASE_FIGURES (REPORT_LATENCIES + OPERATION_COUNT * REPORT_PERCENTILES)
#define REPORT_LATENCY(operation, percentile) \
    (REPORT_LATENCIES + (operation)*REPORT_PERCENTILES + (percentile))

/* Indexes of a floor's figures: p50, p99 and rate of each kind, then these. */
enum report_floor_figure {
    REPORT_GET_OVER_COPY = FLOOR_KIND_COUNT * 3,
    REPORT_GET_OVER_READ,
    REPORT_PUT_OVER_ECHO,
    REPORT_GET_RATE_OVER_READ,
    REPORT_FLOOR_READS_PER_GET,
    REPORT_FLOOR_SERVER_CPU,
    REPORT_FLOOR_FIGURES,
};
#define REPORT_FLOOR(kind, which) ((kind)*3 + (which))
enum report_floor_which { REPORT_FLOOR_P50, REPORT_FLOOR_P99, REPORT_FLOOR_RATE };

struct report_rounds {
    const char *const *names; /* [figures] */
    uint32_t figures;
    uint32_t rounds;
    double *values; /* [rounds * figures]; NAN: not known */
};

/* Returns 0, or -1 without memory. */
int report_rounds_init(struct report_rounds *rounds, const struct report_target *target);
void report_rounds_fini(struct report_rounds *rounds);

/* The spread over the rounds that have the figure; false when none has. */
bool report_rounds_spread(const struct report_rounds *rounds, uint32_t figure,
                          struct report_spread *spread);
/* The spread of the ratios `of` / `to`, over the rounds that both finished. */
bool report_rounds_ratio(const struct report_rounds *of, const struct report_rounds *to,
                         uint32_t figure, struct report_spread *spread);

/* The number of all operations. */
uint64_t report_operations(const struct loop_tally *tally);
/* Of a replay: requests that were answered with a value, and puts that were stored. */
uint64_t report_hits(const struct loop_tally *tally);
uint64_t report_puts(const struct loop_tally *tally);
/* NAN where unknown. */
double report_reads_per_get(const struct okv_counters *counters);
double report_wire_bytes(const struct phase *phase);
double report_cpu_us(const struct phase *phase, double cpu_ms);
double report_rate(const struct phase *phase);

/* One counter of okv over all rounds: offsetof(struct okv_counters, NAME). */
uint64_t report_counter(const struct report_target *target, size_t offset);

#endif
