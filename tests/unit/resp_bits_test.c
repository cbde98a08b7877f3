/*
 * BITCOUNT, BITPOS, BITOP and BITFIELD: bits against a model that looks at one after the other, the
 * commands on short values, and on long ones, which they read and make in steps while others change
 * them. tests/resp/same_replies.py compares all of them with Redis.
 */
#include "tests/support/test.h"

#include "server/resp/proto/bits.h"
#include "server/resp/run/long_build.h"
#include "server/store/store.h"
#include "tests/support/random.h"
#include "tests/support/resp_talk.h"

#define LONG (1u << 20) /* bytes of the longest value */

static const struct okv_store_params params = {
    .length = 32u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = LONG};

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

/* ---- bits ---- */

#define BYTES 40u

static bool bit_of(const uint8_t *bytes, uint64_t bit)
{
    return bytes[bit / 8] >> (7 - bit % 8) & 1;
}

/* Random bytes, most of them without or with all bits. */
static void draw(uint64_t *random, uint8_t bytes[BYTES])
{
    static const uint8_t all[] = {0, 0xff};
    unsigned kind = (unsigned)random_below(random, 3);

    for (unsigned i = 0; i < BYTES; i++)
        bytes[i] =
            kind == 2 || random_below(random, 8) == 0 ? (uint8_t)random_next(random) : all[kind];
}

TEST(bits_are_counted_and_found)
{
    uint64_t random = random_seed();
    uint8_t bytes[BYTES];

    for (unsigned i = 0; i < 20000; i++) {
        draw(&random, bytes);
        uint64_t first = random_below(&random, BYTES * 8);
        uint64_t last = first + random_below(&random, BYTES * 8 - first);
        int64_t found[2] = {-1, -1};
        uint64_t count = 0;
        for (uint64_t bit = last + 1; bit-- > first;) {
            found[bit_of(bytes, bit)] = (int64_t)bit;
            count += bit_of(bytes, bit);
        }
        assert_int_equal(okv_bits_count(bytes, first, last), count);
        assert_int_equal(okv_bits_find(bytes, first, last, true), found[1]);
        assert_int_equal(okv_bits_find(bytes, first, last, false), found[0]);
    }
}

TEST(bits_are_read_and_written)
{
    uint64_t random = random_seed();
    uint8_t bytes[BYTES], before[BYTES];

    for (unsigned i = 0; i < 20000; i++) {
        draw(&random, bytes);
        memcpy(before, bytes, BYTES);
        unsigned width = 1 + (unsigned)random_below(&random, 64);
        uint64_t offset = random_below(&random, BYTES * 8 - width + 1);
        uint64_t number = random_next(&random), mask = UINT64_MAX >> (64 - width);
        okv_bits_write(bytes, offset, width, number);
        assert_true(okv_bits_read(bytes, BYTES, offset, width) == (number & mask));
        okv_bits_write(bytes, offset, width, okv_bits_read(before, BYTES, offset, width));
        assert_memory_equal(bytes, before, BYTES);
    }
    /* What is not there is 0. */
    memset(bytes, 0xff, sizeof bytes);
    assert_true(okv_bits_read(bytes, 1, 0, 16) == 0xff00);
    assert_true(okv_bits_read(bytes, 1, UINT64_C(1) << 32, 64) == 0);
}

