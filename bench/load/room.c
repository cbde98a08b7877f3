#include "bench/load/room.h"

#include <math.h>
#include <okv.h>
#include <stdio.h>

#include "shared/base/size.h"

/* Records whose sizes are looked at: one percent off at most, which no table would notice. */
#define SAMPLE 100000
/* An item needs less than this many times its bytes and these (docs/capacity.md). */
#define ROOM_FACTOR 2
#define ROOM_EXTRA_BYTES 96
#define MEBIBYTE 0x1p20

/* The average record, key and value. */
static double average_bytes(const struct room_wanted *wanted)
{
    uint64_t count = wanted->records < SAMPLE ? wanted->records : SAMPLE;
    double sum = 0;

    if (wanted->values->sizes == WORKLOAD_SIZES_FIXED)
        return (double)wanted->key_size + wanted->values->high;
    for (uint64_t record = 0; record < count; record++)
        sum += workload_value_size(wanted->values, record);
    return wanted->key_size + sum / (double)count;
}

double room_bytes(const struct room_wanted *wanted)
{
    return average_bytes(wanted) * (double)wanted->records;
}

int room_check(const struct room_wanted *wanted, uint64_t table_bytes, char *why, size_t why_size)
{
    double each = average_bytes(wanted);
    double all = each * (double)wanted->records;
    double ample = ROOM_FACTOR * (each + ROOM_EXTRA_BYTES);
    char all_text[OKV_SIZE_TEXT], table_text[OKV_SIZE_TEXT], records[64] = "";

    if (all <= (double)table_bytes)
        return OKV_OK;
    okv_size_format(all < 0x1p63 ? (uint64_t)all : UINT64_C(1) << 63, all_text, sizeof all_text);
    okv_size_format(table_bytes, table_text, sizeof table_text);
    if ((double)table_bytes >= ample)
        snprintf(records, sizeof records, "--records %.0f or ", floor((double)table_bytes / ample));
    snprintf(why, why_size,
             "%llu records of %.0f bytes%s, key and value, are %s, and the table has %s: start "
             "okv-server with --memory %.0fM, or give %sa smaller --value-size",
             (unsigned long long)wanted->records, each,
             wanted->values->sizes == WORKLOAD_SIZES_FIXED ? "" : " on average", all_text,
             table_text, ceil(ample * (double)wanted->records / MEBIBYTE), records);
    return OKV_EFULL;
}
