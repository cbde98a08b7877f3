#include "bench/load/workload.h"

#include <endian.h>
#include <math.h>
#include <string.h>

/* Beyond this many terms the sum for zeta is taken as an integral. */
#define ZETA_EXACT_TERMS 1000000u

/* ---- which record ------------------------------------------------------- */

/* Sum of 1 / i^theta for i from 1 to n: exact terms, then Euler-Maclaurin, whose
 * error is far below that of the additions. */
static double zeta_sum(uint64_t n, double theta)
{
    uint64_t exact = n < ZETA_EXACT_TERMS ? n : ZETA_EXACT_TERMS;
    double sum = 0.0;

    for (uint64_t i = exact; i >= 1; i--)
        sum += pow((double)i, -theta);
    if (exact == n)
        return sum;
    double from = (double)exact;
    double to = (double)n;
    sum += (pow(to, 1.0 - theta) - pow(from, 1.0 - theta)) / (1.0 - theta);
    sum += (pow(to, -theta) - pow(from, -theta)) / 2.0;
    return sum;
}

void workload_chooser_init(struct workload_chooser *chooser, const struct workload_choice *choice)
{
    uint64_t records = choice->records;

    *chooser = (struct workload_chooser){.distribution = choice->distribution,
                                         .records = records,
                                         .hot_records = choice->hot_records,
                                         .hot_operations = choice->hot_operations,
                                         .scatter_bits = 2};
    /* At least two bits, so that scatter() has halves to work on. */
    while (chooser->scatter_bits < 63 && (records - 1) >> chooser->scatter_bits != 0)
        chooser->scatter_bits++;
    if (choice->distribution != WORKLOAD_ZIPFIAN && choice->distribution != WORKLOAD_LATEST)
        return;

    double n = (double)records;
    chooser->theta = choice->theta;
    chooser->zeta = zeta_sum(records, choice->theta);
    chooser->alpha = 1.0 / (1.0 - choice->theta);
    /* With one or two records the first two cases of rank() cover everything. */
    if (records > 2)
        chooser->eta = (1.0 - pow(2.0 / n, 1.0 - choice->theta)) /
                       (1.0 - zeta_sum(2, choice->theta) / chooser->zeta);
}

uint64_t workload_chooser_rank(const struct workload_chooser *chooser,
                               struct workload_random *random)
{
    double unit = workload_random_unit(random);
    double scaled = unit * chooser->zeta;

    if (scaled < 1.0 || chooser->records == 1)
        return 0;
    if (scaled < 1.0 + pow(0.5, chooser->theta) || chooser->records == 2)
        return 1;
    double share = pow(chooser->eta * unit - chooser->eta + 1.0, chooser->alpha);
    uint64_t rank = (uint64_t)((double)chooser->records * share);
    return rank < chooser->records ? rank : chooser->records - 1;
}

/* Permutes 0 to 2^bits - 1 repeatedly until the result is a record: at most
 * two times on average, as the power of two is less than twice the records. */
uint64_t workload_chooser_scatter(const struct workload_chooser *chooser, uint64_t rank)
{
    unsigned bits = chooser->scatter_bits;
    unsigned half = (bits + 1) / 2;
    uint64_t mask = (UINT64_C(1) << bits) - 1;
    uint64_t record = rank;

    do {
        record = (record * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019)) & mask;
        record ^= record >> half;
        record = (record * UINT64_C(0xbf58476d1ce4e5b9)) & mask;
        record ^= record >> half;
        record = (record * UINT64_C(0x94d049bb133111eb)) & mask;
        record ^= record >> half;
    } while (record >= chooser->records);
    return record;
}

/* A rank among the hot records, which are the first ones, or among the others. */
static uint64_t hotspot_rank(const struct workload_chooser *chooser, struct workload_random *random)
{
    uint64_t hot = (uint64_t)((double)chooser->records * chooser->hot_records);

    if (hot < 1)
        hot = 1;
    if (hot == chooser->records || workload_random_unit(random) < chooser->hot_operations)
        return workload_random_below(random, hot);
    return hot + workload_random_below(random, chooser->records - hot);
}

uint64_t workload_chooser_next(const struct workload_chooser *chooser,
                               struct workload_random *random, uint64_t inserted)
{
    switch (chooser->distribution) {
    case WORKLOAD_UNIFORM:
        return workload_random_below(random, chooser->records);
    case WORKLOAD_LATEST:
        return inserted - 1 - workload_chooser_rank(chooser, random);
    case WORKLOAD_HOTSPOT:
        return workload_chooser_scatter(chooser, hotspot_rank(chooser, random));
    default:
        return workload_chooser_scatter(chooser, workload_chooser_rank(chooser, random));
    }
}

/* ---- keys and values ---------------------------------------------------- */

/* The scale and the shape of the generalised Pareto distribution of ETC's value sizes. */
#define TRACE_SCALE 214.476
#define TRACE_SHAPE 0.348238

