
#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_gets.h"

enum gets_entry gets_entries[GETS_ENTRIES] = {GETS_ONE, GETS_AT_ONCE, GETS_MANY, GETS_SUBMIT};
enum gets_entry gets_entry;
char gets_keys[GETS][16];
char gets_buffers[GETS][32];
struct okv_command gets_commands[GETS];
struct okv_result gets_results[GETS];
unsigned gets_fast;
unsigned gets_fast_submitted;
void (*gets_before_read)(unsigned n);

/* The odd one alone is in its bucket, the others share the rest. */
uint64_t gets_bucket(unsigned n)
{
    static const uint64_t others[] = {0, 2, 3};

    return n == GETS_ODD ? GETS_BUCKET : others[n % 3];
}

struct okv_entry gets_item(unsigned n)
{
    return stub_inline(gets_keys[n], gets_keys[n]);
}

void gets_write_odd(const struct okv_entry *entry)
{
    stub_bucket(GETS_BUCKET, STUB_DEPTH, entry, entry ? 1 : 0);
}

void gets_write_others(uint64_t split)
{
    for (uint64_t bucket = 0; bucket < STUB_BUCKETS; bucket++) {
        struct okv_entry entries[GETS];
        unsigned count = 0;
        if (bucket == GETS_BUCKET)
            continue;
        for (unsigned n = 0; n < GETS; n++)
            if (gets_bucket(n) == bucket)
                entries[count++] = gets_item(n);
        stub_bucket(bucket, STUB_DEPTH + (bucket < split), entries, count);
    }
}

void gets_split_odd(void)
{
    uint64_t other = GETS_BUCKET + STUB_BUCKETS;

    stub_key(gets_keys[GETS_ODD], other, STUB_DEPTH + 1, 0);
    gets_commands[GETS_ODD].key_length = strlen(gets_keys[GETS_ODD]);
    struct okv_entry entry = gets_item(GETS_ODD);
    stub_bucket(other, STUB_DEPTH + 1, &entry, 1);
    stub_bucket(GETS_BUCKET, STUB_DEPTH + 1, NULL, 0);
    gets_write_others(GETS_BUCKET + 1);
}

/* ---- READs on the fast path ---- */

unsigned gets_on_fast_path(void)
{
    unsigned count = 0;

    for (uint32_t i = 0; i < handle->slot_count; i++)
        count += handle->operations[i].is_fast;
    return count;
}

/* The latest READ is of a bucket's image, for an operation on the fast path or for none. */
static bool read_is_fast(void)
{
    for (uint32_t i = 0; handle && i < handle->slot_count; i++)
        if (handle->operations[i].image == stub.last_destination)
            return handle->operations[i].is_fast || handle->free.count == handle->slot_count;
    return false;
}

static void note_read(unsigned n)
{
    gets_fast += read_is_fast();
    if (gets_before_read)
        gets_before_read(n);
}

/* ---- a handle and its commands ---- */

void gets_write_commands(void)
{
    memset(gets_buffers, '#', sizeof gets_buffers);
    memset(gets_results, 0xff, sizeof gets_results);
    for (unsigned n = 0; n < GETS; n++)
        gets_commands[n] = (struct okv_command){
            .kind = OKV_GET,
            .tag = 1000 + n,
            .key = gets_keys[n],
            .key_length = strlen(gets_keys[n]),
            .buffer = gets_buffers[n],
            .buffer_size = sizeof gets_buffers[n],
        };
    gets_fast = 0;
    stub.reads = 0;
}

/* Keys stay in their buckets when these are split. */
int gets_setup(void **state)
{
    client_setup(state);
    gets_entry = *(const enum gets_entry *)*state;
    stub.has_now = gets_entry == GETS_AT_ONCE;
    stub.before_read = note_read;
    gets_before_read = NULL;
    unsigned found[STUB_BUCKETS] = {0};
    for (unsigned n = 0; n < GETS; n++)
        stub_key(gets_keys[n], gets_bucket(n), STUB_DEPTH + 1, found[gets_bucket(n)]++);
    struct okv_entry odd = gets_item(GETS_ODD);
    gets_write_odd(&odd);
    gets_write_others(0);
    gets_write_commands();
    return 0;
}

void gets_open(uint32_t depth)
{
    handle = stub_open(depth, 4, TIMEOUT_MS);
    gets_fast = 0;
}

void gets_open_lasting(uint32_t depth)
{
    handle = stub_open_lasting(depth, 4, TIMEOUT_MS);
    gets_fast = 0;
}

struct okv_counters gets_counters(void)
{
    struct okv_counters counted;

    okv_counters(handle, &counted);
    return counted;
}

/* ---- the calls ---- */

bool gets_are_concurrent(void)
{
    return gets_entry == GETS_MANY || gets_entry == GETS_SUBMIT;
}

/* In the result is what okv_get() tells, and how long the item lives if that is for ever. */
static int get_one(unsigned n)
{
    const struct okv_command *command = &gets_commands[n];
    struct okv_result *result = &gets_results[n];

    *result = (struct okv_result){.tag = command->tag};
    result->status = okv_get(handle, command->key, command->key_length, command->buffer,
                             command->buffer_size, &result->length, &result->version);
    result->ttl_ms = result->status == OKV_OK ? OKV_TTL_NONE : 0;
    return result->status;
}

