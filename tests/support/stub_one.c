#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/stub_one.h"

char key[16];
char moved[16];
uint64_t version;

int one_setup(void **state)
{
    client_setup(state);
    stub_key(key, BUCKET, STUB_DEPTH + 1, 0);
    stub_key(moved, BUCKET + STUB_BUCKETS, STUB_DEPTH + 1, 0);
    version = 0;
    length = SIZE_MAX;
    return 0;
}

int get_key(const char *of)
{
    return okv_get(handle, of, strlen(of), buffer[0], sizeof buffer[0], &length, &version);
}

void write_item(const struct okv_entry *entry)
{
    stub_bucket(BUCKET, STUB_DEPTH, entry, 1);
}

void write_inline(const char *value)
{
    struct okv_entry entry = stub_inline(key, value);

    write_item(&entry);
}

struct okv_counters counters(void)
{
    struct okv_counters counted;

    okv_counters(handle, &counted);
    return counted;
}
