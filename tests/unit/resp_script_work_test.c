/* Scripts of RESP clients: the cache, and their work. */
#include <fcntl.h>
#include <unistd.h>

#include "server/resp/run/shared.h"
#include "server/resp/script/cache.h"
#include "server/resp/script/engine.h"
#include "shared/base/clock.h"
#include "tests/support/resp_script.h"

/* ---- the cache ---- */

SCRIPT_TEST(scripts_have_names)
{
    expect(one, "script load 'return 1'", "$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n");
    expect(other, "evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", ":1\r\n");
    expect(other, "evalsha E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 0", ":1\r\n");
    expect(other, "evalsha_ro e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", ":1\r\n");
    expect(one, "script exists e0e1f9fabfc9d4800c877a703b823ac0578ff8db x", "*2\r\n:1\r\n:0\r\n");
    expect(one, "script flush", OK);
    expect(one, "script exists e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "*1\r\n:0\r\n");
    expect_part(one, "evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "-NOSCRIPT No matching");
    expect_part(one, "evalsha e0e1 0", "-NOSCRIPT No matching");
    expect_part(one, "evalsha e0e1 x", "-NOSCRIPT No matching");
    expect(one, "eval 'return 1' 0", ":1\r\n");
    expect(one, "evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", ":1\r\n");
    expect_part(one, "script load 'return +'", "-ERR Error compiling script (new function): ");
    expect_part(one, "eval 'return +' 0", "-ERR Error compiling script (new function): ");
    expect_part(one, "script flush now", "-ERR SCRIPT FLUSH only support SYNC|ASYNC option");
    expect_part(one, "script kill", "-NOTBUSY");
    expect_part(one, "eval 'return 1' x", "-ERR value is not an integer or out of range");
    expect_part(one, "eval 'return 1' -1", "-ERR Number of keys can't be negative");
    expect_part(one, "eval 'return 1' 1",
                "-ERR Number of keys can't be greater than number of args");
}

SCRIPT_TEST(commands_tell_of_the_keys)
{
    expect(one, "command getkeys eval x 2 a b c", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    expect(one, "command getkeys eval x 0 a", "*0\r\n");
    expect(one, "command getkeys evalsha x 2 a", "*0\r\n");
    expect(one, "command getkeysandflags eval_ro x 1 a",
           "*1\r\n*2\r\n$1\r\na\r\n*2\r\n+RO\r\n+access\r\n");
}

SCRIPT_TEST(the_cache_is_bounded)
{
    struct okv_resp_script_cache *cache = fixture.core.server->resp_shared->scripts;
    char line[64];

    for (unsigned i = 0; i < 5 * OKV_RESP_SCRIPTS_MAX; i++) {
        snprintf(line, sizeof line, "eval 'return %u' 0", i);
        assert_non_null(resp_fixture_call(one, line));
        assert_true(cache->count <= OKV_RESP_SCRIPTS_MAX);
        assert_true(fixture.resp.engine->compiled_count <= OKV_RESP_COMPILED_SLOTS - 1);
    }
    assert_int_equal(cache->count, OKV_RESP_SCRIPTS_MAX);
    expect(one, "eval 'return 7' 0", ":7\r\n");
}

/* The clock of uses has ticks. */
static void pass_a_tick(void)
{
    uint64_t now = okv_clock_coarse_ns();

    while (okv_clock_coarse_ns() == now)
        ;
}

/* Loading a script that is there is a use, too. */
SCRIPT_TEST(the_least_recently_used_script_is_removed)
{
    char line[64];

    expect(one, "eval 'return 1' 0", ":1\r\n");
    expect(one, "eval 'return 2' 0", ":2\r\n");
    expect(one, "eval 'return 3' 0", ":3\r\n");
    pass_a_tick();
    for (unsigned i = 4; i <= OKV_RESP_SCRIPTS_MAX; i++) {
        snprintf(line, sizeof line, "script load 'return %u'", i);
        expect_part(one, line, "$40");
    }
    pass_a_tick();
    expect(one, "eval 'return 2' 0", ":2\r\n");
    expect_part(one, "script load 'return 1'", "$40");
    expect_part(one, "script load 'return 0'", "$40");
    expect(one,
           "script exists e0e1f9fabfc9d4800c877a703b823ac0578ff8db "
           "7f923f79fe76194c868d7e1d0820de36700eb649 09d3822de862f46d784e6a36848b4f0736dda47a",
           "*3\r\n:1\r\n:1\r\n:0\r\n");
}

SCRIPT_TEST(what_does_not_compile_is_not_kept)
{
    struct okv_resp_script_cache *cache = fixture.core.server->resp_shared->scripts;

    expect_part(one, "eval 'return +' 0", "-ERR Error compiling script (new function): ");
    expect_part(one, "script load '#!lua'", "-ERR Invalid script shebang\r\n");
    assert_int_equal(cache->count, 0);
    assert_int_equal(cache->bytes, 0);
    expect(one, "eval 'return 1' 0", ":1\r\n");
    assert_int_equal(cache->count, 1);
    assert_int_equal(cache->bytes, 8);
}

/* ---- work ---- */

SCRIPT_TEST(work_is_bounded)
{
    static const char *const scripts[] = {
        "while true do end",
        "while true do pcall(redis.call, \"get\", \"k\") end",
        "while true do redis.call(\"set\", \"k\", 1) end",
        "while true do redis.call(\"get\", \"long\") end",
        "while true do redis.call(\"bitcount\", \"long\") end",
        "while true do redis.call(\"setrange\", \"long\", 1000000, \"x\") end",
        "local s = \"\" while true do s = s .. \"xxxxxxxxxxxxxxxx\" end",
    };
    struct okv_turn *turn = &fixture.resp.turn;
    char line[256];

    expect(one, "setrange long 1000000 x", ":1000001\r\n");
    for (unsigned i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        snprintf(line, sizeof line, "eval '%s' 0", scripts[i]);
        expect_part(one, line, "-ERR this would run alone for longer");
    }
    assert_true(turn->alone < 12000000);
    assert_true(turn->longest < 2 * OKV_TURN_STEP_MAX);
    expect(one, "exists k", ":0\r\n");
}

/* What a script did before it had to run alone is not counted. */
SCRIPT_TEST(a_script_that_runs_again_is_counted_once)
{
    const struct okv_resp_counts before = fixture.resp.counts;

    expect(one, "set k v", OK);
    expect(one,
           "eval 'redis.call(\"get\", \"k\") redis.call(\"get\", \"none\") "
           "for i = 1, 100000 do end return 1' 0",
           ":1\r\n");
    assert_int_equal(atomic_load(&fixture.core.server->resp_shared->exclusive.ended), 1);
    assert_int_equal(fixture.resp.counts.commands - before.commands, 4);
    assert_int_equal(fixture.resp.counts.hits - before.hits, 1);
    assert_int_equal(fixture.resp.counts.misses - before.misses, 1);
}

SCRIPT_TEST(a_script_that_runs_again_is_denied_once)
{
    const struct okv_counts *counts = &fixture.core.database->counts;

    one->rights[0] = OKV_RIGHT_READ;
    expect(one,
           "eval 'redis.pcall(\"set\", \"k\", 1) for i = 1, 100000 do end "
           "redis.pcall(\"set\", \"k\", 1) return 1' 0",
           ":1\r\n");
    assert_int_equal(atomic_load(&fixture.core.server->resp_shared->exclusive.ended), 1);
    assert_int_equal(atomic_load(&counts->denied), 2);
    expect_part(one, "set k 1", "-NOPERM ");
    assert_int_equal(atomic_load(&counts->denied), 3);
}

/* ---- redis.log() ---- */

/* One line that ends so; NULL: none. */
static void expect_line(int fd, const char *end)
{
    char text[1024];
    ssize_t length = read(fd, text, sizeof text - 1);

    text[length > 0 ? length : 0] = '\0';
    const char *found = end ? strstr(text, end) : text;
    assert_non_null(found);
    assert_string_equal(found, end ? end : "");
    assert_ptr_equal(strchr(text, '\n'), strrchr(text, '\n'));
}

/* One line for each request, even if the script runs again alone; and one a second. */
SCRIPT_TEST(scripts_write_few_lines)
{
#define LOG "eval 'redis.log(redis.LOG_WARNING, \"a\", 1) redis.log(2, \"b\") "
    struct okv_log *log = &fixture.core.server->log;
    int fds[2], before = log->fd;

    assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
    log->fd = fds[1];
    expect(one, LOG "for i = 1, 100000 do end' 0", NIL);
    fixture.resp.engine->log_next_ns = UINT64_MAX;
    expect_line(fds[0], ": a 1\n");
    expect(one, LOG "' 0", NIL);
    expect(one, LOG "' 0", NIL);
    expect_line(fds[0], NULL);
    fixture.resp.engine->log_next_ns = 0;
    expect(one, "eval 'redis.log(redis.LOG_DEBUG, \"c\") redis.log(3, \"d\")' 0", NIL);
    expect_line(fds[0], " (2 more lines of scripts were left out): d\n");
    assert_int_equal(log->lines, 0); /* of others */
    log->fd = before;
    close(fds[0]);
    close(fds[1]);
}

/* ---- the work of EXEC ---- */

static void configure_budget(struct okv_server *server)
{
    server->config.alone_ms = 1000;
}

static int begin_with_budget(void **state)
{
    (void)state;
    return begin_with(configure_budget);
}

/* EXEC makes room once, however many of its scripts find none. */
TEST_WITH(exec_makes_room_once, begin_with_budget, end)
{
    struct okv_store_work *work = &fixture.core.works[0];

    for (unsigned i = 0; i < 10000; i++)
        if (resp_fixture_call(one, "setrange a 1000000 x") &&
            resp_fixture_call(one, "setrange b 1000000 x") &&
            resp_fixture_call(one, "setrange c 1000000 x") &&
            resp_fixture_call(one, "setrange e 500000 x"))
            break;
    expect(one, "multi", OK);
    expect(one, "set s 1", "+QUEUED\r\n");
    for (unsigned i = 0; i < 4; i++)
        expect(one, "eval 'redis.call(\"set\", \"d\", (\"x\"):rep(1000000))' 0", "+QUEUED\r\n");
    unsigned before = work->room_steps;
    expect_part(one, "exec", "*5\r\n+OK\r\n-TRYAGAIN there is no room at the moment");
    assert_int_equal(work->room_steps - before, 1);
}

#define EACH_KIND(text)                                                                      \
    {                                                                                        \
        "{ok = " text "}", "{err = " text "}", "{big_number = " text "}",                    \
            "{verbatim_string = {format = \"txt\", string = " text "}}", "{[1] = " text "}", \
    }

SCRIPT_TEST(texts_of_all_kinds_are_work)
{
    static const char *const kinds[] = EACH_KIND("(\"x\"):rep(100000)");
    char line[256];

    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(line, sizeof line,
                 "eval 'local t, one = {}, %s for i = 1, 150 do t[i] = one end return t' 0",
                 kinds[i]);
        expect_part(one, line, "-ERR this would run alone for longer");
    }
}

TEST_WITH(texts_of_all_kinds_have_an_end, begin_with_budget, end)
{
    static const char *const kinds[] = EACH_KIND("(\"x\"):rep(20000000)");
    char line[256];

    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(line, sizeof line,
                 "eval 'local t, one = {}, %s for i = 1, 4 do t[i] = one end return t' 0",
                 kinds[i]);
        expect_part(one, line, "the reply is longer than 64 MiB");
    }
}

/* EVAL of a text of `length` bytes that returns the number. */
static const char *give_text(unsigned number, size_t length)
{
    static char line[1100000];
    int head =
        snprintf(line, sizeof line, "*3\r\n$4\r\neval\r\n$%zu\r\nreturn %04u --", length, number);

    assert_true(length >= 14 && (size_t)head + length < sizeof line - 16);
    memset(line + head, 'x', length - 14);
    strcpy(line + head + length - 14, "\r\n$1\r\n0\r");
    return resp_fixture_call(one, line);
}

/* Its queue may have many texts: to hash and to compile each is work of EXEC. */
SCRIPT_TEST(texts_in_a_transaction_are_counted)
{
    struct okv_turn *turn = &fixture.resp.turn;

    expect(one, "multi", OK);
    for (unsigned i = 0; i < 30; i++)
        assert_string_equal(give_text(i, 50000), "+QUEUED\r\n");
    expect_part(one, "exec", "*30\r\n:0\r\n:1\r\n:2\r\n");
    assert_true(turn->alone > 5000000 && turn->alone < 11000000);
    expect(one, "multi", OK);
    for (unsigned i = 0; i < 30; i++)
        assert_string_equal(give_text(i, 50000), "+QUEUED\r\n");
    expect_part(one, "exec", "-ERR this would run alone for longer");
}

/* Nobody waits for one step that hashes a long text. */
SCRIPT_TEST(a_long_text_is_hashed_alone)
{
    struct okv_exclusive *exclusive = &fixture.core.server->resp_shared->exclusive;
    struct okv_turn *turn = &fixture.resp.turn;

    assert_string_equal(give_text(7, 200000), ":7\r\n");
    assert_int_equal(atomic_load(&exclusive->ended), 1);
    assert_true(turn->longest < 2 * OKV_TURN_STEP_MAX);
    assert_true(turn->alone > 200000 * (20 + OKV_RESP_SHA1_BYTE) && turn->alone < 6000000);
    assert_string_equal(give_text(7, 200000), ":7\r\n"); /* it is compiled */
    assert_int_equal(atomic_load(&exclusive->ended), 1);
    /* A longer one is not even looked for in a step. */
    assert_string_equal(give_text(8, 350000), ":8\r\n");
    assert_string_equal(give_text(8, 350000), ":8\r\n");
    assert_int_equal(atomic_load(&exclusive->ended), 3);
}

SCRIPT_TEST(replies_that_nobody_wants)
{
    expect(one, "set k v", OK);
    expect(one, "client reply off", "");
    expect(one, "eval 'redis.call(\"set\", \"l\", redis.call(\"get\", \"k\")) return 1' 0", "");
    expect(one, "client reply on", OK);
    expect(one, "get l", "$1\r\nv\r\n");
}
