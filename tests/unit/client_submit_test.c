/* Commands over a stub transport: refusals, doorbells, and okv_call_many(). */
#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_client.h"

#define LONG_MS PACE_GUARD_MS
/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)
#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))
#define MANY 100

static char keys[MANY][16];
static char values[MANY][16];
static struct okv_command commands[MANY];
static struct okv_result many_results[MANY];

/* MANY items in chained pages: n % 4 == 3 are missing, n % 4 == 2 have an extent. */
static void write_many(void)
{
    for (uint64_t bucket = 0; bucket < STUB_BUCKETS; bucket++) {
        struct okv_entry entries[MANY / STUB_BUCKETS];
        unsigned count = 0;
        for (unsigned i = 0; i < MANY / STUB_BUCKETS; i++) {
            unsigned n = (unsigned)bucket * (MANY / STUB_BUCKETS) + i;
            stub_key(keys[n], bucket, STUB_DEPTH, i);
            if (n % 4 != 3)
                entries[count++] = n % 4 == 2 ? stub_reference(keys[n], keys[n], STUB_HEAP + n * 64)
                                              : stub_inline(keys[n], keys[n]);
        }
        uint64_t further = STUB_HEAP + 65536 + bucket * STUB_BUCKET_SIZE;
        struct stub_image image = {
            .offset = stub_place(bucket),
            .bucket = bucket,
            .version = STUB_VERSION,
            .chain = further,
            .depth = STUB_DEPTH,
        };
        stub_write(&image, entries, count / 2);
        image.offset = further;
        image.chain = 0;
        image.page = 1;
        stub_write(&image, entries + count / 2, count - count / 2);
    }
}

static void write_commands(void)
{
    for (unsigned n = 0; n < MANY; n++)
        commands[n] = (struct okv_command){
            .kind = n % 5 == 4 ? OKV_HEAD : OKV_GET,
            .tag = n,
            .key = keys[n],
            .key_length = strlen(keys[n]),
            .buffer = n % 5 == 4 ? NULL : values[n],
            .buffer_size = n % 5 == 4 ? 0 : sizeof values[n],
        };
}

static void open_with_many(unsigned depth, unsigned credits, uint32_t timeout_ms)
{
    handle = stub_open(depth, credits, timeout_ms);
    write_many();
    write_commands();
}

static void check_result(unsigned n, const struct okv_result *result)
{
    assert_int_equal(result->tag, n);
    assert_int_equal(result->status, n % 4 == 3 ? OKV_ENOTFOUND : OKV_OK);
    if (result->status)
        return;
    assert_int_equal(result->length, strlen(keys[n]));
    assert_int_equal(result->version, 5);
    assert_true(result->ttl_ms == OKV_TTL_NONE);
    if (n % 5 != 4)
        assert_memory_equal(values[n], keys[n], result->length);
}

/* ---- one doorbell ---- */

#define SUBMIT_TEST(name) TEST_WITH(name, client_setup, client_teardown)

SUBMIT_TEST(submitted_gets_are_one_post)
{
    struct okv_result polled[MANY];
    size_t accepted = 0;

    open_with_many(MANY, 4, LONG_MS);
    assert_int_equal(okv_submit(handle, commands, MANY, &accepted), OKV_OK);
    assert_int_equal(accepted, MANY);
    assert_int_equal(stub.posts, 1);
    assert_int_equal(stub.reads, MANY);
    for (unsigned ended = 0; ended < MANY;) {
        unsigned posts = stub.posts;
        int n = okv_poll(handle, polled, MANY);
        assert_true(n >= 0);
        assert_true(stub.posts - posts <=
                    1); /* READs that follow from a pass go out together too */
        for (int i = 0; i < n; i++)
            check_result((unsigned)polled[i].tag, &polled[i]);
        ended += (unsigned)n;
    }
}

/* More READs than there is room for: none is refused, none is posted beyond the room. */
SUBMIT_TEST(gets_wait_for_room)
{
    struct okv_result polled[MANY];
    unsigned ended = 0;

    stub.max_reads = 7;
    open_with_many(MANY, 4, LONG_MS);
    assert_int_equal(okv_submit(handle, commands, MANY, NULL), OKV_OK);
    assert_int_equal(stub.reads, 7);
    while (ended < MANY) {
        int n = okv_poll(handle, polled, MANY);
        assert_true(n >= 0);
        for (int i = 0; i < n; i++)
            check_result((unsigned)polled[i].tag, &polled[i]);
        ended += (unsigned)n;
    }
    assert_string_equal(okv_why(handle), "");
}