TEST(bytes_are_combined)
{
    static const uint8_t from[] = {0x0f, 0x33, 0xff, 0};
    static const struct {
        enum okv_bits_operation operation;
        uint8_t result[4];
    } cases[] = {
        {OKV_BITS_AND, {0x05, 0x11, 0x55, 0}},    {OKV_BITS_OR, {0x5f, 0x77, 0xff, 0x55}},
        {OKV_BITS_XOR, {0x5a, 0x66, 0xaa, 0x55}}, {OKV_BITS_NOT, {0xf0, 0xcc, 0, 0xff}},
        {OKV_BITS_COPY, {0x0f, 0x33, 0xff, 0}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t to[4] = {0x55, 0x55, 0x55, 0x55};
        okv_bits_combine(cases[i].operation, to, from, sizeof to);
        assert_memory_equal(to, cases[i].result, sizeof to);
    }
}

/* ---- commands on short values ---- */

static void expect(struct okv_resp_client *client, const char *line, const char *reply)
{
    const char *got = resp_fixture_call(client, line);

    assert_non_null(got);
    if (strcmp(got, reply) != 0)
        fail_msg("%s: %s", line, got);
}

struct line {
    const char *line, *reply;
};

static void expect_all(const struct line *lines, size_t count)
{
    struct okv_resp_client *client = resp_fixture_client(&fixture);

    for (size_t i = 0; i < count; i++)
        expect(client, lines[i].line, lines[i].reply);
    resp_fixture_end(client);
}

#define EXPECT_ALL(lines) expect_all((lines), sizeof(lines) / sizeof *(lines))

#define OK "+OK\r\n"
#define NOT_INTEGER "-ERR value is not an integer or out of range\r\n"
#define SYNTAX "-ERR syntax error\r\n"

FIXTURE_TEST(ones_of_a_range_are_counted)
{
    static const struct line lines[] = {
        {"set k foobar", OK},
        {"bitcount k", ":26\r\n"},
        {"bitcount k 0 0", ":4\r\n"},
        {"bitcount k 1 1 byte", ":6\r\n"},
        {"bitcount k 5 30 bit", ":17\r\n"},
        {"bitcount k 0 -100", ":4\r\n"},
        {"bitcount k -2 -1", ":7\r\n"},
        {"bitcount k -1 -2", ":0\r\n"},
        {"bitcount k 6 9", ":0\r\n"},
        {"bitcount k 0 9223372036854775807 bit", ":26\r\n"},
        {"bitcount k -9223372036854775808 -1 bit", ":26\r\n"},
        {"bitcount k 1", SYNTAX},
        {"bitcount k 0 1 bits", SYNTAX},
        {"bitcount k -1 -2 bits", ":0\r\n"},
        {"bitcount k 0 1 bit x", SYNTAX},
        {"bitcount k a 1", NOT_INTEGER},
        {"bitcount none", ":0\r\n"},
        {"bitcount none a b c d", ":0\r\n"},
        {"set k ''", OK},
        {"bitcount k", ":0\r\n"},
        {"bitcount k 0 0 bit", ":0\r\n"},
    };

    EXPECT_ALL(lines);
}

FIXTURE_TEST(the_first_bit_of_a_range_is_found)
{
    static const struct line lines[] = {
        {"set k \"\\xff\\xf0\\x00\"", OK},
        {"bitpos k 0", ":12\r\n"},
        {"bitpos k 1", ":0\r\n"},
        {"bitpos k 1 2", ":-1\r\n"},
        {"bitpos k 0 0 0", ":-1\r\n"},
        {"bitpos k 0 0 0 byte", ":-1\r\n"},
        {"bitpos k 0 4 11 bit", ":-1\r\n"},
        {"bitpos k 0 4 12 bit", ":12\r\n"},
        {"bitpos k 1 12 23 bit", ":-1\r\n"},
        {"bitpos k 1 -16 -13 bit", ":8\r\n"},
        {"bitpos k 0 -1", ":16\r\n"},
        {"set k \"\\xff\\xff\"", OK},
        {"bitpos k 0", ":16\r\n"},
        {"bitpos k 0 1", ":16\r\n"},
        {"bitpos k 0 2", ":-1\r\n"},
        {"bitpos k 0 0 -1", ":-1\r\n"},
        {"bitpos none 0", ":0\r\n"},
        {"bitpos none 1", ":-1\r\n"},
        {"bitpos none 1 a b c", ":-1\r\n"},
        {"bitpos k 2", "-ERR The bit argument must be 1 or 0.\r\n"},
        {"bitpos k x", NOT_INTEGER},
        {"bitpos k 1 0 a", NOT_INTEGER},
        {"bitpos k 1 0 a bits", SYNTAX},
        {"bitpos k 1 0 1 bit x", SYNTAX},
        {"set k ''", OK},
        {"bitpos k 0", ":-1\r\n"},
    };

    EXPECT_ALL(lines);
}

FIXTURE_TEST(values_are_combined)
{
    static const struct line lines[] = {
        {"mset a \"\\xff\\x0f\\x11\" b \"\\x55\\xff\"", OK},
        {"bitop and d a b", ":3\r\n"},
        {"get d", "$3\r\n\x55\x0f\0\r\n"},
        {"bitop AND d a b none", ":3\r\n"},
        {"bitcount d", ":0\r\n"},
        {"bitop or d b a", ":3\r\n"},
        {"get d", "$3\r\n\xff\xff\x11\r\n"},
        {"bitop xor d a b a", ":3\r\n"},
        {"bitcount d", ":12\r\n"},
        {"set d x ex 100", OK},
        {"bitop not d b", ":2\r\n"},
        {"ttl d", ":-1\r\n"},
        {"getrange d 0 0", "$1\r\n\xaa\r\n"},
        {"bitop xor a a a", ":3\r\n"},
        {"bitcount a", ":0\r\n"},
        {"bitop or d none none", ":0\r\n"},
        {"exists d", ":0\r\n"},
        {"bitop or d none", ":0\r\n"},
        {"bitop not d a b", "-ERR BITOP NOT must be called with a single source key.\r\n"},
        {"bitop nand d a", SYNTAX},
        {"multi", OK},
        {"bitop or m a b", "+QUEUED\r\n"},
        {"bitop not m m", "+QUEUED\r\n"},
        {"exec", "*2\r\n:3\r\n:3\r\n"},
        {"bitcount m", ":12\r\n"},
    };

    EXPECT_ALL(lines);
}

#define TYPE                                                                                     \
    "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but " \
    "i64 is.\r\n"
#define OFFSET "-ERR bit offset is not an integer or out of range\r\n"

FIXTURE_TEST(fields_are_read_and_changed)
{
    static const struct line lines[] = {
        {"bitfield k", "*0\r\n"},
        {"bitfield k get u8 0 get i8 #1", "*2\r\n:0\r\n:0\r\n"},
        {"exists k", ":0\r\n"},
        {"bitfield k set u8 #1 200 get u8 8 get i8 8", "*3\r\n:0\r\n:200\r\n:-56\r\n"},
        {"strlen k", ":2\r\n"},
        {"bitfield k incrby u8 8 100", "*1\r\n:44\r\n"},
        {"bitfield k overflow sat incrby u8 8 300 overflow fail incrby u8 8 1 get u8 8",
         "*3\r\n:255\r\n$-1\r\n:255\r\n"},
        {"bitfield k set i5 20 -3 get i5 20 get u5 20", "*3\r\n:0\r\n:-3\r\n:29\r\n"},
        {"bitfield k overflow sat set i5 20 99 get i5 20", "*2\r\n:-3\r\n:15\r\n"},
        {"bitfield k overflow sat set u5 20 -1 get u5 20", "*2\r\n:15\r\n:31\r\n"},
        {"bitfield k set i64 64 9223372036854775807 incrby i64 64 1",
         "*2\r\n:0\r\n:-9223372036854775808\r\n"},
        {"bitfield k overflow fail incrby i64 64 -1 overflow sat incrby i64 64 -1",
         "*2\r\n$-1\r\n:-9223372036854775808\r\n"},
        {"bitfield_ro k get u63 64", "*1\r\n:4611686018427387904\r\n"},
        {"bitfield f overflow fail set u2 0 9", "*1\r\n$-1\r\n"},
        {"strlen f", ":1\r\n"},
        {"bitfield_ro k set u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand\r\n"},
        {"bitfield k get u8", SYNTAX},
        {"bitfield k set u8 0", SYNTAX},
        {"bitfield k overflow", SYNTAX},
        {"bitfield k overflow foo", "-ERR Invalid OVERFLOW type specified\r\n"},
        {"bitfield k get u64 0", TYPE},
        {"bitfield k get i65 0", TYPE},
        {"bitfield k get i0 0", TYPE},
        {"bitfield k get i 0", TYPE},
        {"bitfield k get x8 0", TYPE},
        {"bitfield k get u8 -1", OFFSET},
        {"bitfield k get u8 #-1", OFFSET},
        {"bitfield k get u8 #", OFFSET},
        {"bitfield k get u8 4294967295", "*1\r\n:0\r\n"},
        {"bitfield k get u8 4294967296", OFFSET},
        {"bitfield k get u8 #9223372036854775807", OFFSET},
        {"bitfield k set u8 0 x", NOT_INTEGER},
        {"bitfield k set u8 8388600 1 get u8 8388600", "*2\r\n:0\r\n:1\r\n"},
        {"strlen k", ":1048576\r\n"},
    };

    EXPECT_ALL(lines);
}

FIXTURE_TEST(a_field_does_not_reach_beyond_a_value)
{
    struct okv_resp_client *client = resp_fixture_client(&fixture);
    const char *got = resp_fixture_call(client, "bitfield k set u8 8388601 1");

    assert_non_null(strstr(got, "-ERR string exceeds maximum allowed size"));
    expect(client, "exists k", ":0\r\n");
    resp_fixture_end(client);
}

/* A transaction on it runs. */
FIXTURE_TEST(what_changes_nothing_is_no_change)
{
    struct okv_resp_client *one = resp_fixture_client(&fixture);
    struct okv_resp_client *other = resp_fixture_client(&fixture);
    static const char *const lengths[] = {"1", "100000"};
    char line[64];

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        snprintf(line, sizeof line, "setrange k %s x", lengths[i]);
        assert_non_null(resp_fixture_call(other, line));
        expect(one, "watch k", OK);
        expect(other, "bitfield k set u8 0 0 overflow fail incrby u8 0 256", "*2\r\n:0\r\n$-1\r\n");
        expect(one, "multi", OK);
        expect(one, "exec", "*0\r\n");
        expect(one, "watch k", OK);
        expect(other, "bitfield k set u8 0 1 set u8 0 0", "*2\r\n:0\r\n:1\r\n");
        expect(one, "multi", OK);
        expect(one, "exec", "*-1\r\n");
    }
    resp_fixture_end(one);
    resp_fixture_end(other);
}

