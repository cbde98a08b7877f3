/* What arguments of RESP commands say: words, numbers, moments. */
#include <math.h>

#include "tests/support/test.h"

#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/clock.h"
#include "tests/support/resp_fixture.h"

static struct okv_resp_arg arg_of(const char *text)
{
    return (struct okv_resp_arg){(const uint8_t *)text, (uint32_t)strlen(text)};
}

TEST(a_word_is_whole_and_in_any_case)
{
    const struct okv_resp_arg arg = arg_of("kEEpttl");

    assert_true(okv_resp_arg_is(&arg, "KEEPTTL"));
    assert_false(okv_resp_arg_is(&arg, "KEEPTT"));
    assert_false(okv_resp_arg_is(&arg, "KEEPTTLS"));
}

/* ---- numbers ---- */

static void expect_integer(const char *text, int64_t expected)
{
    const struct okv_resp_arg arg = arg_of(text);
    int64_t number;

    assert_true(okv_resp_arg_integer(&arg, &number));
    assert_true(number == expected);
}

TEST(integers_have_one_form)
{
    static const char *const none[] = {"",
                                       "-",
                                       "+1",
                                       " 1",
                                       "1 ",
                                       "01",
                                       "-01",
                                       "-0",
                                       "1.0",
                                       "1e3",
                                       "0x1",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "99999999999999999999",
                                       "18446744073709551617",
                                       "--1"};
    const struct okv_resp_arg with_nul = {(const uint8_t *)"1\0", 2};
    int64_t number;

    expect_integer("0", 0);
    expect_integer("7", 7);
    expect_integer("-12", -12);
    expect_integer("9223372036854775807", INT64_MAX);
    expect_integer("-9223372036854775808", INT64_MIN);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        const struct okv_resp_arg arg = arg_of(none[i]);
        assert_false(okv_resp_arg_integer(&arg, &number));
    }
    assert_false(okv_resp_arg_integer(&with_nul, &number));
}

static bool float_of(const char *text, long double *number)
{
    return okv_resp_parse_float((const uint8_t *)text, strlen(text), number);
}

TEST(floats_are_any_decimal_but_nan)
{
    static const char *const none[] = {"",     " 1",      "1 ",       "1x",       "nan", "e5",
                                       "-nan", "1e99999", "-1e99999", "1e-99999", "."};
    char longest[1024];
    long double number;

    assert_true(float_of("3.5", &number) && number == 3.5L);
    assert_true(float_of("-1e3", &number) && number == -1000);
    assert_true(float_of("+.25", &number) && number == .25L);
    assert_true(float_of("inf", &number) && isinf(number));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_false(float_of(none[i], &number));
    assert_false(okv_resp_parse_float((const uint8_t *)"1\0", 2, &number));
    memset(longest, '0', sizeof longest);
    longest[0] = '2';
    longest[1] = '.';
    assert_true(okv_resp_parse_float((const uint8_t *)longest, sizeof longest - 1, &number));
    assert_true(number == 2);
    assert_false(okv_resp_parse_float((const uint8_t *)longest, sizeof longest, &number));
}

/* ---- moments ---- */

struct times {
    struct resp_fixture fixture;
    struct okv_resp_client *client;
};

static void open_times(struct times *times)
{
    const struct okv_store_params params = {.length = 1u << 20, .max_value = 1000};

    resp_fixture_open(&times->fixture, &params);
    times->client = resp_fixture_client(&times->fixture);
}

static void close_times(struct times *times)
{
    resp_fixture_end(times->client);
    resp_fixture_close(&times->fixture);
}

/* Reads a time as the second argument of EXPIRE. False: it is refused with `error`. */
static bool need_expiry(struct times *times, const char *text, unsigned form, int64_t *wall_ms,
                        const char *error)
{
    const struct okv_resp_arg args[] = {arg_of("expire"), arg_of("k"), arg_of(text)};
    uint64_t expiry_ms;
    struct okv_resp_call call = {
        .client = times->client,
        .command = okv_resp_command_find(&okv_resp_commands, &args[0]),
        .args = args,
        .count = 3,
        .reply = {&times->client->out, 2},
        .executor = times->fixture.executors,
    };

    times->client->out.used = 0;
    bool is_time = okv_resp_need_expiry(&call, 2, form, &expiry_ms);
    okv_resp_buffer_add(&times->client->out, "", 1);
    assert_string_equal(times->client->out.bytes, is_time ? "" : error);
    *wall_ms = is_time && expiry_ms ? okv_resp_wall_of(&call, expiry_ms) : 0;
    return is_time;
}

