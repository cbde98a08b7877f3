/* The machine for scripts: its limits, and what they can reach. */
#include "server/lua/sandbox.h"

#include <time.h>

#include "server/lua/budget.h"
#include "shared/base/clock.h"
#include "tests/support/lua_run.h"
#include "tests/support/test.h"

TEST(a_script_runs)
{
    assert_lua("return 1 + 2", "3");
    assert_lua("return ('x'):upper()", "X");
    assert_lua("return _VERSION", "Lua 5.1");
    assert_lua("return tostring(select('#', unpack({1, 2, 3})))", "3");
}

/* ---- limits ---- */

static void assert_over_with(const char *text, enum okv_lua_end end, uint64_t memory)
{
    const struct okv_lua_limits limits = {.work = 100000000, .memory = memory};
    struct lua_result result = lua_run_within(text, &limits);

    if (result.end != end)
        print_error("%s: %s\n", text, result.text);
    assert_int_equal(result.end, end);
    assert_true(result.work < 2 * limits.work);
}

static void assert_over(const char *text, enum okv_lua_end end)
{
    assert_over_with(text, end, 1 << 20);
}

TEST(work_has_an_end)
{
    assert_over("while true do end", OKV_LUA_OVER_WORK);
    assert_over("while true do pcall(function() while true do end end) end", OKV_LUA_OVER_WORK);
    assert_over("local function f() return f() end f()", OKV_LUA_OVER_WORK);
    assert_over("while true do pcall(error, 'x') end", OKV_LUA_OVER_WORK);
    assert_over("xpcall(function() while true do end end, function() while true do end end) "
                "while true do end",
                OKV_LUA_OVER_WORK);
    /* Its text is there before, so that nothing needs memory. */
    assert_over("local a, b = 'the script takes too long', '' local c = a .. b .. 'x' "
                "xpcall(function() while true do end end, function() while true do end end)",
                OKV_LUA_OVER_WORK);
    assert_over("while true do collectgarbage() end", OKV_LUA_OVER_WORK);
    assert_over("while true do loadstring('return 1') end", OKV_LUA_OVER_WORK);
    assert_over("local s = 'x' while true do s = s .. s end", OKV_LUA_OVER_MEMORY);
}

static int keep_much(lua_State *L)
{
    lua_pushlightuserdata(L, (void *)keep_much);
    lua_newuserdata(L, 8 << 20);
    lua_rawset(L, LUA_REGISTRYINDEX);
    return 0;
}

static int collect(lua_State *L)
{
    static const char text[] = "for i = 1, 100 do collectgarbage() end "
                               "local t = {} for i = 1, 1e4 do t[i] = {} end t = nil "
                               "local before = collectgarbage('count') "
                               "collectgarbage() collectgarbage() "
                               "assert(collectgarbage('count') < before - 300)";

    if (!okv_lua_compile(L, text, sizeof text - 1, "@test"))
        return lua_error(L);
    okv_sandbox_enter(L);
    lua_setfenv(L, -2);
    lua_call(L, 0, 0);
    return 0;
}

/* What others keep in the machine costs a script nothing, and takes it no time. */
TEST(a_script_collects_what_it_has_added)
{
    const struct okv_lua_limits limits = {.work = 5000000, .memory = LUA_RUN_MEMORY};
    struct okv_lua *lua = okv_lua_create(okv_sandbox_open);

    assert_non_null(lua);
    assert_int_equal(okv_lua_begin(lua,
                                   &(struct okv_lua_limits){.work = 20000000, .memory = 16 << 20},
                                   keep_much, NULL),
                     OKV_LUA_DONE);
    okv_lua_end(lua);
    assert_int_equal(okv_lua_begin(lua, &limits, collect, NULL), OKV_LUA_DONE);
    assert_in_range(okv_lua_end(lua), 2000000, 4500000);
    okv_lua_destroy(lua);
}

static void burn(uint64_t steps)
{
    uint64_t from = okv_clock_steps();

    while (okv_clock_steps() - from < steps)
        continue;
}

static int burn_uncounted(lua_State *L)
{
    (void)L;
    burn(100000);
    return 0;
}

/* Even when they are too short to be measured, and what follows each of them is long. */
TEST(runs_that_are_not_counted_are_paid_for)
{
    const struct okv_lua_limits limits = {.work = LUA_RUN_WORK, .memory = LUA_RUN_MEMORY};
    struct okv_lua *lua = okv_lua_create(okv_sandbox_open);
    uint64_t cost = 0, counted = 0;

    assert_non_null(lua);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(okv_lua_begin(lua, &limits, burn_uncounted, NULL), OKV_LUA_DONE);
        cost += okv_lua_cost(lua);
        counted += okv_lua_end(lua);
        burn(300000);
    }
    okv_lua_destroy(lua);
    assert_true(cost > counted + 100000); /* of some 7 ms, which the clock here makes 0.5 ms */
}

