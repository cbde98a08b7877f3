#include "bench/load/histogram.h"

#include <math.h>
#include <string.h>

#define SUB_COUNT (1u << HISTOGRAM_SUB_BITS)

static unsigned bucket_of(uint64_t value)
{
    if (value < SUB_COUNT)
        return (unsigned)value;
    unsigned shift = 63u - (unsigned)__builtin_clzll(value) - HISTOGRAM_SUB_BITS;
    return (shift << HISTOGRAM_SUB_BITS) + (unsigned)(value >> shift);
}

/* Buckets are 2^this wide. */
static unsigned bucket_shift(unsigned bucket)
{
    return bucket < 2 * SUB_COUNT ? 0 : (bucket >> HISTOGRAM_SUB_BITS) - 1;
}

static uint64_t bucket_low(unsigned bucket)
{
    unsigned shift = bucket_shift(bucket);

    return (uint64_t)(bucket - (shift << HISTOGRAM_SUB_BITS)) << shift;
}

static uint64_t bucket_middle(unsigned bucket)
{
    return bucket_low(bucket) + ((UINT64_C(1) << bucket_shift(bucket)) - 1) / 2;
}

static uint64_t bucket_high(unsigned bucket)
{
    return bucket_low(bucket) + ((UINT64_C(1) << bucket_shift(bucket)) - 1);
}

void histogram_init(struct histogram *histogram)
{
    memset(histogram, 0, sizeof *histogram);
    histogram->min = UINT64_MAX;
}

void histogram_record(struct histogram *histogram, uint64_t value)
{
    histogram->count++;
    histogram->sum += (double)value;
    if (value < histogram->min)
        histogram->min = value;
    if (value > histogram->max)
        histogram->max = value;
    histogram->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    into->count += from->count;
    into->sum += from->sum;
    if (from->min < into->min)
        into->min = from->min;
    if (from->max > into->max)
        into->max = from->max;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
}

uint64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    if (histogram->count == 0)
        return 0;

    double wanted = ceil((double)histogram->count * percent / 100.0);
    uint64_t rank = wanted < 1.0 ? 1 : (uint64_t)wanted;
    if (rank >= histogram->count)
        return histogram->max;

    uint64_t seen = 0;
    unsigned bucket = 0;
    for (; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->buckets[bucket];
        if (seen >= rank)
            break;
    }
    uint64_t value = bucket_middle(bucket);
    if (value < histogram->min)
        return histogram->min;
    return value > histogram->max ? histogram->max : value;
}

double histogram_mean(const struct histogram *histogram)
{
    return histogram->count > 0 ? histogram->sum / (double)histogram->count : 0.0;
}

bool histogram_next(const struct histogram *histogram, unsigned *bucket,
                    struct histogram_step *step)
{
    unsigned at = *bucket;

    while (at < HISTOGRAM_BUCKETS && histogram->buckets[at] == 0)
        at++;
    *bucket = at + 1;
    if (at >= HISTOGRAM_BUCKETS)
        return false;
    uint64_t upper = bucket_high(at);
    *step = (struct histogram_step){.upper = upper < histogram->max ? upper : histogram->max,
                                    .count = histogram->buckets[at]};
    return true;
}