#define NO_TIME "-ERR invalid expire time in 'expire' command\r\n"
#define NO_INTEGER "-ERR value is not an integer or out of range\r\n"
#define MS OKV_RESP_TIME_MS
#define AT OKV_RESP_TIME_AT
#define POSITIVE OKV_RESP_TIME_POSITIVE

TEST(times_are_in_range_or_refused)
{
    static const struct {
        const char *text;
        unsigned form;
        bool is_time;
    } times_of[] = {
        {"10", POSITIVE, true},
        {"0", POSITIVE, false},
        {"0", 0, true},
        {"-1", MS | AT | POSITIVE, false},
        {"-9223372036854775808", MS | AT, true},
        {"-9223372036854775808", MS, true},
        {"-9223372036854775808", AT, false},
        {"9223372036854775807", AT, false},
        {"9223372036854775807", MS | AT, true}, /* the latest moment */
        {"9223372036854775807", MS, false},
        {"9223372036854776", AT, false},
        {"-9223372036854776", AT, false},
        {"140737488355327", MS | AT, true}, /* 2^47 - 1 */
        {"140737488355328", MS | AT, true},
        {"140737488355", AT, true},
        {"140737488356", AT, true},
    };
    struct times times;
    int64_t wall_ms;

    open_times(&times);
    for (size_t i = 0; i < sizeof times_of / sizeof *times_of; i++)
        assert_int_equal(need_expiry(&times, times_of[i].text, times_of[i].form, &wall_ms, NO_TIME),
                         times_of[i].is_time);
    assert_false(need_expiry(&times, "x", 0, &wall_ms, NO_INTEGER));
    close_times(&times);
}

TEST(times_are_unix_times_or_from_now)
{
    struct times times;
    int64_t wall_ms;

    open_times(&times);
    assert_true(need_expiry(&times, "4102444800", AT, &wall_ms, NULL));
    assert_int_equal(wall_ms, INT64_C(4102444800000));
    assert_true(need_expiry(&times, "1234", AT, &wall_ms, NULL));
    assert_int_equal(wall_ms, 0); /* it is past */
    int64_t now_ms = (int64_t)okv_clock_wall_ms();
    assert_true(need_expiry(&times, "5", 0, &wall_ms, NULL));
    assert_in_range(wall_ms, now_ms + 5000, (int64_t)okv_clock_wall_ms() + 5000);
    close_times(&times);
}

/* Of long ago, and the last one that there is. */
TEST(moments_far_away_expire_or_stay)
{
    struct times times;

    open_times(&times);
    resp_fixture_call(times.client, "set k v");
    assert_string_equal(resp_fixture_call(times.client, "pexpireat k 140737488355327"), ":1\r\n");
    assert_string_equal(resp_fixture_call(times.client, "get k"), "$1\r\nv\r\n");
    assert_string_equal(resp_fixture_call(times.client, "pexpiretime k"), ":140737488355327\r\n");
    assert_string_equal(resp_fixture_call(times.client, "pexpireat k -9223372036854775808"),
                        ":1\r\n");
    assert_string_equal(resp_fixture_call(times.client, "get k"), "$-1\r\n");
    close_times(&times);
}

/* Calls it for some milliseconds, anew each time if `resets`: the least and the most. */
static void read_wall(struct okv_server *server, bool resets, int64_t *least, int64_t *most)
{
    *least = INT64_MAX;
    *most = INT64_MIN;
    uint64_t end_ns = okv_clock_ns() + 3000000u;
    do {
        if (resets)
            atomic_store(&server->wall_offset_ms, 0);
        int64_t now = okv_server_wall_offset_ms(server);
        *least = now < *least ? now : *least;
        *most = now > *most ? now : *most;
    } while (okv_clock_ns() < end_ns);
}

/* Two clocks in whole milliseconds differ by one more or less, according to when they are read. */
TEST(the_clocks_differ_by_the_same_from_call_to_call)
{
    struct times times;
    int64_t low, high, least, most;

    open_times(&times);
    struct okv_server *server = times.client->resp->server;
    read_wall(server, true, &low, &high);
    assert_in_range(high - low, 0, 1);
    for (int64_t first = low; first <= high; first++) {
        atomic_store(&server->wall_offset_ms, first);
        read_wall(server, false, &least, &most);
        assert_true(least == first && most == first);
    }
    for (int sign = -1; sign <= 1; sign += 2) { /* a clock was set */
        atomic_store(&server->wall_offset_ms, low + 3 * sign);
        read_wall(server, false, &least, &most);
        assert_true(least == most && least >= high - 1 && most <= low + 1);
    }
    close_times(&times);
}