/* The size that a share of `unit` of the trace's values stays below. */
static double trace_size(double unit)
{
    return TRACE_SCALE / TRACE_SHAPE * (pow(1.0 - unit, -TRACE_SHAPE) - 1.0);
}

uint32_t workload_value_size(const struct workload_values *values, uint64_t record)
{
    if (values->sizes == WORKLOAD_SIZES_FIXED)
        return values->high;
    /* A random stream apart from the values'. */
    struct workload_random random = {.state = record ^ UINT64_C(0x6a09e667f3bcc908)};
    if (values->sizes == WORKLOAD_SIZES_UNIFORM)
        return values->low +
               (uint32_t)workload_random_below(&random, (uint64_t)values->high - values->low + 1);
    double size = trace_size(workload_random_unit(&random));
    if (size < WORKLOAD_VALUE_MIN)
        return WORKLOAD_VALUE_MIN;
    return size < values->high ? (uint32_t)size : values->high;
}

bool workload_key_fits(uint64_t records, size_t size)
{
    return size >= 16 || records <= UINT64_C(1) << (4 * size);
}

/* Eight hexadecimal digits, the last one in the highest byte: each half of a byte in a byte of its
 * own, plus '0', plus the distance between '9' and 'a' where it is above 9. */
static uint64_t hexadecimal(uint32_t number)
{
    uint64_t halves = __builtin_bswap32(number);

    halves = (halves | halves << 16) & UINT64_C(0x0000ffff0000ffff);
    halves = (halves | halves << 8) & UINT64_C(0x00ff00ff00ff00ff);
    halves = (halves >> 4 | halves << 8) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    uint64_t above_9 = (halves + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    return halves + UINT64_C(0x3030303030303030) + above_9 * ('a' - '9' - 1);
}

void workload_key_write(uint64_t record, char *key, size_t size)
{
    uint64_t high = record >> 32 ? hexadecimal((uint32_t)(record >> 32)) : hexadecimal(0);
    uint64_t digits[2] = {htole64(high), htole64(hexadecimal((uint32_t)record))};

    if (size >= sizeof digits) {
        memset(key, '0', size - sizeof digits);
        memcpy(key + size - 16, &digits[0], 8);
        memcpy(key + size - 8, &digits[1], 8);
    } else {
        memcpy(key, (char *)digits + sizeof digits - size, size);
    }
}

void workload_number_key_write(uint64_t record, char *key, size_t size)
{
    key[0] = 'n';
    workload_key_write(record, key + 1, size - 1);
}

/* Word `index` after the counter. */
static uint64_t value_word(uint64_t seed, size_t index)
{
    return workload_mix(seed + UINT64_C(0x9e3779b97f4a7c15) * (index + 1));
}

static uint64_t value_seed(uint64_t record, uint64_t counter, size_t size)
{
    return workload_mix(record) ^ workload_mix(counter + UINT64_C(0x2545f4914f6cdd1d)) ^ size;
}

/* Bytes of the value after its last whole word. */
static size_t value_tail(size_t size)
{
    return size % sizeof(uint64_t);
}

void workload_value_write(uint64_t record, uint64_t counter, char *value, size_t size)
{
    uint64_t seed = value_seed(record, counter, size);
    size_t words = size / sizeof(uint64_t) - 1;
    char *at = value + sizeof counter;

    memcpy(value, &counter, sizeof counter);
    for (size_t i = 0; i < words; i++, at += sizeof(uint64_t)) {
        uint64_t word = value_word(seed, i);
        memcpy(at, &word, sizeof word);
    }
    uint64_t last = value_word(seed, words);
    memcpy(at, &last, value_tail(size));
}

bool workload_value_check(uint64_t record, const char *value, size_t size)
{
    uint64_t counter;
    uint64_t difference = 0;

    if (size < WORKLOAD_VALUE_MIN)
        return false;
    memcpy(&counter, value, sizeof counter);
    uint64_t seed = value_seed(record, counter, size);
    size_t words = size / sizeof(uint64_t) - 1;
    const char *at = value + sizeof counter;
    for (size_t i = 0; i < words; i++, at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        difference |= word ^ value_word(seed, i);
    }
    uint64_t last = value_word(seed, words);
    return difference == 0 && memcmp(at, &last, value_tail(size)) == 0;
}

/* ---- names for reports -------------------------------------------------- */

const char *const workload_distributions[] = {"uniform", "zipfian", "latest", "hotspot", NULL};

const char *workload_sizes_name(enum workload_sizes sizes)
{
    static const char *const names[] = {[WORKLOAD_SIZES_FIXED] = "fixed",
                                        [WORKLOAD_SIZES_UNIFORM] = "uniform",
                                        [WORKLOAD_SIZES_TRACE] = "trace"};

    return names[sizes];
}
