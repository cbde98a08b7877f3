#include "tests/figures/figure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

uint64_t figure_number(const char *text, uint64_t least, uint64_t most, struct argp_state *state)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || number < least || number > most)
        argp_error(state, "%s: give a number from %" PRIu64 " to %" PRIu64, text, least, most);
    return number;
}

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

double figure_median(double *values, uint64_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static int compare_times(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

uint64_t figure_median_time(uint64_t *times, uint64_t count)
{
    qsort(times, count, sizeof *times, compare_times);
    return times[count / 2];
}

static void print_case(const struct figure_cases *cases, unsigned which, bool of_rates)
{
    double values[FIGURE_ROUNDS_MAX], ratios[FIGURE_ROUNDS_MAX];
    uint64_t rounds = cases->rounds;

    for (uint64_t round = 0; round < rounds; round++) {
        const double *times = cases->times + round * cases->count;
        values[round] = times[which];
        ratios[round] = of_rates ? times[0] / times[which] : times[which] / times[0];
    }
    double value = figure_median(values, rounds), ratio = figure_median(ratios, rounds);
    printf("%8.3f (%8.3f to %8.3f)  %5.3f (%5.3f to %5.3f)  %s\n", value, values[0],
           values[rounds - 1], ratio, ratios[0], ratios[rounds - 1], cases->names[which]);
}

void figure_print_cases(const struct figure_cases *cases, bool of_rates)
{
    printf("%31s  %23s\n", "us (rounds)", of_rates ? "rate over the first's" : "over the first");
    for (unsigned i = 0; i < cases->count; i++)
        print_case(cases, i, of_rates);
}
