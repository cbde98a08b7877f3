/* Scripts of RESP clients: what they may call, that their changes are made as one, and their
 * limits. */
#include "tests/support/test.h"

#include "server/resp/run/shared.h"
#include "server/resp/script/cache.h"
#include "server/resp/script/engine.h"
#include "shared/base/clock.h"
#include "tests/support/resp_fixture.h"

static const struct okv_store_params params = {
    .length = 4u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 1u << 20};

static struct resp_fixture fixture;
static struct okv_resp_client *one, *other;

static int begin(void **state)
{
    (void)state;
    resp_fixture_open(&fixture, &params);
    one = resp_fixture_client(&fixture);
    other = resp_fixture_client(&fixture);
    return 0;
}

/* More than one worker, of which the others do nothing. */
static void configure_workers(struct okv_server *server)
{
    server->config.workers = 2;
}

static int begin_with_neighbours(void **state)
{
    (void)state;
    resp_fixture_open_with(&fixture, &params, configure_workers);
    one = resp_fixture_client(&fixture);
    other = resp_fixture_client(&fixture);
    return 0;
}

static int end(void **state)
{
    (void)state;
    resp_fixture_end(one);
    resp_fixture_end(other);
    fixture.core.server->config.workers = 1;
    resp_fixture_close(&fixture);
    return 0;
}

#define SCRIPT_TEST(name) TEST_WITH(name, begin, end)

static void expect(struct okv_resp_client *client, const char *line, const char *reply)
{
    const char *got = resp_fixture_call(client, line);

    if (!got || strcmp(got, reply))
        print_error("%s\n", line);
    assert_non_null(got);
    assert_string_equal(got, reply);
}

static void expect_part(struct okv_resp_client *client, const char *line, const char *part)
{
    const char *got = resp_fixture_call(client, line);

    if (!got || !strstr(got, part))
        fail_msg("%s: %s", line, got ? got : "it waits");
}

#define OK "+OK\r\n"
#define NIL "$-1\r\n"

/* ---- values ---- */

SCRIPT_TEST(values_become_replies)
{
    expect(one, "eval 'return 3.9' 0", ":3\r\n");
    expect(one, "eval 'return \"x\"' 0", "$1\r\nx\r\n");
    expect(one, "eval 'return true' 0", ":1\r\n");
    expect(one, "eval 'return false' 0", NIL);
    expect(one, "eval 'return nil' 0", NIL);
    expect(one, "eval 'return {1, {\"a\", false}, nil, 2}' 0",
           "*2\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n");
    expect(one, "eval 'return {ok = \"fine\"}' 0", "+fine\r\n");
    expect(one, "eval 'return {err = \"MY fault\"}' 0", "-MY fault\r\n");
    expect(one, "eval 'return {err = \"a\\r\\nb\"}' 0", "-a  b\r\n");
    expect(one, "eval 'return {double = 1.5}' 0", "$3\r\n1.5\r\n");
    expect(one, "eval 'return {map = {a = 1}}' 0", "*2\r\n$1\r\na\r\n:1\r\n");
    expect(one, "eval 'return {KEYS[1], KEYS[2], ARGV[1]}' 2 a b c",
           "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n");
    expect_part(one, "eval 'local a = {} a[1] = a return a' 0", "-ERR reached lua stack limit\r\n");
}

SCRIPT_TEST(replies_become_values)
{
    expect(one, "set s text", OK);
    expect(one, "eval 'return type(redis.call(\"get\", \"s\"))' 0", "$6\r\nstring\r\n");
    expect(one, "eval 'return redis.call(\"get\", \"none\") == false' 0", ":1\r\n");
    expect(one, "eval 'return redis.call(\"set\", \"k\", 1).ok' 0", "$2\r\nOK\r\n");
    expect(one, "eval 'return redis.call(\"incrby\", \"k\", 2) + 1' 0", ":4\r\n");
    expect(one, "eval 'return #redis.call(\"mget\", \"s\", \"none\", \"k\")' 0", ":3\r\n");
    expect(one, "eval 'return redis.pcall(\"incr\", \"s\").err' 0",
           "$43\r\nERR value is not an integer or out of range\r\n");
    expect(one, "eval 'redis.setresp(3) return redis.call(\"get\", \"none\") == nil' 0", ":1\r\n");
    expect_part(one, "eval 'return redis.setresp(4)' 0", "RESP version must be 2 or 3.");
    expect(one, "eval 'redis.call(\"set\", \"f\", 0.1) return redis.call(\"get\", \"f\")' 0",
           "$19\r\n0.10000000000000001\r\n");
}

