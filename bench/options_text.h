/* Parses the arguments of kv-bench's options. On a usage error each function ends the program with
 * a sentence that names the option. */
#ifndef OKV_BENCH_OPTIONS_TEXT_H
#define OKV_BENCH_OPTIONS_TEXT_H

#include <argp.h>
#include <stdint.h>

#include "bench/load/operation.h"
#include "bench/load/workload.h"

/* A whole number with an optional decimal K, M or G. */
uint64_t options_read_count(struct argp_state *state, const char *option, const char *text,
                            uint64_t low, uint64_t high);
/* Up to `counts_max` such numbers, at least 1 and all different, with commas between them. Returns
 * how many. */
uint32_t options_read_counts(struct argp_state *state, const char *option, const char *text,
                             uint64_t high, uint32_t *counts, uint32_t counts_max);
double options_read_real(struct argp_state *state, const char *option, const char *text, double low,
                         double high);
/* A number of seconds, or a time with its unit. */
double options_read_seconds(struct argp_state *state, const char *option, const char *text,
                            double low, double high);
/* Bytes, with an optional binary unit. */
uint32_t options_read_size(struct argp_state *state, const char *option, const char *text,
                           uint64_t low, uint64_t high);
/* "get=95,put=5", in any order: percentages. The rest to 100 goes to gets if they are not
 * named, else to puts if those are not. */
void options_read_mix(struct argp_state *state, const char *text,
                      double mix[OPERATION_MIXED_COUNT]);
enum workload_distribution options_read_distribution(struct argp_state *state, const char *text);
/* "0.2,0.8": shares of the records and of the operations. */
void options_read_hotspot(struct argp_state *state, const char *text,
                          struct workload_choice *choice);
/* "32", "16-4K", "trace" or "trace:64K". */
void options_read_values(struct argp_state *state, const char *text,
                         struct workload_values *values);

#endif
