/* Scripts of RESP clients: their values, that their changes are made as one, and what they may
 * call. */
#include "server/resp/run/lookup.h"
#include "server/resp/run/shared.h"
#include "server/resp/run/staging.h"
#include "shared/base/error.h"
#include "tests/support/resp_script.h"

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

static int visit_nothing(void *user, const struct okv_store_now *now)
{
    (void)user;
    (void)now;
    return 0;
}

/* Other workers set the clock meanwhile. */
SCRIPT_TEST(time_stands_still_within_a_script)
{
    struct okv_resp_staging staging = {.count = 0};
    const struct okv_resp_arg key = {(const uint8_t *)"k", 1};
    struct okv_resp_call call = {
        .client = one, .executor = &fixture.resp.executors[0], .staging = &staging};

    expect(one, "set k v px 100", OK);
    assert_int_equal(okv_resp_staging_look(&call, &key, false, visit_nothing, NULL), 0);
    uint64_t now_ms = okv_resp_now_ms(&call);
    resp_fixture_pass(&fixture, 1000);
    expect(one, "get k", NIL);
    assert_int_equal(okv_resp_now_ms(&call), now_ms);
    assert_int_equal(okv_resp_staging_look(&call, &key, false, visit_nothing, NULL), 0);
    okv_resp_staging_clear(&staging);
    assert_int_equal(okv_resp_staging_look(&call, &key, false, visit_nothing, NULL), OKV_ENOTFOUND);
    assert_int_equal(okv_resp_now_ms(&call), now_ms + 1000);
    okv_resp_staging_fini(&staging);
    expect(one,
           "eval 'local a = redis.call(\"time\") for i = 1, 100000 do end "
           "local b = redis.call(\"time\") return a[1] == b[1] and a[2] == b[2]' 0",
           ":1\r\n");
}

#define A_WHILE "for i = 1, 4e5 do end "

/* Times to live count from there, too, and what ends at once is gone for the script. */
SCRIPT_TEST(times_to_live_stand_still_within_a_script)
{
    expect(one, "set k v px 100000", OK);
    expect(one,
           "eval 'local a = redis.call(\"pttl\", \"k\") " A_WHILE
           "return a - redis.call(\"pttl\", \"k\")' 0",
           ":0\r\n");
    expect(one,
           "eval 'redis.call(\"set\", \"k\", \"v\") " A_WHILE
           "redis.call(\"set\", \"k\", \"v\", \"px\", 100000) " A_WHILE
           "return redis.call(\"pttl\", \"k\")' 0",
           ":100000\r\n");
    expect(one,
           "eval 'redis.call(\"set\", \"k\", \"v\") " A_WHILE
           "return {redis.call(\"pexpire\", \"k\", 0), redis.call(\"exists\", \"k\")}' 0",
           "*2\r\n:1\r\n:0\r\n");
    expect(one,
           "eval 'redis.call(\"set\", \"k\", \"v\") " A_WHILE "local now = redis.call(\"time\") "
           "redis.call(\"pexpireat\", \"k\", now[1] * 1000 + math.floor(now[2] / 1000)) "
           "return redis.call(\"exists\", \"k\")' 0",
           ":0\r\n");
}

static void configure_budget(struct okv_server *server)
{
    server->config.alone_ms = 1000;
}

static int begin_with_budget(void **state)
{
    (void)state;
    return begin_with(configure_budget);
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

/* More than one worker, of which the others do nothing. */
static void configure_workers(struct okv_server *server)
{
    server->config.workers = 2;
}

static int begin_with_neighbours(void **state)
{
    (void)state;
    return begin_with(configure_workers);
}

/* What they see of the table is not compared at the end. */
TEST_WITH(a_script_that_reads_the_table_runs_alone, begin_with_neighbours, end)
{
    static const char *const commands[] = {"\"keys\", \"*\"", "\"scan\", 0", "\"randomkey\"",
                                           "\"dbsize\""};
    struct okv_exclusive *exclusive = &fixture.core.server->resp_shared->exclusive;
    char line[128];

    for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
        snprintf(line, sizeof line, "eval 'redis.call(%s) return 1' 0", commands[i]);
        for (unsigned j = 1; j <= 2; j++) {
            expect(one, line, ":1\r\n");
            assert_int_equal(atomic_load(&exclusive->ended), 2 * i + j);
        }
    }
    expect(one, "eval 'return redis.pcall(\"keys\")' 0",
           "-ERR Wrong number of args calling Redis command from script\r\n");
    assert_int_equal(atomic_load(&exclusive->ended), 8);
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
