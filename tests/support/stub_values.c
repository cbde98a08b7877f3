#include "tests/support/stub_values.h"

#include "tests/support/test.h"

#include "tests/support/pace.h"

char keys[3][16];
char value[LONG + 1];
uint8_t got[LONG];
okv_registration *registration;
struct okv_counters counted;
unsigned damaged_read;

static uint64_t damage_at;
static uint8_t damage_good;

int values_setup(void **state)
{
    client_setup(state);
    for (unsigned i = 0; i < 3; i++)
        stub_key(keys[i], BUCKET + STUB_BUCKETS, STUB_DEPTH + 1, i);
    for (unsigned i = 0; i < LONG; i++)
        value[i] = (char)('a' + i * 7 / 5 % 23);
    value[LONG] = '\0';
    memset(got, '#', sizeof got);
    registration = NULL;
    length = 0;
    memset(&counted, 0, sizeof counted);
    return 0;
}

void values_open(uint32_t hints, bool registered)
{
    struct okv_options options = {.depth = 4,
                                  .credits = 4,
                                  .timeout_ms = PACE_GUARD_MS,
                                  .hints = hints,
                                  .reconnect = OKV_RECONNECT_NEVER};

    handle = stub_open_with(&options);
    if (registered)
        assert_int_equal(okv_register(handle, got, sizeof got, &registration), OKV_OK);
}

void values_close(void)
{
    okv_unregister(handle, &registration);
    assert_null(registration);
    stub_close(&handle);
}

struct okv_entry write_value(uint32_t size, bool key_in_extent, uint64_t offset)
{
    char end = value[size];

    value[size] = '\0';
    struct okv_entry entry = key_in_extent ? stub_reference(keys[0], value, offset)
                                           : stub_reference_here(keys[0], value, offset);
    value[size] = end;
    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
    return entry;
}

int get_into(size_t size)
{
    int rc = okv_get(handle, keys[0], strlen(keys[0]), got, size, &length, NULL);

    okv_counters(handle, &counted);
    assert_int_equal(stub.reads_outside, 0);
    return rc;
}

void assert_got(uint32_t size)
{
    assert_int_equal(get_into(LONG), OKV_OK);
    assert_int_equal(length, size);
    assert_memory_equal(got, value, size);
}

static void damage(unsigned n)
{
    stub.region[damage_at] = (uint8_t)(damage_good ^ (n == damaged_read));
}

void damage_begin(uint64_t offset)
{
    damage_at = offset;
    damage_good = stub.region[offset];
    stub.before_read = damage;
}

void damage_end(void)
{
    stub.region[damage_at] = damage_good;
    stub.before_read = NULL;
}