static unsigned polls_before_read;

static void note_polls(unsigned n)
{
    (void)n;
    polls_before_read = stub.polls;
}

SUBMIT_TEST(synchronous_get_is_posted_at_once)
{
    handle = stub_open(2, 1, LONG_MS);
    stub.delay = HELD;
    get_submit(1); /* a busy handle does not catch up first */
    stub.delay = 0;
    unsigned polls = stub.polls;
    stub.posts = 0;
    stub.before_read = note_polls;
    assert_int_equal(get(), OKV_ENOTFOUND);
    assert_int_equal(polls_before_read, polls);
    assert_int_equal(stub.posts, 1);
    stub_release_events(0);
    collect();
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(okv_submit(handle, NULL, 0, NULL), OKV_OK);
    assert_int_equal(stub.posts, 1);
}

SUBMIT_TEST(failed_post_fails_the_handle)
{
    handle = stub_open(8, 4, LONG_MS);
    put_submit(0);
    stub.read_result = OKV_EIO;
    get_submit(1);
    assert_true(strlen(okv_why(handle)) > 0);
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    assert_int_equal(results[1].status, OKV_EIO);
}

/* The goodbye that is waiting says more than the post that came too late. */
SUBMIT_TEST(goodbye_is_handled_when_a_post_fails)
{
    handle = stub_open(8, 4, LONG_MS);
    stub_goodbye();
    stub.read_result = OKV_EDISCONNECTED;
    assert_int_equal(get(), OKV_ESHUTDOWN);
    assert_int_equal(get(), OKV_ESHUTDOWN);
    stub_close(&handle);
    stub_reset();
    handle = stub_open(8, 4, LONG_MS);
    stub.read_result = OKV_EDISCONNECTED;
    assert_int_equal(get(), OKV_EDISCONNECTED);
}

/* ---- what is refused ---- */

#define KEY .key = "key", .key_length = 3

