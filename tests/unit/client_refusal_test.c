/* Calls that are refused for their arguments, over a stub transport: okv_why() says which argument
 * and what is wrong with it, until the next call. */
#include "tests/support/test.h"

#include "tests/support/pace.h"
#include "tests/support/stub_client.h"

#define LONG_MS PACE_GUARD_MS
#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))
#define KEY .key = "key", .key_length = 3

static uint8_t memory[64];
static size_t size;

static void expect_why(const char *sentence)
{
    assert_string_equal(okv_why(handle), sentence);
}

static int open_eight(void **state)
{
    client_setup(state);
    handle = stub_open(8, 4, LONG_MS);
    return 0;
}

/* ---- the fields of a command ---- */

static const struct wrong_command {
    struct okv_command command;
    int code;
    const char *sentence;
} wrong_commands[] = {
    {{.kind = 0, KEY}, OKV_EINVAL, "kind: 0 is none of enum okv_kind"},
    {{.kind = 11, KEY}, OKV_EINVAL, "kind: 11 is none of enum okv_kind"},
    {{.kind = OKV_GET, .key_length = 3}, OKV_EINVAL, "key: it is NULL"},
    {{.kind = OKV_PING, .key = "k"}, OKV_EINVAL, "key: OKV_PING takes none"},
    {{.kind = OKV_PING, .key_length = 1}, OKV_EINVAL, "key_length: OKV_PING takes none"},
    {{.kind = OKV_HEAD, KEY, .value = "v"}, OKV_EINVAL, "value: OKV_HEAD takes none"},
    {{.kind = OKV_INCR, KEY, .value_length = 1}, OKV_EINVAL, "value_length: OKV_INCR takes none"},
    {{.kind = OKV_PUT, KEY, .value_length = 4}, OKV_EINVAL, "value: it is NULL, and its size is 4"},
    {{.kind = OKV_HEAD, KEY, .buffer = memory}, OKV_EINVAL, "buffer: OKV_HEAD takes none"},
    {{.kind = OKV_HEAD, KEY, .buffer_size = 1}, OKV_EINVAL, "buffer_size: OKV_HEAD takes none"},
    {{.kind = OKV_GET, KEY, .buffer_size = 9}, OKV_EINVAL, "buffer: it is NULL, and its size is 9"},
    {{.kind = OKV_GET, KEY, .flags = OKV_WITH_TTL, .ttl_ms = 1},
     OKV_EINVAL,
     "flags: 0x4 is not for OKV_GET"},
    {{.kind = OKV_PUT, KEY, .flags = 1u << 31 | OKV_IF_ABSENT},
     OKV_EINVAL,
     "flags: 0x80000000 is not for OKV_PUT"},
    {{.kind = OKV_PUT, KEY, .flags = OKV_IF_ABSENT | OKV_IF_VERSION, .version = 1},
     OKV_EINVAL,
     "flags: OKV_IF_ABSENT and OKV_IF_VERSION exclude each other"},
    {{.kind = OKV_PUT, KEY, .flags = OKV_WITH_TTL | OKV_KEEP_TTL, .ttl_ms = 1},
     OKV_EINVAL,
     "flags: OKV_WITH_TTL and OKV_KEEP_TTL exclude each other"},
    {{.kind = OKV_PUT, KEY, .flags = OKV_KEEP_TTL, .ttl_ms = 1},
     OKV_EINVAL,
     "ttl_ms: OKV_PUT takes it with OKV_WITH_TTL"},
    {{.kind = OKV_DELETE, KEY, .flags = OKV_IF_VERSION},
     OKV_EINVAL,
     "version: no item has 0: OKV_IF_VERSION needs one"},
    {{.kind = OKV_GET, KEY, .version = 1},
     OKV_EINVAL,
     "version: it is for OKV_IF_VERSION, and flags lack it"},
    {{.kind = OKV_APPEND, KEY, .delta = 1}, OKV_EINVAL, "delta: OKV_APPEND takes none"},
    {{.kind = OKV_PUT, KEY, .ttl_ms = 1}, OKV_EINVAL, "ttl_ms: OKV_PUT takes it with OKV_WITH_TTL"},
    {{.kind = OKV_GET, KEY, .ttl_ms = 1}, OKV_EINVAL, "ttl_ms: OKV_GET takes none"},
    {{.kind = OKV_GET, KEY, .reserved = {[2] = 1}}, OKV_EINVAL, "reserved: it is not zero"},
    {{.kind = OKV_GET, KEY, .reserved2 = {[0] = 1}}, OKV_EINVAL, "reserved2: it is not zero"},
    {{.kind = OKV_GET, KEY, .reserved2 = {[1] = 1}}, OKV_EINVAL, "reserved2: it is not zero"},
    {{.kind = OKV_PUT, KEY, .reserved2 = {[1] = 1}}, OKV_EINVAL, "reserved2: it is not zero"},
    {{.kind = OKV_GET, KEY, .offset = 1}, OKV_EINVAL, "offset: OKV_GET takes none"},
    {{.kind = OKV_GET_RANGE, KEY, .buffer_size = 1},
     OKV_EINVAL,
     "buffer: it is NULL, and its size is 1"},
    {{.kind = OKV_GET, .key = ""}, OKV_EKEYSIZE, "key_length: 0 is not 1 to 1024"},
    {{.kind = OKV_HEAD, .key = "", .key_length = 1025},
     OKV_EKEYSIZE,
     "key_length: 1025 is not 1 to 1024"},
    {{.kind = OKV_PUT, KEY, .value = "", .value_length = STUB_REGION + 1},
     OKV_EVALUESIZE,
     "value_length: 1048577 is above 1048576, the most that this server takes of OKV_PUT"},
    {{.kind = OKV_PUT, KEY, .flags = OKV_WITH_TTL, .ttl_ms = -5},
     OKV_ETTL,
     "ttl_ms: -5 is not 1 to 140737488355327"},
    {{.kind = OKV_TOUCH, KEY}, OKV_ETTL, "ttl_ms: 0 is not 1 to 140737488355327, nor OKV_TTL_NONE"},
    {{.kind = OKV_GET_TOUCH, KEY},
     OKV_ETTL,
     "ttl_ms: 0 is not 1 to 140737488355327, nor OKV_TTL_NONE"},
    {{.kind = OKV_GET_TOUCH, KEY, .ttl_ms = 1, .buffer_size = 1},
     OKV_EINVAL,
     "buffer: it is NULL, and its size is 1"},
    {{.kind = OKV_GET_TOUCH, KEY, .flags = OKV_WITH_TTL, .ttl_ms = 1},
     OKV_EINVAL,
     "flags: 0x4 is not for OKV_GET_TOUCH"},
    {{.kind = OKV_INCR, KEY, .ttl_ms = 1},
     OKV_EINVAL,
     "ttl_ms: OKV_INCR takes it with OKV_WITH_TTL"},
    {{.kind = OKV_INCR, KEY, .flags = OKV_WITH_TTL},
     OKV_ETTL,
     "ttl_ms: 0 is not 1 to 140737488355327"},
};

