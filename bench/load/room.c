#include "bench/load/room.h"

#include <math.h>
#include <okv.h>
#include <stdio.h>

#include "shared/base/size.h"

/* Records whose sizes are looked at: one percent off at most, which no table would notice. */
#define SAMPLE 100000
/* A region may hold up to 15 % more items than the formula says (tests/end_to_end/capacity.sh). */
#define MARGIN 1.2
/* What a server with --data leaves to its items. It does not say whether it has a log. */
#define UNRESERVED (31.0 / 32)
#define MEBIBYTE 0x1p20

/* Bytes of a record, key and value, and what a table needs for it. */
struct need {
    double bytes, least, quick;
};

/* Of the heap: four for each power of two, pages above 14 KiB. */
static double size_class(double bytes)
{
    double step = 16;

    while (step < 4096 && bytes > 8 * step)
        step *= 2;
    return step * ceil(bytes / step);
}

/* The formula of docs/capacity.md. */
static struct need need_of(double key, double value, double bucket)
{
    struct need need = {.bytes = key + value};

    if (key + value + 4 <= (bucket - 24) / 3) { /* in the bucket */
        double entries = floor((bucket - 24) / (key + value + 7));
        need.quick = 1.02 * 4 * bucket / (2 * entries - 3);
        need.least = 1.05 * (1.25 * (key + value) + 16);
        return need;
    }
    double extent = size_class(key + value), reference = 21;
    if (key <= (bucket - 24) / 8 && size_class(value) + 2 * key < extent) {
        extent = size_class(value);
        reference = 19 + key;
    }
    need.quick = need.least = 1.02 * (extent + 1.75 * reference);
    return need;
}

/* Of the average record. */
static struct need average(const struct room_wanted *wanted)
{
    bool is_fixed = wanted->values->sizes == WORKLOAD_SIZES_FIXED;
    uint64_t count = is_fixed ? 1 : wanted->records < SAMPLE ? wanted->records : SAMPLE;
    struct need sum = {0};

    for (uint64_t record = 0; record < count; record++) {
        struct need need = need_of(wanted->key_size, workload_value_size(wanted->values, record),
                                   wanted->bucket_bytes);
        sum.bytes += need.bytes;
        sum.least += need.least;
        sum.quick += need.quick;
    }
    return (struct need){sum.bytes / (double)count, sum.least / (double)count,
                         sum.quick / (double)count};
}

double room_bytes(const struct room_wanted *wanted)
{
    return average(wanted).bytes * (double)wanted->records;
}

int room_check(const struct room_wanted *wanted, uint64_t table_bytes, char *why, size_t why_size)
{
    struct need each = average(wanted);
    double records = (double)wanted->records, table = (double)table_bytes;
    double most = floor(UNRESERVED * table / each.quick);
    char table_text[OKV_SIZE_TEXT], fewer[64] = "";

    if (fmax(each.bytes, each.least / MARGIN) * records <= table)
        return OKV_OK;
    okv_size_format(table_bytes, table_text, sizeof table_text);
    if (most > 0)
        snprintf(fewer, sizeof fewer, "--records %.0f or ", most);
    snprintf(why, why_size,
             "%llu records of %.0f bytes%s, key and value, need --memory %.0fM at least, and the "
             "table has %s: start okv-server with --memory %.0fM, for quick gets, or give %sa "
             "smaller --value-size",
             (unsigned long long)wanted->records, each.bytes,
             wanted->values->sizes == WORKLOAD_SIZES_FIXED ? "" : " on average",
             ceil(each.least * records / MEBIBYTE), table_text,
             ceil(each.quick * records / MEBIBYTE), fewer);
    return OKV_EFULL;
}