static const struct wrong_command {
    struct okv_command command;
    int status;
} wrong_commands[] = {
    {{.kind = 0, KEY}, OKV_EINVAL},
    {{.kind = 11, KEY}, OKV_EINVAL},
    {{.kind = UINT32_MAX, KEY}, OKV_EINVAL},
    {{.kind = OKV_GET, .key_length = 3}, OKV_EINVAL},
    {{.kind = OKV_GET, .key = "", .key_length = 0}, OKV_EKEYSIZE},
    {{.kind = OKV_GET, .key = keys, .key_length = OKV_KEY_MAX_BYTES + 1}, OKV_EKEYSIZE},
    {{.kind = OKV_GET, .key = "key", .key_length = (size_t)1 << 32 | 3}, OKV_EKEYSIZE},
    {{.kind = OKV_GET, KEY, .buffer_size = 1}, OKV_EINVAL},
    {{.kind = OKV_GET, KEY, .value = "v", .value_length = 1}, OKV_EINVAL},
    {{.kind = OKV_GET, KEY, .flags = OKV_IF_VERSION, .version = 1}, OKV_EINVAL},
    {{.kind = OKV_GET, KEY, .version = 1}, OKV_EINVAL},
    {{.kind = OKV_GET, KEY, .ttl_ms = 1}, OKV_EINVAL},
    {{.kind = OKV_GET, KEY, .delta = 1}, OKV_EINVAL},
    {{.kind = OKV_HEAD, KEY, .buffer = values, .buffer_size = 1}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .value_length = 1}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .buffer = values, .buffer_size = 1}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .flags = 16}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .flags = OKV_WITH_TTL | OKV_KEEP_TTL, .ttl_ms = 1}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .flags = OKV_KEEP_TTL, .ttl_ms = 1}, OKV_EINVAL},
    {{.kind = OKV_DELETE, KEY, .flags = OKV_KEEP_TTL}, OKV_EINVAL},
    {{.kind = OKV_INCR, KEY, .flags = OKV_KEEP_TTL}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .flags = 1u << 31}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .flags = OKV_IF_ABSENT | OKV_IF_VERSION, .version = 1}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .flags = OKV_IF_VERSION}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .version = 1}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .ttl_ms = 1}, OKV_EINVAL},
    {{.kind = OKV_PUT, KEY, .flags = OKV_WITH_TTL}, OKV_ETTL},
    {{.kind = OKV_PUT, KEY, .flags = OKV_WITH_TTL, .ttl_ms = -1}, OKV_ETTL},
    {{.kind = OKV_PUT, KEY, .flags = OKV_WITH_TTL, .ttl_ms = OKV_TTL_MAX_MS + 1}, OKV_ETTL},
    {{.kind = OKV_PUT, KEY, .flags = OKV_WITH_TTL, .ttl_ms = OKV_TTL_NONE}, OKV_ETTL},
    {{.kind = OKV_PUT, KEY, .value = "", .value_length = STUB_REGION + 1}, OKV_EVALUESIZE},
    {{.kind = OKV_PUT, KEY, .value = "", .value_length = (size_t)1 << 32}, OKV_EVALUESIZE},
    {{.kind = OKV_DELETE, KEY, .flags = OKV_IF_ABSENT}, OKV_EINVAL},
    {{.kind = OKV_DELETE, KEY, .flags = OKV_WITH_TTL, .ttl_ms = 1}, OKV_EINVAL},
    {{.kind = OKV_DELETE, KEY, .flags = OKV_IF_VERSION}, OKV_EINVAL},
    {{.kind = OKV_DELETE, KEY, .value = "v", .value_length = 1}, OKV_EINVAL},
    {{.kind = OKV_INCR, KEY, .ttl_ms = 1}, OKV_EINVAL},
    {{.kind = OKV_INCR, KEY, .value = "1", .value_length = 1}, OKV_EINVAL},
    {{.kind = OKV_APPEND, KEY, .delta = 1}, OKV_EINVAL},
    {{.kind = OKV_APPEND, KEY, .value = "", .value_length = OKV_SLOT_SIZE_DEFAULT - 32 - 1024 + 1},
     OKV_EVALUESIZE},
    {{.kind = OKV_TOUCH, KEY}, OKV_ETTL},
    {{.kind = OKV_TOUCH, KEY, .ttl_ms = -1}, OKV_ETTL},
    {{.kind = OKV_TOUCH, KEY, .ttl_ms = INT64_MIN}, OKV_ETTL},
    {{.kind = OKV_TOUCH, KEY, .ttl_ms = OKV_TTL_MAX_MS + 1}, OKV_ETTL},
    {{.kind = OKV_TOUCH, KEY, .ttl_ms = OKV_TTL_NONE - 1}, OKV_ETTL},
    {{.kind = OKV_PING, KEY}, OKV_EINVAL},
    {{.kind = OKV_PING, .key_length = 1}, OKV_EINVAL},
    {{.kind = OKV_PING, .value_length = 1}, OKV_EINVAL},
    {{.kind = OKV_PING, .value = "", .value_length = OKV_SLOT_SIZE_DEFAULT - 32 - 1024 + 1},
     OKV_EVALUESIZE},
};

SUBMIT_TEST(wrong_commands_are_refused)
{
    struct okv_result result;

    handle = stub_open(4, 4, LONG_MS);
    for (unsigned i = 0; i < LENGTH_OF(wrong_commands); i++) {
        struct okv_command three[] = {
            {.kind = OKV_PING, .tag = 0}, wrong_commands[i].command, {.kind = OKV_PING, .tag = 2}};
        size_t accepted = 9;
        memset(seen, 0, sizeof seen);
        int rc = okv_submit(handle, three, 3, &accepted);
        if (rc != wrong_commands[i].status)
            fail_msg("command %u: %s", i, okv_errname(rc));
        assert_int_equal(accepted, 1);
        collect();
        assert_int_equal(seen[0], 1);
        assert_int_equal(seen[2], 0);

        three[1].tag = 7;
        assert_int_equal(okv_call(handle, &three[1], &result), wrong_commands[i].status);
        assert_int_equal(result.status, wrong_commands[i].status);
        assert_int_equal(result.tag, 7);
    }
    assert_int_equal(stub.reads, 0);
    assert_int_equal(stub.sent, LENGTH_OF(wrong_commands));
}

