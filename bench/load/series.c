#include "bench/load/series.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_SECOND UINT64_C(1000000000)

void series_init(struct series *series, uint64_t start_ns, uint32_t limit)
{
    memset(series, 0, sizeof *series);
    series->start_ns = start_ns;
    series->limit = limit > 0 && limit < SERIES_SECONDS_MAX ? limit : SERIES_SECONDS_MAX;
}

void series_fini(struct series *series)
{
    for (uint32_t i = 0; i < series->seconds; i++)
        free(series->latency[i]);
    series->seconds = 0;
}

static struct histogram *second_at(struct series *series, uint64_t second)
{
    if (second >= series->limit)
        second = series->limit - 1;
    if (!series->latency[second]) {
        struct histogram *histogram = malloc(sizeof *histogram);
        if (!histogram)
            return NULL;
        histogram_init(histogram);
        series->latency[second] = histogram;
    }
    if (series->seconds <= second)
        series->seconds = (uint32_t)second + 1;
    return series->latency[second];
}

struct histogram *series_at(struct series *series, uint64_t end_ns, uint64_t *until_ns)
{
    uint64_t passed = end_ns > series->start_ns ? end_ns - series->start_ns : 0;
    uint64_t second = passed / NS_PER_SECOND;

    *until_ns = series->start_ns + (second + 1) * NS_PER_SECOND;
    return second_at(series, second);
}

void series_merge(struct series *into, const struct series *from)
{
    for (uint32_t i = 0; i < from->seconds; i++) {
        struct histogram *histogram = from->latency[i] ? second_at(into, i) : NULL;
        if (histogram)
            histogram_merge(histogram, from->latency[i]);
    }
}
