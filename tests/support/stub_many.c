#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/handle.h"
#include "tests/support/stub_many.h"

#define PART (STUB_HEAP + 16384)

char many_keys[MANY][16];
char many_got[MANY][32];
struct okv_command many_commands[MANY];
struct okv_result many_answers[MANY];
unsigned many_hang_up_at;

uint64_t many_bucket(unsigned n)
{
    return n % STUB_BUCKETS;
}

void many_write_commands(void)
{
    memset(many_got, '#', sizeof many_got);
    memset(many_answers, 0xff, sizeof many_answers);
    for (unsigned n = 0; n < MANY; n++)
        many_commands[n] = (struct okv_command){
            .kind = OKV_GET,
            .tag = 1000 + n,
            .key = many_keys[n],
            .key_length = strlen(many_keys[n]),
            .buffer = many_got[n],
            .buffer_size = sizeof many_got[n],
        };
}

struct okv_entry many_item(unsigned n)
{
    return stub_inline(many_keys[n], many_keys[n]);
}

unsigned many_items(uint64_t bucket, const struct okv_entry *odd, struct okv_entry entries[MANY])
{
    unsigned count = 0;

    for (unsigned n = 0; n < MANY; n++)
        if (many_bucket(n) == bucket)
            entries[count++] = odd && n == MANY_ODD ? *odd : many_item(n);
    return count;
}

void many_write_items(const struct okv_entry *odd)
{
    struct okv_entry entries[MANY];

    for (uint64_t bucket = 0; bucket < STUB_BUCKETS; bucket++) {
        unsigned count = many_items(bucket, odd, entries);
        stub_bucket(bucket, STUB_DEPTH, entries, count);
    }
}

void many_split_odd(void)
{
    struct okv_entry entries[MANY];
    uint64_t other = many_bucket(MANY_ODD) + STUB_BUCKETS;

    stub_key(many_keys[MANY_ODD], other, STUB_DEPTH + 1, 0);
    many_commands[MANY_ODD].key_length = strlen(many_keys[MANY_ODD]);
    entries[0] = many_item(MANY_ODD);
    stub_bucket(other, STUB_DEPTH + 1, entries, 1);
    for (uint64_t bucket = 0; bucket <= many_bucket(MANY_ODD); bucket++)
        stub_bucket(bucket, STUB_DEPTH + 1, entries, many_items(bucket, NULL, entries));
    entries[0] = stub_inline("?", "?"); /* of the other bucket no more here */
    stub_bucket(0, STUB_DEPTH + 1, entries, many_items(0, NULL, entries));
}

struct stub_image many_chain_odd(void)
{
    struct okv_entry entries[MANY], moved = many_item(MANY_ODD);
    struct stub_image image = {
        .offset = stub_place(many_bucket(MANY_ODD)),
        .bucket = many_bucket(MANY_ODD),
        .version = STUB_VERSION,
        .chain = PART,
        .depth = STUB_DEPTH,
    };

    many_items(many_bucket(MANY_ODD), NULL, entries);
    entries[1] = entries[2]; /* the odd one was between them */
    stub_write(&image, entries, 2);
    image.offset = PART;
    image.chain = 0;
    image.page = 1;
    stub_write(&image, &moved, 1);
    return image;
}

void many_tear_odd(unsigned n)
{
    if (n == MANY_ODD + 1 || n == MANY_ODD + 2)
        stub.region[stub_place(many_bucket(MANY_ODD)) + 40] ^= 0xff;
}

void many_hang_up_once(unsigned n)
{
    if (n != many_hang_up_at)
        return;
    stub.before_read = NULL;
    stub_hang_up();
}

/* Keys stay in their buckets when these are split. */
int many_setup(void **state)
{
    client_setup(state);
    for (unsigned n = 0; n < MANY; n++)
        stub_key(many_keys[n], many_bucket(n), STUB_DEPTH + 1, n / STUB_BUCKETS);
    many_write_commands();
    many_write_items(NULL);
    return 0;
}

struct okv_counters many_counters(void)
{
    struct okv_counters counted;

    okv_counters(handle, &counted);
    return counted;
}

int many_get(void)
{
    return okv_get_many(handle, many_commands, many_answers, MANY);
}

/* All of the result, not only what the command's kind has. */
void many_assert_answer(unsigned n, const char *value)
{
    assert_int_equal(many_answers[n].tag, 1000 + n);
    assert_int_equal(many_answers[n].status, OKV_OK);
    assert_int_equal(many_answers[n].reserved, 0);
    assert_int_equal(many_answers[n].length, strlen(value));
    assert_int_equal(many_answers[n].version, 5);
    assert_int_equal(many_answers[n].number, 0);
    assert_int_equal(many_answers[n].ttl_ms, OKV_TTL_NONE);
    assert_memory_equal(many_got[n], value, strlen(value));
    assert_int_equal(many_got[n][strlen(value)], '#');
}

void many_assert_status(unsigned n, int status)
{
    const struct okv_result expected = {.tag = 1000 + n, .status = status};

    assert_memory_equal(&many_answers[n], &expected, sizeof expected);
    assert_int_equal(many_got[n][0], '#');
}

void many_assert_others(void)
{
    for (unsigned n = 0; n < MANY; n++)
        if (n != MANY_ODD)
            many_assert_answer(n, many_keys[n]);
}

void many_assert_idle(void)
{
    assert_int_equal(handle->active, 0);
    assert_int_equal(handle->free.count, handle->slot_count);
    assert_int_equal(handle->reads, 0);
    assert_int_equal(handle->batch.count, 0);
}

void many_assert_all(unsigned operations, unsigned reads)
{
    uint64_t taken = handle->taken;
    struct okv_counters before = many_counters();

    many_write_commands();
    stub.reads = 0;
    assert_int_equal(many_get(), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_answer(n, many_keys[n]);
    assert_int_equal(handle->taken - taken, operations);
    assert_int_equal(stub.reads, reads);
    assert_int_equal(many_counters().reads - before.reads, reads);
    assert_int_equal(many_counters().gets - before.gets, MANY);
    assert_int_equal(many_counters().hits - before.hits, MANY);
    many_assert_idle();
}