/* The call and the place in it, then what is wrong with the field. */
static void expect_fault(const char *place, const char *fault)
{
    char sentence[320];

    snprintf(sentence, sizeof sentence, "%s%s", place, fault);
    expect_why(sentence);
}

#define REFUSAL_TEST(name) TEST_WITH(name, open_eight, client_teardown)

REFUSAL_TEST(every_field_of_a_command)
{
    for (unsigned i = 0; i < LENGTH_OF(wrong_commands); i++) {
        const struct wrong_command *wrong = &wrong_commands[i];
        struct okv_command two[] = {{.kind = OKV_PING}, wrong->command};
        struct okv_result result;
        assert_int_equal(okv_call(handle, &wrong->command, &result), wrong->code);
        expect_fault("okv_call: ", wrong->sentence);
        assert_int_equal(okv_submit(handle, two, 2, NULL), wrong->code);
        expect_fault("okv_submit: commands[1].", wrong->sentence);
        collect();
        memset(seen, 0, sizeof seen);
        expect_why("");
    }
}

/* Many commands have a result each; the sentence is about the first that is wrong. */
REFUSAL_TEST(the_first_of_many_commands)
{
    struct okv_command commands[] = {
        {.kind = OKV_GET, KEY}, {.kind = OKV_GET, .key = "key"},
        {.kind = OKV_GET, KEY}, {.kind = OKV_HEAD, KEY, .delta = 1},
        {.kind = OKV_GET, KEY},
    };
    struct okv_result many[LENGTH_OF(commands)];

    assert_int_equal(okv_call_many(handle, commands, many, LENGTH_OF(commands)), OKV_OK);
    assert_int_equal(many[1].status, OKV_EKEYSIZE);
    assert_int_equal(many[3].status, OKV_EINVAL);
    expect_why("okv_call_many: commands[1].key_length: 0 is not 1 to 1024");
    commands[1].key_length = 3;
    assert_int_equal(okv_call_many(handle, commands, many, LENGTH_OF(commands)), OKV_OK);
    expect_why("okv_call_many: commands[3].delta: OKV_HEAD takes none");
    commands[3].delta = 0;
    assert_int_equal(okv_call_many(handle, commands, many, LENGTH_OF(commands)), OKV_OK);
    expect_why("");
}