/* As long as the nodes of a table, whose price is higher. */
SCRIPT_TEST(values_have_the_price_of_their_length)
{
    expect(one, "setrange k 327654 x", ":327655\r\n");
    expect(one, "eval 'return #redis.call(\"get\", \"k\")' 0", ":327655\r\n");
}

SCRIPT_TEST(booleans_are_those_of_both_protocols)
{
    expect(one, "eval 'redis.setresp(3) return {true, false}' 0", "*2\r\n:1\r\n:0\r\n");
    expect_part(one, "hello 3", "%7\r\n");
    expect(one, "eval 'return {true, false}' 0", "*2\r\n:1\r\n_\r\n");
    expect(one, "eval 'redis.setresp(3) return {true, false}' 0", "*2\r\n#t\r\n#f\r\n");
}

SCRIPT_TEST(texts_of_lines_have_no_end_of_line)
{
    expect(one, "eval 'return {err = \"a\\nb\\r\\n\"}' 0", "-a b\r\n");
    expect(one, "eval 'return {ok = \"a\\nb\\n\"}' 0", "+a b \r\n");
    expect(one, "eval 'return {ok = \"a\\0b\"}' 0", "+a\r\n");
    expect(one, "eval 'return {big_number = \"1\\n2\"}' 0", "$3\r\n1 2\r\n");
    expect(one, "eval 'return redis.error_reply(\"A \\n b\\n\")' 0", "-A  b\r\n");
    expect(one, "eval 'return redis.error_reply(\"\\na\")' 0", "-ERR a\r\n");
    expect_part(one, "eval 'error(true)' 0", "-ERR true script: ");
}

/* What lacks a part of a verbatim string is an array, wherever it stands. */
SCRIPT_TEST(verbatim_strings_have_two_parts)
{
#define PART "{verbatim_string = {format = \"txt\"}}"
    expect(one, "eval 'return {verbatim_string = {format = \"txt\", string = \"x\"}}' 0",
           "$1\r\nx\r\n");
    expect(one, "eval 'return " PART "' 0", "*0\r\n");
    expect(one, "eval 'return {" PART ", 1}' 0", "*2\r\n*0\r\n:1\r\n");
    expect(one, "eval 'return {map = {" PART "}}' 0", "*2\r\n:1\r\n*0\r\n");
    expect(one, "eval 'return {set = {[" PART "] = true}}' 0", "*1\r\n*0\r\n");
    expect(one, "eval 'return {verbatim_string = {string = \"x\"}}' 0", "*0\r\n");
}

SCRIPT_TEST(formats_of_verbatim_strings_have_three_characters)
{
#define FORMAT(format) \
    "eval 'return {verbatim_string = {format = \"" format "\", string = \"x\"}}' 0"
    expect_part(one, "hello 3", "%7\r\n");
    expect(one, FORMAT("txt"), "=5\r\ntxt:x\r\n");
    expect(one, FORMAT("text"), "=5\r\ntex:x\r\n");
    expect(one, FORMAT("t"), "=5\r\nt  :x\r\n");
    expect(one, FORMAT(""), "=5\r\n   :x\r\n");
    expect(one, FORMAT("a\\0b"), "=5\r\na  :x\r\n");
}

/* ---- as a whole ---- */