/* ---- instructions between two looks ---- */

/* Of a text. */
struct run {
    const char *text;
    size_t length;
    int instructions; /* at its end */
};

static int count_instructions(lua_State *L)
{
    struct run *run = lua_touserdata(L, 1);

    if (!okv_lua_compile(L, run->text, run->length, "@test"))
        return lua_error(L);
    okv_sandbox_enter(L);
    lua_setfenv(L, -2);
    lua_call(L, 0, 0);
    run->instructions = lua_gethookcount(L);
    return 0;
}

static int instructions_of(struct okv_lua *lua, const char *text, size_t of)
{
    const struct okv_lua_limits limits = {
        .work = LUA_RUN_WORK, .memory = LUA_RUN_MEMORY, .text = of};
    struct run run = {.text = text, .length = strlen(text)};

    assert_int_equal(okv_lua_begin(lua, &limits, count_instructions, &run), OKV_LUA_DONE);
    okv_lua_end(lua);
    okv_sandbox_leave(okv_lua_state(lua));
    return run.instructions;
}

static int instructions_alone(const char *text, size_t of)
{
    struct okv_lua *lua = okv_lua_create(okv_sandbox_open);

    assert_non_null(lua);
    int instructions = instructions_of(lua, text, of);
    okv_lua_destroy(lua);
    return instructions;
}

/* The longer a block is that one instruction may pass over, the fewer there are. */
TEST(long_blocks_are_looked_at_often)
{
    assert_int_equal(instructions_alone("return 1", 0), 100);
    assert_int_equal(instructions_alone("return ('x'):rep(2000)", 0), 100);
    assert_int_equal(instructions_alone("return ('x'):rep(65000)", 0), 6);
    assert_int_equal(instructions_alone("return ('x'):rep(500000)", 0), 1);
    /* What was compiled before has constants for which nothing is allocated. */
    assert_int_equal(instructions_alone("return 1", 40960), 10);
    assert_int_equal(instructions_alone("return loadstring((' '):rep(4000) .. (' '):rep(4000))", 0),
                     51);
    /* Nodes of a table. Its array is passed over slot by slot, where it is empty. */
    assert_int_equal(instructions_alone("local t = {} for i = 1, 600 do t['x' .. i] = 1 end", 0),
                     10);
    assert_int_equal(instructions_alone("local t = {} for i = 1, 5000 do t[i] = i end", 0), 100);
    assert_int_equal(instructions_alone("local t = {} for i = 1, 65537 do t[i] = i end", 0), 12);
    /* The values of a call. */
    assert_int_equal(
        instructions_alone("local t = {} for i = 1, 7000 do t[i] = i end "
                           "local function f(...) return select('#', ...) end f(unpack(t))",
                           0),
        1);
}

/* What joins strings finds one that is there, and a call finds the stack: nothing is allocated. */
TEST(what_an_earlier_run_left_is_looked_at_often)
{
    static const char *const texts[] = {
        "local s = ('x'):rep(3000) s = s .. s s = s .. s s = s .. s s = s .. s",
        "local function f(n) return n == 0 and 0 or 1 + f(n - 1) end f(2000)",
    };

    for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct okv_lua *lua = okv_lua_create(okv_sandbox_open);
        assert_non_null(lua);
        assert_in_range(instructions_of(lua, texts[i], 0), 1, 10);
        assert_in_range(instructions_of(lua, "return 1", 0), 1, 60);
        okv_lua_destroy(lua);
    }
}

static int add_one(lua_State *L)
{
    unsigned *rounds = okv_lua_user(L);

    *rounds += 1;
    return 0;
}

static int convert_for_ever(lua_State *L)
{
    static const char text[] = "local add_one = ... local s = (' '):rep(65000) .. '1' local x "
                               "for i = 1, 1e9 do x = s * s add_one() end";

    if (!okv_lua_compile(L, text, sizeof text - 1, "@test"))
        return lua_error(L);
    okv_sandbox_enter(L);
    lua_setfenv(L, -2);
    lua_pushcfunction(L, add_one);
    lua_call(L, 1, 0);
    return 0;
}

/* The clock ends it: by its work it could go on for 20,000 rounds, and 500 are no more than two
 * looks for each 20,000 units. */