/* ---- each call and each of its arguments ---- */

static int visit(void *user, const struct okv_item *item)
{
    (void)user, (void)item;
    return 0;
}

static int put_with(const struct okv_put_options *options)
{
    return okv_put_with(handle, "key", 3, "value", 5, options, NULL);
}

#define CALL(name, expression) \
    static int name(void)      \
    {                          \
        return expression;     \
    }

static struct okv_command a_get = {.kind = OKV_GET, KEY};
static okv_registration *registration;
static uint64_t cursor = 5, latencies[4];

CALL(get_without_length, okv_get(handle, "key", 3, memory, 1, NULL, NULL))
CALL(get_without_key, okv_get(handle, NULL, 3, memory, 1, &size, NULL))
CALL(get_without_buffer, okv_get(handle, "key", 3, NULL, 1, &size, NULL))
CALL(get_no_key, okv_get(handle, "key", 0, memory, 1, &size, NULL))
CALL(get_long_key, okv_get(handle, "key", 1025, memory, 1, &size, NULL))
CALL(head_without_key, okv_head(handle, NULL, 3, NULL))
CALL(head_long_key, okv_head(handle, "key", 1025, NULL))
CALL(put_without_key, okv_put(handle, NULL, 3, "", 0, NULL))
CALL(put_without_value, okv_put(handle, "key", 3, NULL, 5, NULL))
CALL(put_no_key, okv_put(handle, "key", 0, "", 0, NULL))
CALL(put_long_value, okv_put(handle, "key", 3, "", STUB_REGION + 1, NULL))
CALL(put_without_options, put_with(NULL))
CALL(put_reserved, put_with(&(struct okv_put_options){.reserved = 1}))
CALL(put_reserved2, put_with(&(struct okv_put_options){.reserved2 = {[4] = 1}}))
CALL(put_flags, put_with(&(struct okv_put_options){.flags = 3, .version = 1}))
CALL(put_version, put_with(&(struct okv_put_options){.version = 1}))
CALL(put_ttls, put_with(&(struct okv_put_options){.flags = 12, .ttl_ms = 1}))
CALL(put_ttl, put_with(&(struct okv_put_options){.flags = OKV_WITH_TTL}))
CALL(delete_without_key, okv_delete(handle, NULL, 3))
CALL(delete_no_key, okv_delete(handle, "key", 0))
CALL(delete_if_without_key, okv_delete_if(handle, NULL, 3, 1))
CALL(delete_if_zero, okv_delete_if(handle, "key", 3, 0))
CALL(delete_if_no_key, okv_delete_if(handle, "key", 0, 1))
CALL(incr_without_key, okv_incr(handle, NULL, 3, 1, NULL, NULL))
CALL(incr_no_key, okv_incr(handle, "key", 0, 1, NULL, NULL))
CALL(append_without_value, okv_append(handle, "key", 3, NULL, 1, NULL, NULL))
CALL(append_no_key, okv_append(handle, "key", 0, "", 0, NULL, NULL))
CALL(append_long_value, okv_append(handle, "key", 3, "", 1u << 20, NULL, NULL))
CALL(touch_without_key, okv_touch(handle, NULL, 3, 1, NULL))
CALL(touch_no_key, okv_touch(handle, "key", 0, 1, NULL))
CALL(touch_never, okv_touch(handle, "key", 3, 0, NULL))
CALL(stat_without_length, okv_stat(handle, (char *)memory, 1, NULL))
CALL(stat_without_buffer, okv_stat(handle, NULL, 1, &size))
CALL(scan_without_visit, okv_scan(handle, NULL, NULL))
CALL(scan_from_without_visit, okv_scan_from(handle, &cursor, NULL, NULL))
CALL(scan_from_without_cursor, okv_scan_from(handle, NULL, visit, NULL))
CALL(scan_from_elsewhere, okv_scan_from(handle, &cursor, visit, NULL))
CALL(submit_nothing, okv_submit(handle, NULL, 1, NULL))
CALL(submit_get_without_key, okv_submit_get(handle, NULL, 3, memory, 1, 0))
CALL(submit_get_no_key, okv_submit_get(handle, "key", 0, memory, 1, 0))
CALL(submit_put_without_value, okv_submit_put(handle, "key", 3, NULL, 1, 0))
CALL(submit_put_no_key, okv_submit_put(handle, "key", 0, "", 0, 0))
CALL(submit_put_long_value, okv_submit_put(handle, "key", 3, "", STUB_REGION + 1, 0))
CALL(submit_delete_without_key, okv_submit_delete(handle, NULL, 3, 0))
CALL(submit_delete_no_key, okv_submit_delete(handle, "key", 0, 0))
CALL(call_nothing, okv_call(handle, NULL, results))
CALL(call_without_result, okv_call(handle, &a_get, NULL))
CALL(many_nothing, okv_call_many(handle, NULL, results, 1))
CALL(many_without_results, okv_call_many(handle, &a_get, NULL, 1))
CALL(poll_without_results, okv_poll(handle, NULL, 1))
CALL(poll_none, okv_poll(handle, results, 0))
CALL(wait_negative, okv_wait(handle, -1))
CALL(register_nothing, okv_register(handle, NULL, 1, &registration))
CALL(register_no_bytes, okv_register(handle, memory, 0, &registration))
CALL(register_too_long, okv_register(handle, memory, SIZE_MAX, &registration))
CALL(register_nowhere, okv_register(handle, memory, 1, NULL))
CALL(bench_without_latencies, okv_bench_read(handle, STUB_BUCKET_SIZE, 4, 1, NULL, NULL))
CALL(bench_no_count, okv_bench_read(handle, STUB_BUCKET_SIZE, 0, 1, latencies, NULL))
CALL(bench_no_depth, okv_bench_read(handle, STUB_BUCKET_SIZE, 4, 0, latencies, NULL))
CALL(bench_deep, okv_bench_read(handle, STUB_BUCKET_SIZE, 4, 9, latencies, NULL))
CALL(bench_no_length, okv_bench_read(handle, 0, 4, 1, latencies, NULL))
CALL(bench_long, okv_bench_read(handle, STUB_SEGMENT_SIZE + 1, 4, 1, latencies, NULL))