/* The limits themselves are allowed. */
SUBMIT_TEST(extremes_are_accepted)
{
    static char key[OKV_KEY_MAX_BYTES], value[STUB_REGION];
    const struct okv_command right[] = {
        {.kind = OKV_GET, .key = key, .key_length = sizeof key},
        {.kind = OKV_HEAD, .key = key, .key_length = 1},
        {.kind = OKV_PUT, .key = key, .key_length = sizeof key},
        {.kind = OKV_PUT, KEY, .value = value, .value_length = sizeof value},
        {.kind = OKV_PUT, KEY, .flags = OKV_WITH_TTL | OKV_IF_ABSENT, .ttl_ms = OKV_TTL_MAX_MS},
        {.kind = OKV_PUT, KEY, .flags = OKV_WITH_TTL | OKV_IF_VERSION, .ttl_ms = 1, .version = 1},
        {.kind = OKV_PUT, KEY, .flags = OKV_KEEP_TTL | OKV_IF_ABSENT},
        {.kind = OKV_APPEND,
         .key = key,
         .key_length = sizeof key,
         .value = value,
         .value_length = OKV_SLOT_SIZE_DEFAULT - 32 - 1024},
        {.kind = OKV_TOUCH, KEY, .ttl_ms = OKV_TTL_NONE},
        {.kind = OKV_TOUCH, KEY, .ttl_ms = OKV_TTL_MAX_MS},
        {.kind = OKV_INCR, KEY, .delta = INT64_MIN},
        {.kind = OKV_PING, .timeout_ms = UINT32_MAX},
        {.kind = OKV_PING, .value = value, .value_length = OKV_SLOT_SIZE_DEFAULT - 32 - 1024},
    };

    handle = stub_open(16, 16, LONG_MS);
    for (unsigned i = 0; i < LENGTH_OF(right); i++) {
        struct okv_result result;
        int rc = okv_call(handle, &right[i], &result);
        if (rc != (i < 2 ? OKV_ENOTFOUND : OKV_OK))
            fail_msg("command %u: %s", i, okv_errname(rc));
        assert_int_equal(result.status, rc);
    }
    struct okv_info info;
    okv_info(handle, &info);
    assert_int_equal(info.max_message_value, OKV_SLOT_SIZE_DEFAULT - 32 - 1024);
    assert_int_equal(okv_submit(handle, right, LENGTH_OF(right), NULL), OKV_OK);
}

SUBMIT_TEST(nothing_is_needed_where_memory_is)
{
    struct okv_command command = {.kind = OKV_GET, KEY};
    struct okv_put_options options = {.reserved = 1};
    struct okv_result result;
    size_t accepted = 9;

    handle = stub_open(4, 4, LONG_MS);
    assert_int_equal(okv_submit(NULL, &command, 1, &accepted), OKV_EINVAL);
    assert_int_equal(accepted, 0);
    assert_int_equal(okv_submit(handle, NULL, 1, NULL), OKV_EINVAL);
    assert_int_equal(okv_call(NULL, &command, &result), OKV_EINVAL);
    assert_int_equal(okv_call(handle, NULL, &result), OKV_EINVAL);
    assert_int_equal(okv_call(handle, &command, NULL), OKV_EINVAL);
    assert_int_equal(okv_call_many(NULL, &command, &result, 1), OKV_EINVAL);
    assert_int_equal(okv_call_many(handle, NULL, &result, 1), OKV_EINVAL);
    assert_int_equal(okv_call_many(handle, &command, NULL, 1), OKV_EINVAL);
    assert_int_equal(okv_call_many(handle, NULL, NULL, 0), OKV_OK);
    assert_int_equal(okv_get(handle, "key", 3, NULL, 0, NULL, NULL), OKV_EINVAL);
    assert_int_equal(okv_get(NULL, "key", 3, NULL, 0, &accepted, NULL), OKV_EINVAL);
    assert_int_equal(okv_head(NULL, "key", 3, NULL), OKV_EINVAL);
    assert_int_equal(okv_put_with(handle, "key", 3, "", 0, NULL, NULL), OKV_EINVAL);
    assert_int_equal(okv_put_with(handle, "key", 3, "", 0, &options, NULL), OKV_EINVAL);
    options = (struct okv_put_options){.reserved2 = {[2] = 1}};
    assert_int_equal(okv_put_with(handle, "key", 3, "", 0, &options, NULL), OKV_EINVAL);
    assert_int_equal(okv_stat(NULL, buffer[0], 1, &accepted), OKV_EINVAL);
    assert_int_equal(okv_head(handle, "key", 3, NULL), OKV_ENOTFOUND);
    assert_int_equal(stub.sent, 0);
}

