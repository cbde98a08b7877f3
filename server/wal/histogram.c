#include "server/wal/histogram.h"

/* Values below 8 have a cell each. */
static unsigned cell_of(uint64_t value)
{
    if (value < 8)
        return (unsigned)value;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(value);
    return (exponent - 2) * 8 + (unsigned)(value >> (exponent - 3) & 7);
}

/* The largest value of a cell. */
static uint64_t cell_end(unsigned cell)
{
    if (cell < 8)
        return cell;
    unsigned shift = cell / 8 - 1;
    return ((UINT64_C(8) + cell % 8) << shift) + ((UINT64_C(1) << shift) - 1);
}

static void increase(atomic_uint_fast64_t *figure, uint64_t by)
{
    atomic_fetch_add_explicit(figure, by, memory_order_relaxed);
}

void okv_wal_histogram_add(struct okv_wal_histogram *histogram, uint64_t value)
{
    increase(&histogram->cells[cell_of(value)], 1);
    increase(&histogram->count, 1);
    increase(&histogram->sum, value);
    if (value > atomic_load_explicit(&histogram->max, memory_order_relaxed))
        atomic_store_explicit(&histogram->max, value, memory_order_relaxed);
}

uint64_t okv_wal_histogram_below(const struct okv_wal_histogram *histogram, unsigned exponent)
{
    uint64_t count = 0;

    for (unsigned cell = cell_of(UINT64_C(1) << exponent); cell-- > 0;)
        count += atomic_load(&histogram->cells[cell]);
    return count;
}

uint64_t okv_wal_histogram_quantile(const struct okv_wal_histogram *histogram, unsigned percent)
{
    uint64_t count = atomic_load(&histogram->count), max = atomic_load(&histogram->max);
    uint64_t rank = count / 100 * percent + (count % 100 * percent + 99) / 100, below = 0;
    unsigned cell = 0;

    while (cell < OKV_WAL_HISTOGRAM_CELLS - 1 &&
           (below += atomic_load(&histogram->cells[cell])) < rank)
        cell++;
    return cell_end(cell) < max ? cell_end(cell) : max;
}