static const struct refused_call {
    int (*call)(void);
    int code;
    const char *sentence; /* the whole, or its beginning */
} refused_calls[] = {
    {get_without_length, OKV_EINVAL, "okv_get: length: it is NULL"},
    {get_without_key, OKV_EINVAL, "okv_get: key: it is NULL"},
    {get_without_buffer, OKV_EINVAL, "okv_get: buffer: it is NULL, and its size is 1"},
    {get_no_key, OKV_EKEYSIZE, "okv_get: key_length: 0 is not 1 to 1024"},
    {get_long_key, OKV_EKEYSIZE, "okv_get: key_length: 1025 is not 1 to 1024"},
    {head_without_key, OKV_EINVAL, "okv_head: key: it is NULL"},
    {head_long_key, OKV_EKEYSIZE, "okv_head: key_length: 1025 "},
    {put_without_key, OKV_EINVAL, "okv_put: key: it is NULL"},
    {put_without_value, OKV_EINVAL, "okv_put: value: it is NULL, and its size is 5"},
    {put_no_key, OKV_EKEYSIZE, "okv_put: key_length: 0 "},
    {put_long_value, OKV_EVALUESIZE, "okv_put: value_length: 1048577 is above 1048576, "},
    {put_without_options, OKV_EINVAL, "okv_put_with: options: it is NULL"},
    {put_reserved, OKV_EINVAL, "okv_put_with: options->reserved: it is not zero"},
    {put_reserved2, OKV_EINVAL, "okv_put_with: options->reserved2: it is not zero"},
    {put_flags, OKV_EINVAL,
     "okv_put_with: flags: OKV_IF_ABSENT and OKV_IF_VERSION exclude each other"},
    {put_version, OKV_EINVAL, "okv_put_with: version: it is for OKV_IF_VERSION, "},
    {put_ttls, OKV_EINVAL, "okv_put_with: flags: OKV_WITH_TTL and OKV_KEEP_TTL exclude each other"},
    {put_ttl, OKV_ETTL, "okv_put_with: ttl_ms: 0 is not 1 to 140737488355327"},
    {delete_without_key, OKV_EINVAL, "okv_delete: key: it is NULL"},
    {delete_no_key, OKV_EKEYSIZE, "okv_delete: key_length: 0 "},
    {delete_if_without_key, OKV_EINVAL, "okv_delete_if: key: it is NULL"},
    {delete_if_zero, OKV_EINVAL, "okv_delete_if: version: no item has 0"},
    {delete_if_no_key, OKV_EKEYSIZE, "okv_delete_if: key_length: 0 "},
    {incr_without_key, OKV_EINVAL, "okv_incr: key: it is NULL"},
    {incr_no_key, OKV_EKEYSIZE, "okv_incr: key_length: 0 "},
    {append_without_value, OKV_EINVAL, "okv_append: value: it is NULL, and its size is 1"},
    {append_no_key, OKV_EKEYSIZE, "okv_append: key_length: 0 "},
    {append_long_value, OKV_EVALUESIZE, "okv_append: value_length: 1048576 is above "},
    {touch_without_key, OKV_EINVAL, "okv_touch: key: it is NULL"},
    {touch_no_key, OKV_EKEYSIZE, "okv_touch: key_length: 0 "},
    {touch_never, OKV_ETTL, "okv_touch: ttl_ms: 0 is not 1 to "},
    {stat_without_length, OKV_EINVAL, "okv_stat: length: it is NULL"},
    {stat_without_buffer, OKV_EINVAL, "okv_stat: buffer: it is NULL, and its size is 1"},
    {scan_without_visit, OKV_EINVAL, "okv_scan: visit: it is NULL"},
    {scan_from_without_visit, OKV_EINVAL, "okv_scan_from: visit: it is NULL"},
    {scan_from_without_cursor, OKV_EINVAL, "okv_scan_from: cursor: it is NULL"},
    {scan_from_elsewhere, OKV_EINVAL, "okv_scan_from: cursor: it is of another table, "},
    {submit_nothing, OKV_EINVAL, "okv_submit: commands: it is NULL"},
    {submit_get_without_key, OKV_EINVAL, "okv_submit_get: key: it is NULL"},
    {submit_get_no_key, OKV_EKEYSIZE, "okv_submit_get: key_length: 0 "},
    {submit_put_without_value, OKV_EINVAL, "okv_submit_put: value: it is NULL"},
    {submit_put_no_key, OKV_EKEYSIZE, "okv_submit_put: key_length: 0 "},
    {submit_put_long_value, OKV_EVALUESIZE, "okv_submit_put: value_length: 1048577 "},
    {submit_delete_without_key, OKV_EINVAL, "okv_submit_delete: key: it is NULL"},
    {submit_delete_no_key, OKV_EKEYSIZE, "okv_submit_delete: key_length: 0 "},
    {call_nothing, OKV_EINVAL, "okv_call: command: it is NULL"},
    {call_without_result, OKV_EINVAL, "okv_call: result: it is NULL"},
    {many_nothing, OKV_EINVAL, "okv_call_many: commands: it is NULL"},
    {many_without_results, OKV_EINVAL, "okv_call_many: results: it is NULL"},
    {poll_without_results, OKV_EINVAL, "okv_poll: results: it is NULL"},
    {poll_none, OKV_EINVAL, "okv_poll: max: 0 is below 1"},
    {wait_negative, OKV_EINVAL, "okv_wait: timeout_ms: -1 is negative"},
    {register_nothing, OKV_EINVAL, "okv_register: base: it is NULL"},
    {register_no_bytes, OKV_EINVAL, "okv_register: length: 0 "},
    {register_too_long, OKV_EINVAL, "okv_register: length: 18446744073709551615 leads beyond "},
    {register_nowhere, OKV_EINVAL, "okv_register: memory: it is NULL"},
    {bench_without_latencies, OKV_EINVAL, "okv_bench_read: latencies_ns: it is NULL"},
    {bench_no_count, OKV_EINVAL, "okv_bench_read: count: it is 0"},
    {bench_no_depth, OKV_EINVAL, "okv_bench_read: depth: 0 is not 1 to the handle's, 8"},
    {bench_deep, OKV_EINVAL, "okv_bench_read: depth: 9 is not 1 to the handle's, 8"},
    {bench_no_length, OKV_EINVAL, "okv_bench_read: length: 0 is not 1 to "},
    {bench_long, OKV_EINVAL, "okv_bench_read: length: "},
};