SCRIPT_TEST(a_script_sees_its_own_changes)
{
    expect(one, "set a 1", OK);
    expect(one,
           "eval 'redis.call(\"set\", \"a\", 2) redis.call(\"append\", \"a\", \"x\") "
           "redis.call(\"set\", "
           "\"b\", 1, \"EX\", 100) redis.call(\"del\", \"a\") redis.call(\"rename\", \"b\", \"c\") "
           "return "
           "{redis.call(\"exists\", \"a\", \"b\", \"c\"), redis.call(\"ttl\", \"c\")}' 0",
           "*2\r\n:1\r\n:100\r\n");
    expect(one, "exists a b c", ":1\r\n");
    expect(one, "get c", "$1\r\n1\r\n");
    expect(one, "eval 'return redis.call(\"getset\", \"c\", \"new\")' 0", "$1\r\n1\r\n");
    expect(one, "eval 'redis.call(\"set\", \"d\", 1) redis.call(\"del\", \"d\")' 0", NIL);
    expect(one, "exists d", ":0\r\n");
}

/* Outside of scripts those are built while others are served. */
SCRIPT_TEST(long_values_are_copied)
{
    expect(one, "setrange k 199999 x", ":200000\r\n");
    expect(one, "eval 'return redis.call(\"rename\", \"k\", \"l\")' 0", OK);
    expect(one, "eval 'return redis.call(\"renamenx\", \"l\", \"m\")' 0", ":1\r\n");
    expect(one, "eval 'return redis.call(\"copy\", \"m\", \"n\")' 0", ":1\r\n");
    expect(one,
           "eval 'redis.call(\"append\", \"m\", \"y\") redis.call(\"rename\", \"m\", \"o\") "
           "return redis.call(\"copy\", \"o\", \"n\", \"replace\")' 0",
           ":1\r\n");
    expect(one, "eval 'return redis.call(\"strlen\", \"n\")' 0", ":200001\r\n");
    expect(one, "exists k l m n o", ":2\r\n");
}

SCRIPT_TEST(a_script_that_fails_changes_nothing)
{
    static const char *const ends[] = {
        "error(\"x\")",
        "error({err = \"x\"})",
        "redis.call(\"incr\", \"a\")",
        "return x",
        "while true do end",
        "redis.call(\"nosuch\")",
        "return ((\"x\"):rep(100000000))",
        "redis.call(\"set\", \"a\")",
        "redis.call(\"setrange\", \"a\", 1048577, \"x\")",
        "local function f() return 1 + f() end f()",
    };
    char line[512];

    expect(one, "set a text", OK);
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
        snprintf(line, sizeof line,
                 "eval 'redis.call(\"set\", \"a\", 2) redis.call(\"set\", \"b\", 2) "
                 "redis.call(\"append\", \"a\", \"y\") %s' 0",
                 ends[i]);
        expect_part(one, line, "-");
        expect(one, "mget a b", "*2\r\n$4\r\ntext\r\n$-1\r\n");
    }
}

static void configure_budget(struct okv_server *server)
{
    server->config.alone_ms = 1000;
}

static int begin_with_budget(void **state)
{
    (void)state;
    resp_fixture_open_with(&fixture, &params, configure_budget);
    one = resp_fixture_client(&fixture);
    other = resp_fixture_client(&fixture);
    return 0;
}

/* The store has no room for the last one. */
TEST_WITH(a_script_without_room_changes_nothing, begin_with_budget, end)
{
    const char *got = NULL;

    /* It waits while room is made. */
    for (unsigned i = 0; i < 10000 && !got; i++)
        got = resp_fixture_call(
            one, "eval 'redis.call(\"set\", \"a\", 1) for i = 1, 8 do redis.call(\"set\", \"k\" .. "
                 "i, (\"x\"):rep(1000000)) end' 0");
    assert_non_null(got);
    assert_memory_equal(got, "-OOM", 4);
    expect(one, "dbsize", ":0\r\n");
}