TEST(an_instruction_may_take_long)
{
    const struct okv_lua_limits limits = {.work = 1000000, .memory = LUA_RUN_MEMORY};
    struct okv_lua *lua = okv_lua_create(okv_sandbox_open);
    unsigned rounds = 0;

    assert_non_null(lua);
    lua_run_set_patient(false);
    assert_int_equal(okv_lua_begin(lua, &limits, convert_for_ever, &rounds), OKV_LUA_OVER_WORK);
    lua_run_set_patient(true);
    assert_in_range(rounds, 0, 200); /* 0: on a slow processor */
    okv_lua_destroy(lua);
}

/* Takes 500 us, and says as little of it as a function of C that passes over an empty array. */
static int take_long(lua_State *L)
{
    struct timespec begin, now;

    okv_lua_spend(L, OKV_LUA_ENTRY);
    add_one(L);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 500000);
    return 0;
}

static int sort_for_long(lua_State *L)
{
    static const char text[] = "local take_long = ... local s, t = ('x'):rep(1e6), {} "
                               "for i = 1, 1000 do t[i] = i end table.sort(t, take_long)";

    if (!okv_lua_compile(L, text, sizeof text - 1, "@test"))
        return lua_error(L);
    okv_sandbox_enter(L);
    lua_setfenv(L, -2);
    lua_pushcfunction(L, take_long);
    lua_call(L, 1, 0);
    return 0;
}

/* 20 ms, which are 40 rounds. Without the long text the clock is looked at after each 133. */
TEST(a_function_may_take_long)
{
    const struct okv_lua_limits limits = {.work = 10000000, .memory = LUA_RUN_MEMORY};
    struct okv_lua *lua = okv_lua_create(okv_sandbox_open);
    unsigned rounds = 0;

    assert_non_null(lua);
    lua_run_set_patient(false);
    assert_int_equal(okv_lua_begin(lua, &limits, sort_for_long, &rounds), OKV_LUA_OVER_WORK);
    lua_run_set_patient(true);
    assert_in_range(rounds, 0, 60); /* likewise */
    okv_lua_destroy(lua);
}

/* ---- strings that collide ---- */

#define CHAIN 4000u
#define CHAIN_MASK 8191u /* of as many slots as Lua has for that many strings */

/* Of Lua 5.1, for at most 32 bytes. */
static uint32_t hash_of(const char *text, size_t length)
{
    uint32_t hash = (uint32_t)length;

    while (length-- > 0)
        hash ^= (hash << 5) + (hash >> 2) + (uint8_t)text[length];
    return hash;
}

/* A list of constants, which are all in one chain. */
static char *make_colliding(void)
{
    char *text = malloc(CHAIN * 16 + 32), *at = text + sprintf(text, "return {");
    unsigned count = 0;

    for (uint32_t i = 0; count < CHAIN; i++) {
        char name[16];
        int length = snprintf(name, sizeof name, "%09x", i);
        if ((hash_of(name, (size_t)length) & CHAIN_MASK) != 0)
            continue;
        at += sprintf(at, "'%s',", name);
        count++;
    }
    sprintf(at, "}");
    return text;
}

static int compile_only(lua_State *L)
{
    const char *text = okv_lua_user(L);

    return okv_lua_compile(L, text, strlen(text), "@test") ? 0 : lua_error(L);
}

/* What keeps such strings makes all others of their chain slow. */
TEST(a_text_of_colliding_strings_is_known)
{
    const struct okv_lua_limits limits = {.work = 100000000, .memory = LUA_RUN_MEMORY};
    struct okv_lua *lua = okv_lua_create(okv_sandbox_open);
    char *text = make_colliding(), plain[] = "return {1, 2, 3}";

    assert_non_null(lua);
    lua_run_set_patient(false);
    assert_int_equal(okv_lua_begin(lua, &limits, compile_only, text), OKV_LUA_DONE);
    okv_lua_end(lua);
    assert_true(okv_lua_compiled_slowly(lua));
    lua_run_set_patient(true);
    assert_int_equal(okv_lua_begin(lua, &limits, compile_only, plain), OKV_LUA_DONE);
    okv_lua_end(lua);
    assert_false(okv_lua_compiled_slowly(lua));
    okv_lua_destroy(lua);
    free(text);
}

/* Each takes seconds when nothing looks at it meanwhile: nested lists of jumps, and names. */
TEST(compiling_has_an_end)
{
    lua_run_set_patient(false);
    assert_over_with("loadstring('return ' .. ('a or '):rep(60000) .. 'a')", OKV_LUA_OVER_WORK,
                     64 << 20);
    assert_over_with("loadstring(('function f() local a' .. (', a'):rep(197) .. ' '):rep(150) .. "
                     "('b = b '):rep(20000) .. ('end '):rep(150))",
                     OKV_LUA_OVER_WORK, 64 << 20);
    lua_run_set_patient(true);
}