static void expect_why_begins(const char *sentence)
{
    const char *why = okv_why(handle);

    if (strncmp(why, sentence, strlen(sentence)) != 0)
        fail_msg("'%s' is not '%s'", why, sentence);
}

/* Each takes the sentence of the one before it away. */
REFUSAL_TEST(every_argument_of_every_call)
{
    for (unsigned i = 0; i < LENGTH_OF(refused_calls); i++) {
        assert_int_equal(refused_calls[i].call(), refused_calls[i].code);
        expect_why_begins(refused_calls[i].sentence);
    }
    assert_int_equal(stub.sent, 0);
}

/* Without a handle there is nowhere to write to. */
REFUSAL_TEST(calls_without_a_handle_write_no_sentence)
{
    okv *kept = handle;

    handle = NULL;
    for (unsigned i = 0; i < LENGTH_OF(refused_calls); i++)
        assert_int_equal(refused_calls[i].call(), OKV_EINVAL);
    handle = kept;
    expect_why("");
}

/* ---- how long the sentence is there ---- */

static void refuse_one(void)
{
    assert_int_equal(okv_wait(handle, -1), OKV_EINVAL);
    expect_why("okv_wait: timeout_ms: -1 is negative");
}

CALL(a_get_call, okv_get(handle, "key", 3, memory, 1, &size, NULL))
CALL(a_put_call, okv_put(handle, "key", 3, "", 0, NULL))
CALL(a_head_call, okv_head(handle, "key", 3, NULL))
CALL(a_ping_call, okv_ping(handle))
CALL(a_flush_call, okv_flush(handle))
CALL(a_stat_call, okv_stat(handle, (char *)memory, sizeof memory, &size))
CALL(a_scan_call, okv_scan(handle, visit, NULL))
CALL(a_submit_get_call, okv_submit_get(handle, "key", 3, memory, 1, 0))
CALL(a_submit_put_call, okv_submit_put(handle, "key", 3, "", 0, 0))
CALL(a_call_many_call, okv_call_many(handle, &a_get, results, 1))
CALL(a_poll_call, okv_poll(handle, results, 1))
CALL(a_wait_call, okv_wait(handle, 0))
CALL(an_arm_call, okv_arm(handle))
CALL(a_register_call, okv_register(handle, memory, 1, &registration))
CALL(a_bench_call, okv_bench_read(handle, STUB_BUCKET_SIZE, 1, 1, latencies, NULL))