SUBMIT_TEST(commands_beyond_the_depth)
{
    struct okv_command pings[5] = {{.kind = OKV_PING, .tag = 0},
                                   {.kind = OKV_PING, .tag = 1},
                                   {.kind = OKV_PING, .tag = 2},
                                   {.kind = OKV_PING, .tag = 3},
                                   {.kind = OKV_PING, .tag = 4}};
    size_t accepted;

    handle = stub_open(3, 4, LONG_MS);
    assert_int_equal(okv_submit(handle, pings, 5, &accepted), OKV_EAGAIN);
    assert_int_equal(accepted, 3);
    collect();
    assert_int_equal(seen[2], 1);
    assert_int_equal(seen[3], 0);
}

SUBMIT_TEST(command_has_its_own_deadline)
{
    struct okv_command ping = {.kind = OKV_PING, .timeout_ms = SHORT_MS};
    struct okv_result result;

    handle = stub_open(3, 4, LONG_MS);
    stub.answer = no_answer;
    assert_int_equal(okv_call(handle, &ping, &result), OKV_ETIMEDOUT);
    assert_int_equal(okv_submit(handle, &ping, 1, NULL), OKV_OK);
    assert_int_equal(okv_wait(handle, LONG_MS), OKV_OK);
    assert_int_equal(okv_poll(handle, &result, 1), 1);
    assert_int_equal(result.status, OKV_ETIMEDOUT);
}

/* ---- many gets ---- */

static unsigned most_reads;

static void note_reads(unsigned n)
{
    (void)n;
    if (stub.reads_under_way > most_reads)
        most_reads = stub.reads_under_way;
}

SUBMIT_TEST(many_gets_in_the_callers_order)
{
    static const uint32_t depths[] = {1, 3, 32, MANY};

    for (unsigned i = 0; i < LENGTH_OF(depths); i++) {
        client_setup(state);
        memset(values, 0, sizeof values);
        memset(many_results, 0xff, sizeof many_results);
        handle = stub_open(depths[i], 2, LONG_MS);
        write_many();
        write_commands();
        most_reads = 0;
        stub.before_read = note_reads;
        assert_int_equal(okv_call_many(handle, commands, many_results, MANY), OKV_OK);
        for (unsigned n = 0; n < MANY; n++)
            check_result(n, &many_results[n]);
        assert_int_equal(okv_pending(handle), 0);
        assert_int_equal(most_reads, depths[i]);
        if (depths[i] == MANY) /* some hundred READs */
            assert_true(stub.reads > 150 && stub.posts <= 12);
        stub_close(&handle);
    }
}

SUBMIT_TEST(many_gets_of_one_key)
{
    open_with_many(8, 2, LONG_MS);
    for (unsigned n = 0; n < MANY; n++) {
        commands[n].key = keys[2];
        commands[n].key_length = strlen(keys[2]);
    }
    assert_int_equal(okv_call_many(handle, commands, many_results, MANY), OKV_OK);
    for (unsigned n = 0; n < MANY; n++) {
        assert_int_equal(many_results[n].status, OKV_OK);
        assert_true(n % 5 == 4 || memcmp(values[n], keys[2], strlen(keys[2])) == 0);
    }
}

SUBMIT_TEST(invalid_gets_among_valid_ones)
{
    open_with_many(8, 2, LONG_MS);
    commands[0].key_length = 0;
    commands[50].reserved[0] = 1;
    commands[MANY - 1].key = NULL;
    commands[1].buffer_size = 3;
    assert_int_equal(okv_call_many(handle, commands, many_results, MANY), OKV_OK);
    assert_int_equal(many_results[0].status, OKV_EKEYSIZE);
    assert_int_equal(many_results[1].status, OKV_ETOOSMALL);
    assert_int_equal(many_results[1].length, strlen(keys[1]));
    assert_int_equal(many_results[50].status, OKV_EINVAL);
    assert_int_equal(many_results[50].tag, 50);
    assert_int_equal(many_results[MANY - 1].status, OKV_EINVAL);
    for (unsigned n = 2; n < 50; n++)
        check_result(n, &many_results[n]);

    unsigned reads = stub.reads;
    write_commands();
    commands[MANY - 2].kind = OKV_PUT; /* with a buffer */
    assert_int_equal(okv_call_many(handle, commands + MANY - 2, many_results, 1), OKV_OK);
    assert_int_equal(many_results[0].status, OKV_EINVAL);
    assert_int_equal(stub.reads, reads);
    put_submit(0);
    assert_int_equal(okv_call_many(handle, commands, many_results, 1), OKV_EAGAIN);
    collect();
    assert_int_equal(okv_call_many(handle, commands, many_results, 1), OKV_OK);
}

