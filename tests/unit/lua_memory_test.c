/* The machine for scripts when the process has no memory: what is called outside of a run raises no
 * error of Lua, which would end the process. */
#include "server/lua/machine.h"
#include "server/lua/sandbox.h"
#include "tests/support/test.h"

static bool has_no_memory;

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);

void *__wrap_realloc(void *block, size_t size)
{
    return has_no_memory ? NULL : __real_realloc(block, size);
}

/* So many strings that the collector makes their table smaller, for which it needs memory. */
static int leave_strings(lua_State *L)
{
    for (int i = 0; i < 20000; i++) {
        lua_pushfstring(L, "string %d", i);
        lua_pop(L, 1);
    }
    return 0;
}

static const struct okv_lua_limits limits = {.work = 100000000, .memory = 64 << 20};

static struct okv_lua *machine_with_strings(void)
{
    struct okv_lua *lua = okv_lua_create(okv_sandbox_open);

    assert_non_null(lua);
    lua_gc(okv_lua_state(lua), LUA_GCSTOP, 0);
    assert_int_equal(okv_lua_begin(lua, &limits, leave_strings, NULL), OKV_LUA_DONE);
    okv_lua_end(lua);
    lua_gc(okv_lua_state(lua), LUA_GCRESTART, 0);
    return lua;
}

TEST(a_script_leaves_without_memory)
{
    struct okv_lua *lua = machine_with_strings();

    has_no_memory = true;
    for (unsigned i = 0; i < 10000; i++) {
        lua_gc(okv_lua_state(lua), LUA_GCRESTART, 0); /* a step at the next occasion */
        okv_sandbox_leave(okv_lua_state(lua));
    }
    has_no_memory = false;
    okv_lua_destroy(lua);
}

TEST(the_collector_without_memory)
{
    struct okv_lua *lua = machine_with_strings();
    unsigned cycles = 0;

    has_no_memory = true;
    for (unsigned i = 0; i < 10000; i++)
        okv_lua_collect(lua, 1);
    has_no_memory = false;
    for (unsigned i = 0; i < 1000; i++)
        cycles += okv_lua_collect(lua, 64);
    assert_true(cycles > 2);
    assert_int_equal(lua_gettop(okv_lua_state(lua)), 0);
    okv_lua_destroy(lua);
}