/* Keys that are all in one chain when the table has twice as many nodes. */
TEST(growing_a_table_is_counted)
{
    assert_over_with("local t, s = {}, 65535 * 2 ^ -52 "
                     "for x = 1 + s, 1 + 32767.5 * s, s do t[x] = 1 end "
                     "for k = 1, 200 do t[k + 0.5] = 1 end",
                     OKV_LUA_OVER_WORK, 64 << 20);
    assert_lua("local t = {} for i = 1, 3000 do t['k' .. i] = i end return t.k3000", "3000");
}

TEST(handlers_of_errors)
{
    assert_lua("local function f(...) return select('#', ...) .. table.concat({...}) end "
               "return f(select(2, xpcall(function() return 1, 2, 3 end, error)))",
               "3123");
    assert_lua("local ok, why, more = xpcall(function() error('x', 0) end, "
               "function(e) return e .. 'y', 1 end) return tostring(ok) .. why .. tostring(more)",
               "falsexynil");
    assert_lua("local ok, why = xpcall(error, function(e) return type(e) end) return why", "nil");
    assert_lua("local ok, why = xpcall(error, error) return why", "error in error handling");
    assert_lua("local ok, why = xpcall(error, 1) return why", "error in error handling");
    assert_lua("local ok, why = pcall(xpcall, error) return why",
               "bad argument #2 to '?' (value expected)");
}

/* With their heads they are as long as the nodes of a table: 40 * 8192 bytes. */
TEST(strings_are_no_tables)
{
    assert_in_range(lua_work_of("return #('x'):rep(327655)"), 327655, 2000000);
    assert_in_range(lua_work_of("return #('x'):rep(327640)"), 327640, 2000000);
    assert_in_range(lua_work_of("return #('x'):rep(327656):sub(2)"), 327655, 2000000);
    assert_in_range(lua_work_of("return #table.concat({('x'):rep(327654), 'y'})"), 327655, 3000000);
    assert_in_range(lua_work_of("local t = {} for i = 1, 5000 do t['x' .. i] = 1 end"), 16777216,
                    LUA_RUN_WORK);
}

TEST(memory_has_an_end)
{
    assert_over("local t = {} while true do t[#t + 1] = {} end", OKV_LUA_OVER_MEMORY);
    assert_over("local t = {} while true do pcall(function() while true do t[#t + 1] = {} end end) "
                "end",
                OKV_LUA_OVER_MEMORY);
}

/* ---- texts that are taken for numbers ---- */

#define LONG_TEXT "local s = (' '):rep(1e5) .. '1' "
#define SHORT_TEXT "local s = (' '):rep(1000) .. '1' "

/* Lua would look at all of its bytes, for each use again. */
TEST(a_long_text_is_no_number)
{
    static const char *const calls[] = {
        "math.max(1, s)", "math.floor(s)",          "math.fmod(1, s)",   "math.random(s)",
        "select(s, 1)",   "math.randomseed(s)",     "unpack({1}, s)",    "unpack({1}, 1, s)",
        "error('x', s)",  "tonumber('1', s)",       "math.random(1, s)", "math.ldexp(1, s)",
        "('x'):rep(s)",   "table.insert({}, s, 1)",
    };
    char text[256];

    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        snprintf(text, sizeof text,
                 LONG_TEXT "local ok, why = pcall(function() return %s end) return why", calls[i]);
        if (!strstr(lua_run(text), "(number expected, got string)"))
            fail_msg("%s: %s", calls[i], lua_run(text));
    }
    assert_lua(LONG_TEXT "return tostring(tonumber(s))", "nil");
    assert_lua(LONG_TEXT "return tostring(tonumber(s, 16))", "nil");
}