static int (*const good_calls[])(void) = {
    a_get_call,       a_put_call,        a_head_call,     a_ping_call,
    a_flush_call,     a_scan_call,       a_stat_call,     a_submit_get_call,
    a_poll_call,      a_submit_put_call, a_poll_call,     a_wait_call,
    a_call_many_call, an_arm_call,       a_register_call, a_bench_call,
};

REFUSAL_TEST(the_next_call_removes_the_sentence)
{
    for (unsigned i = 0; i < LENGTH_OF(good_calls); i++) {
        refuse_one();
        int rc = good_calls[i]();
        assert_true(rc != OKV_EINVAL);
        if (okv_why(handle)[0] != '\0')
            fail_msg("call %u (%s): '%s'", i, okv_errname(rc), okv_why(handle));
    }
    okv_unregister(handle, &registration);
}

/* What a call was refused for otherwise is nothing that its arguments could change. */
REFUSAL_TEST(refusals_for_want_of_room_remove_the_sentence)
{
    stub.delay = HELD;
    for (uint64_t tag = 0; tag < 8; tag++)
        get_submit(tag);
    refuse_one();
    assert_int_equal(a_submit_get_call(), OKV_EAGAIN);
    expect_why("");
    refuse_one();
    assert_int_equal(a_submit_put_call(), OKV_EAGAIN);
    expect_why("");
    refuse_one();
    assert_int_equal(a_call_many_call(), OKV_EAGAIN);
    expect_why("");
    refuse_one();
    assert_int_equal(a_scan_call(), OKV_EAGAIN);
    expect_why("");
    stub_release_events(0);
    collect();
}

