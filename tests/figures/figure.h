/* What the programs that measure figures share: numbers of a command line, and medians. */
#ifndef OKV_TESTS_FIGURE_H
#define OKV_TESTS_FIGURE_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#define FIGURE_ROUNDS_MAX 101

/* Ends the program with what is wrong unless the text is a number from `least` to `most`. */
uint64_t figure_number(const char *text, uint64_t least, uint64_t most, struct argp_state *state);

/* Both sort what they are given; `count` is not 0. */
double figure_median(double *values, uint64_t count);
uint64_t figure_median_time(uint64_t *times, uint64_t count);

/* What rounds measured of each of several cases. */
struct figure_cases {
    const char *const *names; /* [count] */
    const double *times;      /* [rounds][count], us */
    unsigned count;
    uint64_t rounds; /* at most FIGURE_ROUNDS_MAX */
};

/* A line for each case: the median of its times, that of its ratios to the first case of the same
 * round, and of both the least and the most. Ratios are of times, or of rates. */
void figure_print_cases(const struct figure_cases *cases, bool of_rates);

#endif