TEST(a_text_as_a_number_is_counted)
{
    static const struct lua_counted counted[] = {
        {SHORT_TEXT, "math.max(1, s)", 4000},        {SHORT_TEXT, "math.floor(s)", 4000},
        {SHORT_TEXT, "math.randomseed(s)", 4000},    {SHORT_TEXT, "select(s, 1)", 4000},
        {SHORT_TEXT, "unpack({1}, s)", 4000},        {SHORT_TEXT, "tonumber(s)", 4000},
        {SHORT_TEXT, "tonumber('1', s .. 0)", 4000}, {SHORT_TEXT, "tonumber(s, 16)", 4000},
        {SHORT_TEXT, "pcall(error, 1, s)", 4000},
    };

    lua_assert_all_counted(counted, sizeof counted / sizeof *counted);
    assert_lua(SHORT_TEXT "return math.max(0, s) + math.floor(s) + select(s, 1) + tonumber(s)",
               "4");
    assert_lua("return table.concat({math.max(1, '2'), tonumber('10', 2), tonumber('z', 36), "
               "select('#', 1, nil), (select('-1', 1, 2)), tostring(tonumber('x'))}, ' ')",
               "2 2 35 2 2 nil");
    assert_lua("local ok, why = pcall(math.floor, 'x') return why",
               "bad argument #1 to '?' (number expected, got string)");
    assert_lua("local ok, why = pcall(function() return math.floor('x') end) return why",
               "test:1: bad argument #1 to 'floor' (number expected, got string)");
}

/* The function that gives them may be one of C, which has no instructions. */
TEST(pieces_of_a_text_are_counted)
{
#define PIECES "local n = 0 local function f() n = n + 1 if n <= 100 then return ' ' end end "
    static const struct lua_counted counted[] = {
        {PIECES, "load(f)", 14000},
        {"local n = 0 local function f() n = n + 1 if n <= 100 then return 1 end end", "load(f)",
         22000},
    };

    lua_assert_all_counted(counted, sizeof counted / sizeof *counted);
    assert_lua(PIECES "return type(load(f))", "function");
    assert_lua("local n = 0 local function f() n = n + 1 return ({'return ', 1, 2, ''})[n] end "
               "return load(f)()",
               "12");
    assert_lua("return load(function() return true end)",
               "error: test:1: reader function must return a string");
    lua_assert_limited("return load(gcinfo)");
}

TEST(depth_has_an_end)
{
    assert_true(
        strstr(lua_run("local function f() return 1 + f() end return f()"), "stack overflow"));
    assert_true(strstr(lua_run("return loadstring('return ' .. ('('):rep(1000) .. 1 .. "
                               "(')'):rep(1000)) and 1 or error('too deep')"),
                       "too deep"));
}

/* ---- nothing outlives a script ---- */

#define READ_ONLY "Attempt to modify a readonly table"

static void assert_error(const char *text, const char *part)
{
    const char *result = lua_run(text);

    if (strncmp(result, "error: ", 7) || !strstr(result, part))
        print_error("%s: %s\n", text, result);
    assert_true(strncmp(result, "error: ", 7) == 0);
    assert_non_null(strstr(result, part));
}

TEST(what_outlives_a_script_is_read_only)
{
    static const char *const tables[] = {"_G",  "string", "table",  "math",
                                         "bit", "cjson",  "struct", "cmsgpack"};
    char text[256];

    for (unsigned i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(text, sizeof text, "%s.x = 1", tables[i]);
        assert_error(text, READ_ONLY);
        snprintf(text, sizeof text, "rawset(%s, 'x', 1)", tables[i]);
        assert_error(text, READ_ONLY);
        snprintf(text, sizeof text, "setmetatable(%s, {})", tables[i]);
        assert_error(text, READ_ONLY);
        snprintf(text, sizeof text, "getmetatable(%s).__index = nil", tables[i]);
        assert_error(text, READ_ONLY);
    }
    assert_error("getmetatable('').__index = nil", READ_ONLY);
    assert_error("getmetatable(getmetatable('')).__index = nil", READ_ONLY);
    assert_error("x = 1", READ_ONLY);
    assert_error("return x", "Script attempted to access nonexistent global variable 'x'");
    assert_error("_G = {}", READ_ONLY);
    assert_error("KEYS = {}", READ_ONLY);
    assert_error("local s = '' s.x = 1", "attempt to index local 's' (a string value)");
}

TEST(what_is_dangerous_is_not_there)
{
    static const char *const names[] = {
        "coroutine", "io",       "os",       "debug", "package",     "require", "module",
        "dofile",    "loadfile", "newproxy", "print", "string.dump", "getfenv", "setfenv"};
    char text[256];

    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(text, sizeof text,
                 "local ok, x = pcall(function() return %s end) "
                 "return tostring(ok and x ~= nil)",
                 names[i]);
        assert_lua(text, "false");
    }
    assert_lua("local f, why = loadstring('\\27Lua') return why", "bytecode is not accepted");
    assert_lua(
        "local n = 0 local f, why = load(function() n = n + 1 return n == 1 and '\\27Lua' or "
        "nil end) return why",
        "bytecode is not accepted");
}