/* EXEC makes room once, however many of its scripts find none. */
TEST_WITH(exec_makes_room_once, begin_with_budget, end)
{
    struct okv_store_work *work = &fixture.core.works[0];

    for (unsigned i = 0; i < 10000; i++)
        if (resp_fixture_call(one, "setrange a 1000000 x") &&
            resp_fixture_call(one, "setrange b 1000000 x") &&
            resp_fixture_call(one, "setrange c 1000000 x"))
            break;
    expect(one, "multi", OK);
    expect(one, "set s 1", "+QUEUED\r\n");
    for (unsigned i = 0; i < 4; i++)
        expect(one, "eval 'redis.call(\"set\", \"d\", (\"x\"):rep(1000000))' 0", "+QUEUED\r\n");
    unsigned before = work->room_steps;
    expect_part(one, "exec", "*5\r\n+OK\r\n-TRYAGAIN there is no room at the moment");
    assert_int_equal(work->room_steps - before, 1);
}

TEST_WITH(others_do_not_see_changes_one_by_one, begin_with_neighbours, end)
{
    struct okv_exclusive *exclusive = &fixture.core.server->resp_shared->exclusive;

    expect(one, "eval 'return redis.call(\"set\", \"a\", 1)' 0", OK);
    assert_int_equal(atomic_load(&exclusive->ended), 0);
    expect(one, "eval 'redis.call(\"set\", \"a\", 2) redis.call(\"set\", \"b\", 2) return 1' 0",
           ":1\r\n");
    assert_int_equal(atomic_load(&exclusive->ended), 1);
    /* Longer than a step. */
    expect(one, "eval 'for i = 1, 100000 do end return 1' 0", ":1\r\n");
    assert_int_equal(atomic_load(&exclusive->ended), 2);
    expect(one, "mget a b", "*2\r\n$1\r\n2\r\n$1\r\n2\r\n");
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

SCRIPT_TEST(within_a_transaction)
{
    expect(one, "multi", OK);
    expect(one, "eval 'return redis.call(\"incr\", \"n\")' 0", "+QUEUED\r\n");
    expect(one, "incr n", "+QUEUED\r\n");
    expect(one, "eval 'redis.call(\"incr\", \"n\") error(\"x\")' 0", "+QUEUED\r\n");
    expect(one, "get n", "+QUEUED\r\n");
    expect_part(one, "exec", "*4\r\n:1\r\n:2\r\n-ERR user_script:1: x");
    expect(one, "get n", "$1\r\n2\r\n");
}

/* ---- what a script may call ---- */

SCRIPT_TEST(what_a_script_may_not_call)
{
    static const char *const commands[] = {
        "\"multi\"",          "\"exec\"",
        "\"watch\", \"k\"",   "\"select\", 1",
        "\"flushall\"",       "\"flushdb\"",
        "\"eval\", \"\", 0",  "\"script\", \"flush\"",
        "\"client\", \"id\"", "\"config\", \"get\", \"*\"",
        "\"shutdown\"",       "\"auth\", \"x\"",
        "\"move\", \"k\", 1",
    };
    char line[256];

    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(line, sizeof line, "eval 'return redis.call(%s)' 0", commands[i]);
        expect_part(one, line, "-ERR This Redis command is not allowed from script script: ");
    }
    expect_part(one, "eval 'return redis.call(\"nosuch\")' 0",
                "-ERR Unknown Redis command called from script script: ");
    expect_part(one, "eval 'return redis.call(\"get\")' 0",
                "-ERR Wrong number of args calling Redis command from script script: ");
    expect_part(one, "eval 'return redis.call()' 0",
                "-ERR Please specify at least one argument for this redis lib call script: ");
    expect_part(one, "eval 'return redis.call(\"get\", {})' 0",
                "-ERR Lua redis lib command arguments must be strings or integers script: ");
    expect_part(one, "eval_ro 'return redis.call(\"set\", \"k\", 1)' 0",
                "-ERR Write commands are not allowed from read-only scripts. script: ");
    expect(one, "eval_ro 'return redis.call(\"get\", \"k\")' 0", NIL);
}