/* ---- long values ---- */

static struct okv_resp_client *first(void)
{
    return TAILQ_FIRST(&fixture.worker.resp->all);
}

/* Gives a command, and makes passes until it has begun to read or to make a long value. */
static int begin_long(const char *line)
{
    int fd = resp_fixture_connect(&fixture);

    say(fd, line);
    for (unsigned i = 0; i < 100 && !(first() && (first()->read.length || first()->build)); i++)
        pass();
    assert_true(first()->read.length || first()->build);
    return fd;
}

static void expect_steps(void)
{
    const struct okv_stats *stats = &fixture.core.server->stats;

    assert_in_range(atomic_load(&stats->longest_step), 1, OKV_TURN_STEP_MAX);
    assert_in_range(atomic_load(&stats->longest_alone), 0, OKV_TURN_STEP_MAX);
}

static uint64_t used(void)
{
    return okv_heap_used(&fixture.core.database->store.heap);
}

/* 'v' has five of eight bits, and none of them is its first one. */
static void put(const char *key, int fill, uint32_t length)
{
    server_core_put(&fixture.core, key, fill, length, 0);
}

FIXTURE_TEST(a_long_value_is_counted_as_it_was)
{
    put("k", 'v', LONG);
    int fd = begin_long("bitcount k\r\n");
    put("k", 0, 10);
    hear(fd, ":5242880\r\n");
    expect_steps();
    leave(fd);
    assert_true(used() < LONG);
}