void gets_submit(void)
{
    size_t accepted = 0;

    assert_int_equal(okv_submit(handle, gets_commands, GETS, &accepted), OKV_OK);
    assert_int_equal(accepted, GETS);
    assert_int_equal(okv_pending(handle), GETS);
    gets_fast_submitted = gets_on_fast_path();
}

void gets_collect(unsigned count)
{
    uint64_t until = pace_guard_end();
    struct okv_result polled[5];
    bool came[GETS] = {false};

    while (count > 0 && okv_clock_ns() < until) {
        int n = okv_poll(handle, polled, 5);
        for (int i = 0; i < n; i++) {
            uint64_t which = polled[i].tag - 1000;
            assert_true(which < GETS && !came[which]);
            came[which] = true;
            gets_results[which] = polled[i];
            count--;
        }
        if (n < 0)
            break;
    }
    assert_int_equal(count, 0);
}

/* The handle's failure if it is the status of any get, else OKV_OK. */
static int gets_failure(void)
{
    for (unsigned n = 0; n < GETS; n++)
        if (gets_results[n].status == handle->failure)
            return handle->failure;
    return OKV_OK;
}

int gets_run(void)
{
    switch (gets_entry) {
    case GETS_MANY: {
        int rc = okv_call_many(handle, gets_commands, gets_results, GETS);
        assert_int_equal(rc, gets_failure());
        break;
    }
    case GETS_SUBMIT:
        gets_submit();
        gets_collect(GETS);
        break;
    default:
        for (unsigned n = 0; n < GETS; n++)
            get_one(n);
    }
    return handle->failure;
}

int gets_call_one(void)
{
    switch (gets_entry) {
    case GETS_MANY:
        return okv_call_many(handle, gets_commands, gets_results, 1);
    case GETS_SUBMIT:
        return okv_submit(handle, gets_commands, 1, NULL);
    default:
        return get_one(0);
    }
}

void gets_put_in_all_slots(void)
{
    struct okv_command puts[GETS];
    size_t accepted = 0;

    for (unsigned n = 0; n < GETS; n++)
        puts[n] = (struct okv_command){
            .kind = OKV_PUT,
            .flags = OKV_IF_VERSION | OKV_WITH_TTL,
            .tag = 1000 + n,
            .key = "another key",
            .key_length = 11,
            .value = "value",
            .value_length = 5,
            .version = 5,
            .ttl_ms = HOUR_MS,
        };
    assert_int_equal(okv_submit(handle, puts, GETS, &accepted), OKV_OK);
    assert_int_equal(accepted, GETS);
    gets_collect(GETS);
}

/* ---- assertions ---- */

void gets_assert_value(unsigned n, const char *value)
{
    assert_int_equal(gets_results[n].tag, 1000 + n);
    assert_int_equal(gets_results[n].status, OKV_OK);
    assert_int_equal(gets_results[n].reserved, 0);
    assert_int_equal(gets_results[n].length, strlen(value));
    assert_int_equal(gets_results[n].version, 5);
    assert_int_equal(gets_results[n].number, 0);
    assert_int_equal(gets_results[n].ttl_ms, OKV_TTL_NONE);
    assert_memory_equal(gets_buffers[n], value, strlen(value));
    assert_int_equal(gets_buffers[n][strlen(value)], '#');
}

void gets_assert_status(unsigned n, int status)
{
    const struct okv_result expected = {.tag = 1000 + n, .status = status};

    assert_memory_equal(&gets_results[n], &expected, sizeof expected);
    assert_int_equal(gets_buffers[n][0], '#');
}

void gets_assert_values(void)
{
    for (unsigned n = 0; n < GETS; n++)
        gets_assert_value(n, gets_keys[n]);
}

void gets_assert_others(void)
{
    for (unsigned n = 0; n < GETS; n++)
        if (n != GETS_ODD)
            gets_assert_value(n, gets_keys[n]);
}

void gets_assert_idle(void)
{
    assert_int_equal(handle->active, 0);
    assert_int_equal(okv_pending(handle), 0);
    assert_int_equal(handle->free.count, handle->slot_count);
    assert_int_equal(handle->reads, 0);
    assert_int_equal(handle->batch.count, 0);
    assert_int_equal(stub.reads_under_way, 0);
    assert_int_equal(stub.unflushed, 0);
    assert_int_equal(gets_on_fast_path(), 0);
}

void gets_assert_all(unsigned reads, unsigned fast)
{
    struct okv_counters before = gets_counters();

    gets_write_commands();
    assert_int_equal(gets_run(), OKV_OK);
    gets_assert_values();
    struct okv_counters after = gets_counters();
    assert_int_equal(stub.reads, reads);
    assert_int_equal(gets_fast, fast);
    assert_int_equal(after.reads - before.reads, reads);
    assert_int_equal(after.gets - before.gets, GETS);
    assert_int_equal(after.hits - before.hits, GETS);
    gets_assert_idle();
}