SCRIPT_TEST(walks_of_the_table)
{
    expect(one, "set before 1", OK);
    expect(one, "eval 'redis.call(\"set\", \"x\", 1) return redis.call(\"randomkey\")' 0",
           "$6\r\nbefore\r\n");
    expect(one, "del x", ":1\r\n");
    expect(one, "eval 'return redis.call(\"keys\", \"*\")' 0", "*1\r\n$6\r\nbefore\r\n");
    expect(
        one,
        "eval 'local cursor, n = 0, 0 repeat local r = redis.call(\"scan\", cursor) cursor = r[1] "
        "n = n + #r[2] until cursor == \"0\" return n' 0",
        ":1\r\n");
}

SCRIPT_TEST(flags_of_the_first_line)
{
#define WRITES "\\nreturn redis.call('set', 'k', 1)\" 0"
    expect(one, "eval \"#!lua" WRITES, OK);
    expect(one, "eval \"#!lua flags=" WRITES, OK);
    expect(one, "eval \"#!lua flags=allow-oom,allow-stale flags=no-cluster" WRITES, OK);
    expect_part(one, "eval \"#!lua flags=allow-oom,no-writes" WRITES,
                "-ERR Write commands are not allowed from read-only scripts. script: ");
    expect(one, "eval_ro \"#!lua flags=no-writes\\nreturn redis.call('get', 'k')\" 0",
           "$1\r\n1\r\n");
    expect(one, "eval_ro \"#!lua" WRITES,
           "-ERR Can not execute a script with write flag using *_ro command.\r\n");
    expect(one, "eval \"#!lua flags=no-writes,x" WRITES,
           "-ERR Unexpected flag in script shebang: x\r\n");
    expect(one, "eval \"#!lua x=1" WRITES, "-ERR Unknown lua shebang option: x=1\r\n");
    expect(one, "eval \"#!perl" WRITES, "-ERR Unexpected engine in script shebang: #!perl\r\n");
    expect(one, "script load '#!lua'", "-ERR Invalid script shebang\r\n");
    expect_part(one, "eval \"#!lua\\nerror('x')\" 0", "-ERR user_script:2: x script: ");
    expect_part(one, "info memory", "\r\nnumber_of_cached_scripts:6\r\n");
}

SCRIPT_TEST(globals_are_read_only)
{
#define READ_ONLY "-ERR user_script:1: Attempt to modify a readonly table script: "
    expect_part(one, "eval 'x = 1' 0", READ_ONLY);
    expect_part(one, "eval '_G = {}' 0", READ_ONLY);
    expect_part(one, "eval 'KEYS = {}' 0", READ_ONLY);
    expect_part(one, "eval '_G.ARGV = nil' 0", READ_ONLY);
    expect(one, "eval 'KEYS[1] = \"x\" return {_G.KEYS[1], #ARGV, _G._G == _G}' 1 a b",
           "*3\r\n$1\r\nx\r\n:1\r\n:1\r\n");
    expect(one, "eval 'return {#KEYS, #ARGV}' 0", "*2\r\n:0\r\n:0\r\n");
}

/* A number becomes a text where it is, and the collector may run at any time. */
SCRIPT_TEST(errors_may_be_numbers)
{
    char line[64], reply[32];

    for (unsigned i = 0; i < 1000; i++) {
        snprintf(line, sizeof line, "eval 'error({err = %u.5})' 0", i);
        snprintf(reply, sizeof reply, "-%u.5 script: ", i);
        expect_part(one, line, reply);
    }
}

