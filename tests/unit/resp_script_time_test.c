/* Scripts whose processor time is more than their work tells, on a clock of the test's own. */
#include "server/resp/script/engine.h"
#include "tests/support/resp_script.h"
#include "tests/support/still_processor.h"

/* 200,000 units of work each; a few of them take longer than what is not measured. */
#define SCRIPTS 40u
#define SCRIPT "eval 'for i = 1, 20000 do end return 1' 0"
#define WORK UINT64_C(200000)

static const char *exec_scripts(void)
{
    expect(one, "multi", OK);
    for (unsigned i = 0; i < SCRIPTS; i++)
        expect(one, SCRIPT, "+QUEUED\r\n");
    return resp_fixture_call(one, "exec");
}

/* All scripts of EXEC share what is left of its time. */
SCRIPT_TEST(a_transaction_ends_by_the_time_of_its_scripts)
{
    processor_each_look_ns = 0;
    assert_null(strchr(exec_scripts(), '-'));
    processor_each_look_ns = 2000000;
    const char *reply = exec_scripts();
    assert_non_null(strstr(reply, "\r\n:1\r\n"));
    assert_non_null(strstr(reply, "\r\n-ERR this would run alone for longer"));
    expect(one, "eval 'return 1' 0", ":1\r\n");
}

static uint64_t spend_by_scripts(void)
{
    uint64_t spent = 0;

    for (unsigned i = 0; i < SCRIPTS; i++) {
        expect(one, SCRIPT, ":1\r\n");
        spent += fixture.resp.turn.spent;
    }
    return spent;
}

static uint64_t work_of(const char *line)
{
    expect(one, line, ":1\r\n");
    return fixture.resp.turn.spent;
}

/* All of them are looked at. */
SCRIPT_TEST(ends_of_lines_of_errors_are_counted)
{
    processor_each_look_ns = 0;
    assert_true(work_of("eval 'local s = (\"\\n\"):rep(20000) "
                        "for i = 1, 10 do redis.error_reply(s) end return 1' 0") > 200000);
    assert_true(work_of("eval 'local s = \"-\" .. (\"\\n\"):rep(20000) "
                        "for i = 1, 10 do redis.error_reply(s) end return 1' 0") > 200000);
}

/* 1,000 texts of numbers with 1,024 digits each, and as many of short ones. */
SCRIPT_TEST(numbers_that_become_texts_are_counted)
{
#define CALL_WITH(what, call) \
    "eval 'local t = {} for i = 1, 1000 do t[i] = " what " end " call " return 1' 0"

    processor_each_look_ns = 0;
    uint64_t texts = work_of(CALL_WITH("\"x\"", "redis.pcall(\"get\", unpack(t))"));
    assert_true(work_of(CALL_WITH("1", "redis.pcall(\"get\", unpack(t))")) > texts + 100000);
    assert_true(work_of(CALL_WITH("1e308", "redis.pcall(\"get\", unpack(t))")) > texts + 1000000);
    assert_true(work_of(CALL_WITH("1e308", "redis.acl_check_cmd(\"get\", unpack(t))")) >
                texts + 1000000);
    assert_true(work_of(CALL_WITH("1e308", "redis.log(2, unpack(t))")) > texts + 1000000);
}

/* Others are served the sooner. */
SCRIPT_TEST(a_turn_ends_by_the_time_of_its_scripts)
{
    processor_each_look_ns = 0;
    assert_in_range(spend_by_scripts(), SCRIPTS * WORK, SCRIPTS * (WORK + 20000));
    processor_each_look_ns = 2000000;
    assert_true(spend_by_scripts() > SCRIPTS * (WORK + 50000));
}

/* Strings that were made to collide may be the cause. */
SCRIPT_TEST(garbage_goes_in_proportion_to_uncounted_time)
{
    processor_each_look_ns = 0;
    expect(one, "eval 'local s = (\"x\"):rep(200000) return 1' 0", ":1\r\n");
    struct okv_resp_engine *engine = fixture.resp.engine;
    const uint64_t memory = okv_lua_memory(engine->lua);
    assert_int_equal(engine->owed_bytes, 0);
    assert_false(okv_resp_engine_has_garbage(engine));

    processor_each_look_ns = 2000000;
    expect(one, SCRIPT, ":1\r\n");
    assert_in_range(engine->owed_bytes, 1, memory / 4); /* some looks of 2 ms, of 50 */
    okv_resp_engine_note_cost(engine, 1000, UINT64_C(1) << 60);
    assert_true(okv_resp_engine_has_garbage(engine));
    okv_resp_engine_collect(engine);
    assert_int_equal(engine->owed_bytes, 0);
    /* What was garbage when a cycle was under way already goes with the next one. */
    for (unsigned i = 0; i < 1000 && okv_resp_engine_has_garbage(engine); i++)
        okv_resp_engine_collect(engine);
    assert_false(okv_resp_engine_has_garbage(engine));
    assert_true(okv_lua_memory(engine->lua) < memory - 200000);
}