static unsigned hang_up_at;

static void hang_up(unsigned n)
{
    if (n == hang_up_at)
        stub_hang_up();
}

SUBMIT_TEST(connection_ends_during_many_gets)
{
    for (hang_up_at = 1; hang_up_at < 120; hang_up_at += 13) {
        client_setup(state);
        handle = stub_open(8, 2, LONG_MS);
        write_many();
        write_commands();
        memset(many_results, 0xff, sizeof many_results);
        stub.before_read = hang_up;
        assert_int_equal(okv_call_many(handle, commands, many_results, MANY), OKV_EDISCONNECTED);
        for (unsigned n = 0; n < MANY; n++) {
            assert_int_equal(many_results[n].tag, n);
            if (many_results[n].status != OKV_EDISCONNECTED)
                check_result(n, &many_results[n]);
        }
        assert_int_equal(many_results[MANY - 1].status, OKV_EDISCONNECTED);
        stub_close(&handle);
    }
}

/* All have one deadline. READs under way afterwards keep their slots, not the results. */
SUBMIT_TEST(many_gets_that_time_out)
{
    open_with_many(8, 2, SHORT_MS);
    stub.delay = HELD;
    assert_int_equal(okv_call_many(handle, commands, many_results, 20), OKV_OK);
    for (unsigned n = 0; n < 20; n++)
        assert_int_equal(many_results[n].status, OKV_ETIMEDOUT);
    assert_int_equal(stub.reads, 8); /* the others timed out before they began */
    stub_release_events(0);
    assert_int_equal(okv_poll(handle, many_results, 1), 0);
    assert_int_equal(okv_call_many(handle, commands, many_results, MANY), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        check_result(n, &many_results[n]);
}

static void hold_eight(unsigned n)
{
    stub.delay = n <= 8 ? HELD : 0;
}

/* The gets wait together, for one deadline. One after the other they would take MANY / 2 of them. A
 * machine that stalls for so long decides nothing, and the attempt is repeated. */
static void get_many_waits_once(void)
{
    const uint64_t one_after_the_other_ns = MANY / 2 * 2 * SHORT_MS * UINT64_C(1000000);
    uint64_t end = pace_guard_end(), begun;

    do {
        begun = okv_clock_ns();
        assert_true(begun < end);
        assert_int_equal(okv_call_many(handle, commands, many_results, MANY), OKV_OK);
    } while (okv_clock_ns() - begun >= one_after_the_other_ns);
}

SUBMIT_TEST(many_gets_wait_for_a_dead_server_once)
{
    handle = stub_open_lasting(2, 2, 2 * SHORT_MS);
    write_many();
    write_commands();
    stub.refusals = 1000000;
    stub_hang_up();
    get_many_waits_once();
    for (unsigned n = 0; n < MANY; n++)
        assert_int_equal(many_results[n].status, OKV_ETIMEDOUT);
    stub.refusals = 0;
    stub.delay = HELD; /* and with all slots taken */
    assert_int_equal(okv_wait(handle, 1), OKV_ETIMEDOUT);
    for (unsigned i = 0; i < 2; i++)
        okv_call_many(handle, commands, many_results, 2);
    get_many_waits_once();
    assert_int_equal(many_results[MANY - 1].status, OKV_ETIMEDOUT);
}

/* READs that are late leave two slots for all the others, which wait for them. */
SUBMIT_TEST(many_gets_with_few_slots)
{
    open_with_many(8, 2, LONG_MS);
    for (unsigned n = 0; n < 8; n++)
        commands[n].timeout_ms = SHORT_MS;
    stub.before_read = hold_eight;
    assert_int_equal(okv_call_many(handle, commands, many_results, MANY), OKV_OK);
    for (unsigned n = 0; n < MANY; n++) {
        if (n < 8)
            assert_int_equal(many_results[n].status, OKV_ETIMEDOUT);
        else
            check_result(n, &many_results[n]);
    }
}

SUBMIT_TEST(slots_are_used_again_at_once)
{
    handle = stub_open(8, 4, LONG_MS);
    assert_int_equal(get(), OKV_ENOTFOUND);
    const void *destination = stub.last_destination;
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(get(), OKV_ENOTFOUND);
        assert_ptr_equal(stub.last_destination, destination);
    }
    get_submit(0);
    get_submit(1);
    assert_ptr_not_equal(stub.last_destination, destination);
    collect();
}