FIXTURE_TEST(a_bit_is_found_behind_many_others)
{
    int fd = resp_fixture_connect(&fixture);

    put("k", 0, LONG - 1);
    say(fd, "append k \"\\x01\"\r\n");
    hear(fd, ":1048576\r\n");
    say(fd, "bitpos k 1\r\nbitpos k 0\r\nbitpos k 1 3 -2\r\nbitpos k 1 9 8388607 bit\r\n");
    hear(fd, ":8388607\r\n:0\r\n:-1\r\n:8388607\r\n");
    put("k", 0xff, LONG);
    say(fd, "bitpos k 0\r\nbitpos k 0 70000 -1\r\nbitcount k 70001 -70001\r\n");
    hear(fd, ":8388608\r\n:-1\r\n:7268600\r\n");
    expect_steps();
    leave(fd);
}

/* Memory that the value takes after it was replaced counts for who reads it. */
FIXTURE_TEST(who_reads_a_long_value_has_its_memory)
{
    put("k", 'v', LONG);
    int fd = begin_long("bitcount k\r\n");

    assert_true(atomic_load(&fixture.core.database->reserved) ||
                atomic_load(&fixture.core.database->is_exceeded));
    leave(fd);
    assert_int_equal(atomic_load(&fixture.core.database->reserved), 0);
    assert_false(atomic_load(&fixture.core.database->is_exceeded));
}

FIXTURE_TEST(long_values_are_combined_in_steps)
{
    int fd = resp_fixture_connect(&fixture);

    put("a", 0x0f, LONG);
    put("b", 0x33, LONG - 70000);
    put("c", 0x55, 100);
    say(fd, "bitop and d a b\r\nbitcount d\r\nbitop or d c b a\r\nbitcount d\r\n");
    hear(fd, ":1048576\r\n:1957152\r\n:1048576\r\n:6151556\r\n");
    say(fd, "bitop and d c a b\r\nbitcount d\r\nbitop xor d b c a none\r\nbitcount d\r\n");
    hear(fd, ":1048576\r\n:100\r\n:1048576\r\n:4194304\r\n");
    say(fd, "bitop not a a\r\nbitcount a\r\nbitop and d a none b\r\nbitcount d\r\n");
    hear(fd, ":1048576\r\n:4194304\r\n:1048576\r\n:0\r\n");
    expect_steps();
    leave(fd);
}