REFUSAL_TEST(functions_that_only_look_keep_the_sentence)
{
    struct okv_counters counters;
    struct okv_info info;

    refuse_one();
    okv_info(handle, &info);
    okv_counters(handle, &counters);
    okv_pending(handle);
    okv_fd(handle);
    expect_why("okv_wait: timeout_ms: -1 is negative");
}

/* The sentence is about the code that was returned last. */
REFUSAL_TEST(the_sentence_of_a_lost_connection_stays)
{
    char why[320];

    stub_hang_up();
    assert_int_equal(a_get_call(), OKV_EDISCONNECTED);
    snprintf(why, sizeof why, "%s", okv_why(handle));
    assert_true(strlen(why) > 0);
    for (unsigned i = 0; i < LENGTH_OF(good_calls); i++) {
        refuse_one();
        good_calls[i]();
        expect_why(why);
    }
}

static bool answer_full(const struct stub_request *request, struct stub_reply *reply)
{
    reply->message.status = request->message.key_length == 1 ? OKV_EFULL : OKV_OK;
    return true;
}

REFUSAL_TEST(a_full_region_is_explained)
{
    struct okv_command put = {.kind = OKV_PUT, .key = "k", .key_length = 1};

    stub.answer = answer_full;
    assert_int_equal(okv_put(handle, "k", 1, "v", 1, NULL), OKV_EFULL);
    expect_why("okv_put: key: the server's region has no room for this item: delete items, give "
               "items a time to live, or start okv-server with a larger --memory");
    assert_int_equal(okv_put(handle, "key", 3, "v", 1, NULL), OKV_OK);
    expect_why("");
    assert_int_equal(okv_call(handle, &put, results), OKV_EFULL);
    expect_why_begins("okv_call: key: the server's region has no room");
    put_submit(1);
    assert_int_equal(okv_submit_put(handle, "k", 1, "v", 1, 2), OKV_OK);
    assert_int_equal(okv_poll(handle, results, 2), 2);
    expect_why_begins("okv_poll: key: the server's region has no room");
}

/* Writes, and reads of one key; a FLUSH never gets one. */
static bool answer_denied(const struct stub_request *request, struct stub_reply *reply)
{
    if (request->message.key_length == 1)
        reply->message.status = OKV_EDENIED;
    return true;
}

REFUSAL_TEST(a_denied_request_is_explained)
{
    static const char sentence[] = "user  lacks the right write in database default";
    struct okv_command put = {.kind = OKV_PUT, .key = "k", .key_length = 1};

    stub.answer = answer_denied;
    assert_int_equal(okv_put(handle, "k", 1, "v", 1, NULL), OKV_EDENIED);
    expect_why(sentence);
    assert_int_equal(okv_call_many(handle, &put, results, 1), OKV_OK);
    assert_int_equal(results[0].status, OKV_EDENIED);
    expect_why(sentence);
    put_submit(1);
    assert_int_equal(okv_submit_put(handle, "k", 1, "v", 1, 2), OKV_OK);
    assert_int_equal(okv_poll(handle, results, 2), 2);
    expect_why(sentence);
    assert_int_equal(okv_ping(handle), OKV_OK);
    expect_why("");
}