/* Raising a table of the machine must not write to it. */
SCRIPT_TEST(errors_leave_the_machine_alone)
{
    static const char *const tables[] = {
        "_G", "redis", "string", "table", "cjson", "getmetatable(\"\")", "getmetatable(redis)",
    };
    char line[256];

    for (unsigned i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(line, sizeof line, "eval 'error(%s)' 0", tables[i]);
        expect_part(one, line, "-ERR unknown error script: ");
        snprintf(line, sizeof line, "eval 'return {next(%s), rawget(%s, \"line\")}' 0", tables[i],
                 tables[i]);
        expect(other, line, "*0\r\n");
    }
    expect_part(one, "eval 'error({err = \"MY fault\"})' 0", "-MY fault script: ");
    expect_part(one, "eval 'error({err = \"MY fault\", line = 7})' 0", ", on @user_script:1.");
}

/* Of MOVE and COPY to another database. */
SCRIPT_TEST(a_script_stays_in_its_database)
{
    expect(one, "set k 1", OK);
    expect_part(one, "eval 'return redis.call(\"copy\", \"k\", \"l\", \"DB\", 1)' 0", "-");
    expect(one, "eval 'return redis.call(\"copy\", \"k\", \"l\")' 0", ":1\r\n");
    expect(one, "select 1", OK);
    expect(one, "dbsize", ":0\r\n");
}

SCRIPT_TEST(rights_are_those_of_the_user)
{
    expect(one, "set k 1", OK);
    one->rights[0] = OKV_RIGHT_READ;
    expect(one, "eval 'return redis.call(\"get\", \"k\")' 0", "$1\r\n1\r\n");
    expect_part(one, "eval 'return redis.call(\"set\", \"k\", 2)' 0", "-NOPERM");
    expect(one, "eval 'return redis.acl_check_cmd(\"set\", \"k\", 2)' 0", NIL);
    expect(one, "eval 'return redis.acl_check_cmd(\"get\", \"k\")' 0", ":1\r\n");
    expect_part(one, "eval 'return redis.acl_check_cmd(\"client\", \"x\")' 0",
                "-ERR Invalid command passed to redis.acl_check_cmd() script: ");
    expect(other, "get k", "$1\r\n1\r\n");
}

/* A script without rights in the database would still take the worker's time. */
SCRIPT_TEST(scripts_are_for_users_with_a_right)
{
    one->rights[0] = 0;
    expect_part(one, "eval 'return 1' 0", "-NOPERM");
    expect_part(one, "script load 'return 1'", "-NOPERM");
    one->rights[0] = OKV_RIGHT_WRITE;
    expect(one, "eval 'return 1' 0", ":1\r\n");
    expect_part(one, "script flush", "-NOPERM");
    one->rights[0] = OKV_RIGHT_ADMIN;
    expect(one, "script flush", OK);
}

/* What is refused costs the same whatever the value is: else its price would tell the length. */
SCRIPT_TEST(what_is_refused_tells_nothing)
{
    expect(one, "setrange k 1000000 x", ":1000001\r\n");
    one->rights[0] = OKV_RIGHT_READ;
    expect_part(one,
                "eval 'for i = 1, 900000 do end return redis.call(\"append\", \"k\", \"x\")' 0",
                "-NOPERM");
}

/* Lua would look at all of its bytes. */
SCRIPT_TEST(a_long_text_is_no_number)
{
#define LONG_TEXT "local s = (\" \"):rep(5000) .. \"2\" "
    expect_part(one, "eval '" LONG_TEXT "redis.log(s, \"x\")' 0",
                "-ERR First argument must be a number (log level). script: ");
    expect_part(one, "eval '" LONG_TEXT "redis.setresp(s)' 0",
                "-ERR RESP version must be 2 or 3. script: ");
    expect(one, "eval 'redis.setresp(\" 3\") redis.set_repl(\"2\") return 1' 0", ":1\r\n");
}

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
}

SCRIPT_TEST(replies_that_nobody_wants)
{
    expect(one, "set k v", OK);
    expect(one, "client reply off", "");
    expect(one, "eval 'redis.call(\"set\", \"l\", redis.call(\"get\", \"k\")) return 1' 0", "");
    expect(one, "client reply on", OK);
    expect(one, "get l", "$1\r\nv\r\n");
}
