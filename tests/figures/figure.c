#include "tests/figures/figure.h"

#include <inttypes.h>
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
