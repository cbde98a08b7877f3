#include "tests/support/lua_run.h"

#include <inttypes.h>
#include <time.h>

#include "server/lua/sandbox.h"
#include "tests/support/test.h"

#define SLOWER 16

static int body(lua_State *L)
{
    const char *text = lua_touserdata(L, 1);

    if (!okv_lua_compile(L, text, strlen(text), "@test"))
        return lua_error(L);
    okv_sandbox_enter(L);
    lua_setfenv(L, -2);
    lua_call(L, 0, 1);
    lua_pushlightuserdata(L, (void *)body);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
    return 0;
}

/* lua_cpcall() drops results, so the body leaves its own in the registry. */
static void take_result(lua_State *L)
{
    lua_pushlightuserdata(L, (void *)body);
    lua_rawget(L, LUA_REGISTRYINDEX);
}

static void describe(lua_State *L, struct lua_result *result)
{
    const char *prefix = result->end == OKV_LUA_DONE ? "" : "error: ", *text = NULL;

    if (result->end == OKV_LUA_DONE)
        take_result(L);
    if (lua_gettop(L) > 0)
        text =
            lua_isboolean(L, -1) ? (lua_toboolean(L, -1) ? "true" : "false") : lua_tostring(L, -1);
    snprintf(result->text, sizeof result->text, "%s%s", prefix,
             text                ? text
             : lua_gettop(L) > 0 ? lua_typename(L, lua_type(L, -1))
                                 : "none");
}

struct lua_result lua_run_within(const char *text, const struct okv_lua_limits *limits)
{
    struct okv_lua *lua = okv_lua_create(okv_sandbox_open);
    struct lua_result result = {.end = OKV_LUA_OVER_MEMORY};

    if (!lua)
        return result;
    result.end = okv_lua_begin(lua, limits, body, (void *)text);
    describe(okv_lua_state(lua), &result);
    result.work = okv_lua_end(lua);
    okv_sandbox_leave(okv_lua_state(lua));
    okv_lua_destroy(lua);
    return result;
}

const char *lua_run(const char *text)
{
    static struct lua_result result;

    result = lua_run_within(
        text, &(struct okv_lua_limits){.work = LUA_RUN_WORK, .memory = LUA_RUN_MEMORY});
    return result.text;
}

void lua_assert_limited(const char *text)
{
    const struct okv_lua_limits limits = {.work = 20000000, .memory = 8 << 20};
    struct lua_result result = lua_run_within(text, &limits);

    if (result.end != OKV_LUA_OVER_WORK && result.end != OKV_LUA_OVER_MEMORY)
        print_error("%s: %s\n", text, result.text);
    assert_true(result.end == OKV_LUA_OVER_WORK || result.end == OKV_LUA_OVER_MEMORY);
    assert_true(result.work <= limits.work + 1000000);
}

uint64_t lua_work_of(const char *text)
{
    struct lua_result result = lua_run_within(
        text, &(struct okv_lua_limits){.work = LUA_RUN_WORK, .memory = LUA_RUN_MEMORY});

    if (result.end != OKV_LUA_DONE)
        print_error("%s: %s\n", text, result.text);
    assert_int_equal(result.end, OKV_LUA_DONE);
    return result.work;
}

void lua_assert_counted(const char *text, uint64_t least)
{
    uint64_t work = lua_work_of(text);

    if (work < least)
        print_error("%s: %" PRIu64 " units\n", text, work);
    assert_true(work >= least);
}

void lua_assert_all_counted(const struct lua_counted *counted, size_t count)
{
    char text[512];

    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%s return 1", counted[i].before);
        uint64_t before = lua_work_of(text);
        snprintf(text, sizeof text, "%s %s return 1", counted[i].before, counted[i].call);
        lua_assert_counted(text, before + counted[i].least);
    }
}

static bool is_patient = true;

void lua_run_set_patient(bool patient)
{
    is_patient = patient;
}

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int rc = __real_clock_gettime(clock, out);

    if (clock == CLOCK_THREAD_CPUTIME_ID && is_patient) {
        uint64_t ns = ((uint64_t)out->tv_sec * 1000000000u + (uint64_t)out->tv_nsec) / SLOWER;
        *out = (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    }
    return rc;
}