/* The result is of values that were there together. */
FIXTURE_TEST(a_source_that_changes_is_combined_again)
{
    put("a", 0x0f, LONG);
    put("b", 0x33, LONG);
    int fd = begin_long("bitop or d a b\r\n");
    put("b", 0, 10);
    hear(fd, ":1048576\r\n");
    say(fd, "bitcount d\r\n");
    hear(fd, ":4194304\r\n");
    leave(fd);
}

/* Not for ever. */
FIXTURE_TEST(sources_that_change_all_the_time_are_given_up)
{
    unsigned changes = 0;

    put("a", 0x0f, LONG);
    put("b", 0x33, LONG);
    int fd = begin_long("bitop or d a b\r\n");
    while (first()->builds && changes <= OKV_RESP_BUILDS_MAX) {
        put("b", 0x33, LONG);
        changes++;
        for (unsigned before = first()->builds; first()->builds == before;)
            pass();
    }
    assert_int_equal(changes, OKV_RESP_BUILDS_MAX);
    hear(fd, "-TRYAGAIN others change the values");
    expect_steps();
    leave(fd);
}

/* Even when the command is about to run alone. */
FIXTURE_TEST(a_result_of_old_values_is_not_set)
{
    struct okv_resp_client *client;
    put("a", 0x0f, LONG);
    put("b", 0x33, LONG);
    int fd = begin_long("bitop or d a b\r\n");

    client = first();
    for (unsigned i = 0; i < 1000 && client->bitop.next < 2; i++)
        pass();
    assert_int_equal(client->bitop.next, 2);
    server_core_delete(&fixture.core, "a");
    hear(fd, ":1048576\r\n");
    say(fd, "bitcount d\r\n");
    hear(fd, ":4194304\r\n");
    leave(fd);
}

FIXTURE_TEST(fields_of_a_long_value_change_in_steps)
{
    int fd = resp_fixture_connect(&fixture);

    put("k", 'v', LONG - 100);
    say(fd, "bitfield k set u8 0 1 incrby u16 8388592 258 get u8 8\r\n");
    hear(fd, "*3\r\n:118\r\n:258\r\n:118\r\n");
    say(fd, "strlen k\r\nbitcount k\r\n");
    hear(fd, ":1048576\r\n:5242378\r\n");
    expect_steps();
    leave(fd);
}

/* Its replies are of the value that it changes. */
FIXTURE_TEST(a_field_of_a_value_that_changed_is_read_again)
{
    put("k", 'v', LONG);
    int fd = begin_long("bitfield k incrby u8 0 1\r\n");
    put("k", 'a', LONG);
    hear(fd, "*1\r\n:98\r\n");
    say(fd, "getrange k 0 1\r\n");
    hear(fd, "$2\r\nba\r\n");
    leave(fd);
}

FIXTURE_TEST(who_leaves_in_the_middle_leaves_nothing)
{
    static const char *const lines[] = {"bitcount k\r\n", "bitop not d k\r\n",
                                        "bitfield k set u8 0 1\r\n"};

    put("k", 'v', LONG);
    uint64_t before = used();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        leave(begin_long(lines[i]));
        assert_int_equal(used(), before);
    }
}

/* Both write to a buffer of the client's before they reply. */
FIXTURE_TEST(replies_of_fields_are_not_part_of_the_next_one)
{
    struct okv_resp_client *client = resp_fixture_client(&fixture);

    expect(client, "multi", OK);
    expect(client, "bitfield k set u8 0 1", "+QUEUED\r\n");
    expect(client, "client info", "+QUEUED\r\n");
    const char *reply = resp_fixture_call(client, "exec");
    assert_non_null(reply);
    assert_memory_equal(reply, "*2\r\n*1\r\n:0\r\n$", 13);
    assert_memory_equal(strchr(reply, '$') + strcspn(strchr(reply, '$'), "\n"), "\nid=", 4);
    resp_fixture_end(client);
}

/* In a transaction there are no steps, and what is too long is refused. */
FIXTURE_TEST(a_transaction_pays_for_long_values)
{
    int fd = resp_fixture_connect(&fixture);

    put("k", 'v', LONG);
    say(fd, "multi\r\nbitcount k\r\nbitfield k set u8 0 1\r\nbitop not d k\r\nexec\r\n");
    hear(fd,
         "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n:5242880\r\n*1\r\n:118\r\n:1048576\r\n");
    fixture.core.server->config.alone_ms = 1;
    say(fd, "multi\r\nbitfield new set u8 8388600 1\r\nexec\r\n");
    hear(fd, "+OK\r\n+QUEUED\r\n-ERR this would run alone for longer");
    resp_fixture_leave(&fixture, fd);
}
