#include "server/lua/machine.h"

#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/lua/budget.h"
#include "shared/base/clock.h"

/* Instructions between two looks at the limits. One may convert or compare strings, or pass over a
 * table or the stack: when a block of these is longer than OKV_LUA_SHORT bytes, there are as many
 * less. */
#define INSTRUCTIONS 100u
/* Work between two looks at the clock, beside those of the hook; likewise less beside long blocks,
 * as a function of C may pass over one for each table that it meets, or a chain of strings for each
 * that it makes. */
#define CLOCK_EVERY 2000u
/* Bytes of a table's array that take as long as a byte of other blocks: where it is empty, and for
 * its length, an instruction passes over all of it. */
#define ARRAY_SHARE 64u
/* Of okv_clock_steps(), 10 to 50 us: earlier no clock can have passed a limit. */
#define CLOCK_STEPS 50000u
/* The same: time for which no run is measured (30 to 150 us), nor one that follows so soon. */
#define MEASURED_STEPS 150000u
/* Processor time of a run, in ns, for each unit of work that it may do. */
#define CLOCK_SHARE 2u
/* Bytes of a node of a table (struct Node of Lua 5.1), and nodes from which on they count. */
#define NODE 40u
#define NODES_MANY 1024u
/* Bytes of a text that are compiled between two looks at the clock: lists of jumps, and of names,
 * take the square of their length. */
#define PIECE 256u
/* Work of a byte of a text that is compiled. */
#define COMPILED_BYTE 20u
/* Processor time, in ns, of a text whose strings collide: so much, and so much for each unit. */
#define SLOW_NS 50000u
#define SLOW_SHARE 3u

/* A block that Lua never frees, but reallocates. */
struct block {
    void *at;
    size_t size;
};

/* The clocks, as they were looked at. */
struct moment {
    uint64_t steps;
    uint64_t wall_ns, cpu_ns;
};

struct okv_lua {
    lua_State *state;
    void *user;                      /* of the run */
    uint64_t used, held, memory_end; /* bytes; `held` are elsewhere */
    uint64_t before;                 /* the run */
    uint64_t spent, work_end;
    uint64_t clock_at;    /* `spent` at which the clock is looked at */
    uint64_t steps;       /* of the last look */
    uint64_t begun;       /* steps at the begin of the run */
    struct moment moment; /* before the run, by MEASURED_STEPS at most */
    uint64_t charged;     /* work of the runs that have ended since */
    uint64_t run_steps;   /* that they took */
    uint64_t owed;        /* work of earlier ones, for which the next one pays */
    bool is_running;
    bool is_slow;           /* the last text that was compiled */
    enum okv_lua_end over;  /* the limit that was reached; OKV_LUA_DONE: none */
    size_t longest;         /* bytes that one instruction may pass over */
    struct block stack;     /* its values: one instruction may copy all of them */
    struct block buffer;    /* where Lua joins strings: no string is longer that it finds again */
    struct block *expected; /* one of both, which is to be allocated for the first time ... */
    size_t expected_size;   /* ... with this size */
    size_t announced;       /* bytes of the next block, if it is no table; 0: it may be one */
};

/* ---- limits ---- */

static uint64_t cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void note_moment(struct okv_lua *lua)
{
    lua->moment = (struct moment){okv_clock_steps(), okv_clock_ns(), cpu_ns()};
    lua->charged = 0;
    lua->run_steps = 0;
}

/* Of what is done between two looks: less beside a block that is longer than OKV_LUA_SHORT. */
static size_t share_of(const struct okv_lua *lua, size_t most)
{
    size_t share = lua->longest > OKV_LUA_SHORT ? most * OKV_LUA_SHORT / lua->longest : most;

    return share ? share : 1;
}

/* The processor's time is looked at only when as much time has passed at all. */
static bool is_past(struct okv_lua *lua)
{
    uint64_t steps = okv_clock_steps(), most = CLOCK_SHARE * lua->work_end;

    lua->clock_at = lua->spent + share_of(lua, CLOCK_EVERY);
    if (steps - lua->steps < CLOCK_STEPS)
        return false;
    lua->steps = steps;
    return okv_clock_ns() - lua->moment.wall_ns > most && cpu_ns() - lua->moment.cpu_ns > most;
}

static void look(lua_State *L, lua_Debug *where);

/* An error that the script catches comes again with its next instruction. */
static void end_run(lua_State *L, struct okv_lua *lua)
{
    lua_sethook(L, look, LUA_MASKCOUNT, 1);
    luaL_error(L, lua->over == OKV_LUA_OVER_WORK ? "the script takes too long"
                                                 : "the script needs too much memory");
}

void okv_lua_spend(lua_State *L, uint64_t work)
{
    struct okv_lua *lua = okv_lua_of(L);

    if (!lua->is_running)
        return;
    if (!lua->over && work > lua->work_end - lua->spent) { /* it will not be done */
        lua->over = OKV_LUA_OVER_WORK;
        lua->spent = lua->work_end;
    } else if (!lua->over) {
        lua->spent += work;
        if (lua->spent >= lua->clock_at && is_past(lua)) {
            lua->over = OKV_LUA_OVER_WORK;
            lua->spent = lua->work_end;
        }
    }
    if (lua->over)
        end_run(L, lua);
}

void okv_lua_hold(lua_State *L, uint64_t bytes)
{
    struct okv_lua *lua = okv_lua_of(L);

    lua->held = bytes;
    if (!lua->over && lua->used + lua->held > lua->memory_end)
        lua->over = OKV_LUA_OVER_MEMORY;
    if (lua->over)
        end_run(L, lua);
}

/* The hook. */
static void look(lua_State *L, lua_Debug *where)
{
    int count = lua_gethookcount(L);

    (void)where;
    okv_lua_of(L)->clock_at = 0; /* now */
    okv_lua_spend(L, (uint64_t)count * OKV_LUA_INSTRUCTION);
}

static int instructions(const struct okv_lua *lua)
{
    return (int)share_of(lua, INSTRUCTIONS);
}

/* One instruction may pass over as many bytes from now on. */
static void note_length(struct okv_lua *lua, size_t bytes)
{
    if (bytes <= lua->longest)
        return;
    lua->longest = bytes;
    if (lua->is_running && instructions(lua) < lua_gethookcount(lua->state))
        lua_sethook(lua->state, look, LUA_MASKCOUNT, instructions(lua));
}

/* A table whose keys collide takes the square of their number to grow, in one instruction, and keys
 * that do are easily found. What has the size of its nodes is taken for them, unless it is
 * announced as something else. */
static uint64_t work_of_block(const struct okv_lua *lua, size_t from, size_t to)
{
    size_t nodes = to / NODE;
    bool is_table = to >= NODES_MANY * NODE && from == 0 && to % NODE == 0 &&
                    !(nodes & (nodes - 1)) && to != lua->announced;

    return to + (is_table ? (uint64_t)nodes * nodes / 4 : 0);
}

static struct block *own_of(struct okv_lua *lua, const void *old, size_t size)
{
    struct block *own = NULL;

    if (lua->expected && !old && size == lua->expected_size) {
        own = lua->expected;
        lua->expected = NULL;
    } else if (old && (old == lua->stack.at || old == lua->buffer.at)) {
        own = old == lua->stack.at ? &lua->stack : &lua->buffer;
    }
    return own;
}

/* Strings, and the nodes of a table, are always new. What is reallocated is an array, unless it is
 * the stack or the buffer. */
static void note_block(struct okv_lua *lua, struct block *own, size_t from, struct block now)
{
    if (own)
        *own = now;
    if (lua->is_running && now.size > from)
        note_length(lua, own || from == 0 ? now.size : now.size / ARRAY_SHARE);
}

/* lua_Alloc. It cannot raise an error of its own: Lua says that there is no memory. */
static void *allocate(void *user, void *block, size_t from, size_t to)
{
    struct okv_lua *lua = user;
    void *result;

    if (to == 0) {
        free(block);
        lua->used -= from;
        return NULL;
    }
    if (to > from && lua->is_running) {
        uint64_t work = work_of_block(lua, from, to);
        if (!lua->over && work > lua->work_end - lua->spent)
            lua->over = OKV_LUA_OVER_WORK;
        if (!lua->over && lua->used + lua->held + (to - from) > lua->memory_end)
            lua->over = OKV_LUA_OVER_MEMORY;
        if (lua->over)
            return NULL;
        lua->spent += work;
    }
    /* Most blocks are new, and not the longest. */
    bool is_noted = from > 0 || to > lua->longest;
    struct block *own = is_noted ? own_of(lua, block, to) : NULL;
    result = realloc(block, to);
    if (!result && to <= from)
        return block;
    if (!result)
        return NULL;
    lua->used += to - from;
    if (is_noted)
        note_block(lua, own, from, (struct block){result, to});
    return result;
}

/* Bytes of a string and of a userdata before its own, and of the zero byte behind a string. */
#define STRING_HEAD 24u
#define STRING_END 1u
#define USERDATA_HEAD 40u

void okv_lua_push_long(lua_State *L, const void *bytes, size_t length)
{
    struct okv_lua *lua = okv_lua_of(L);

    note_length(lua, length); /* it may be there already */
    lua->announced = STRING_HEAD + length + STRING_END;
    lua_pushlstring(L, bytes, length);
    lua->announced = 0;
}

void *okv_lua_new_bytes(lua_State *L, size_t size)
{
    struct okv_lua *lua = okv_lua_of(L);

    lua->announced = USERDATA_HEAD + size;
    void *bytes = lua_newuserdata(L, size);
    lua->announced = 0;
    return bytes;
}

/* ---- a machine ---- */

/* Bytes of the first stack of a state, and of the first buffer, of Lua 5.1. */
#define FIRST_STACK ((2 * LUA_MINSTACK + 5) * 16u)
#define FIRST_BUFFER 32u

static void expect(struct okv_lua *lua, struct block *block, size_t size)
{
    lua->expected = block;
    lua->expected_size = size;
}

/* Joins two strings, for which Lua makes the buffer first. */
static int open_with_buffer(lua_State *L)
{
    struct okv_lua *lua = okv_lua_of(L);
    lua_CFunction open = *(lua_CFunction *)lua_touserdata(L, 1);

    lua_pushliteral(L, "a");
    lua_pushliteral(L, "b");
    expect(lua, &lua->buffer, FIRST_BUFFER);
    lua_concat(L, 2);
    lua->expected = NULL;
    lua_settop(L, 0);
    return open(L);
}

/* All calls that may raise an error are protected: this is a defect of okv. Lua would end the
 * process without a word. */
static int panic(lua_State *L)
{
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "no text";

    fprintf(stderr, "okv-server: an error of Lua outside of a protected call: %s\n", text);
    abort();
}

struct okv_lua *okv_lua_create(lua_CFunction open)
{
    struct okv_lua *lua = calloc(1, sizeof *lua);

    if (!lua)
        return NULL;
    expect(lua, &lua->stack, FIRST_STACK);
    lua->state = lua_newstate(allocate, lua);
    lua->expected = NULL;
    if (lua->state)
        lua_atpanic(lua->state, panic);
    if (lua->state && lua_cpcall(lua->state, open_with_buffer, &open) == 0)
        return lua;
    okv_lua_destroy(lua);
    return NULL;
}

void okv_lua_destroy(struct okv_lua *lua)
{
    if (lua && lua->state)
        lua_close(lua->state);
    free(lua);
}

lua_State *okv_lua_state(const struct okv_lua *lua)
{
    return lua->state;
}

struct okv_lua *okv_lua_of(lua_State *L)
{
    void *user;

    lua_getallocf(L, &user);
    return user;
}

void *okv_lua_user(lua_State *L)
{
    return okv_lua_of(L)->user;
}

uint64_t okv_lua_left(lua_State *L)
{
    const struct okv_lua *lua = okv_lua_of(L);

    return lua->spent < lua->work_end ? lua->work_end - lua->spent : 0;
}

uint64_t okv_lua_memory(const struct okv_lua *lua)
{
    return lua->used;
}

uint64_t okv_lua_added(lua_State *L)
{
    const struct okv_lua *lua = okv_lua_of(L);

    return lua->used > lua->before ? lua->used - lua->before : 0;
}

/* ---- a run ---- */

/* Begins to measure again. What runs did since the last time was too short to be measured: their
 * share of it is owed, or a client could fill the gaps between its runs. */
static void measure_again(struct okv_lua *lua)
{
    const struct moment before = lua->moment;
    const uint64_t charged = lua->charged, run_steps = lua->run_steps;

    note_moment(lua);
    double share = (double)run_steps / (double)(lua->moment.steps - before.steps);
    uint64_t work = (uint64_t)((double)(lua->moment.cpu_ns - before.cpu_ns) * share) / CLOCK_SHARE;
    lua->owed += work > charged ? work - charged : 0;
}

enum okv_lua_end okv_lua_begin(struct okv_lua *lua, const struct okv_lua_limits *limits,
                               lua_CFunction body, void *user)
{
    lua->user = user;
    lua->before = lua->used;
    lua->memory_end = lua->used + limits->memory;
    lua->held = 0;
    lua->spent = 0;
    lua->work_end = limits->work;
    lua->clock_at = CLOCK_EVERY;
    lua->steps = okv_clock_steps();
    if (lua->steps - lua->moment.steps > MEASURED_STEPS)
        measure_again(lua);
    lua->begun = lua->steps;
    lua->over = OKV_LUA_DONE;
    lua->announced = 0;
    lua->longest = OKV_LUA_SHORT;
    note_length(lua, limits->text);
    note_length(lua, lua->stack.size);
    note_length(lua, lua->buffer.size);
    lua->is_running = true;
    lua_sethook(lua->state, look, LUA_MASKCOUNT, instructions(lua));
    int status = lua_cpcall(lua->state, body, user);
    lua->is_running = false;
    if (lua->over)
        return lua->over;
    if (status == LUA_ERRMEM)
        return OKV_LUA_OVER_MEMORY;
    return status ? OKV_LUA_FAILED : OKV_LUA_DONE;
}

/* Short runs are measured together. */
uint64_t okv_lua_cost(struct okv_lua *lua)
{
    const uint64_t before = lua->moment.cpu_ns;
    const uint64_t charged = lua->charged + lua->spent;
    const uint64_t cost = lua->spent + lua->owed, now = okv_clock_steps();

    lua->charged = charged;
    lua->run_steps += now - lua->begun;
    lua->owed = 0;
    if (now - lua->moment.steps <= MEASURED_STEPS)
        return cost;
    note_moment(lua);
    uint64_t work = (lua->moment.cpu_ns - before) / CLOCK_SHARE;
    return cost + (work > charged ? work - charged : 0);
}

uint64_t okv_lua_end(struct okv_lua *lua)
{
    lua_sethook(lua->state, NULL, 0, 0);
    lua_settop(lua->state, 0);
    lua->user = NULL;
    return lua->spent;
}

struct collecting {
    int kib;
    bool has_ended;
};

static int collect(lua_State *L)
{
    struct collecting *collecting = lua_touserdata(L, 1);

    collecting->has_ended = lua_gc(L, LUA_GCSTEP, collecting->kib);
    return 0;
}

bool okv_lua_collect(struct okv_lua *lua, int kib)
{
    struct collecting collecting = {.kib = kib};

    if (lua_cpcall(lua->state, collect, &collecting))
        lua_pop(lua->state, 1);
    return collecting.has_ended;
}

/* A text that is compiled. */
struct pieces {
    const char *at;
    size_t left;
};

static const char *next_piece(lua_State *L, void *user, size_t *length)
{
    struct okv_lua *lua = okv_lua_of(L);
    struct pieces *pieces = user;
    const char *piece = pieces->at;

    *length = pieces->left < PIECE ? pieces->left : PIECE;
    lua->clock_at = 0; /* now */
    okv_lua_spend(L, *length * COMPILED_BYTE);
    pieces->at += *length;
    pieces->left -= *length;
    return *length ? piece : NULL;
}

/* The collector stops meanwhile: the parser of Lua 5.1 has a name that nothing holds
 * (CVE-2025-49844). Then it catches up: as it begins to count anew, a script that compiles again
 * and again would grow faster than it collects. */
bool okv_lua_compile(lua_State *L, const char *text, size_t length, const char *name)
{
    const uint64_t before = okv_lua_memory(okv_lua_of(L));
    struct pieces pieces = {text, length};
    int rc;

    if (length > 0 && text[0] == LUA_SIGNATURE[0]) {
        lua_pushliteral(L, "bytecode is not accepted");
        return false;
    }
    note_length(okv_lua_of(L), length); /* of its code, and its constants, which may be there */
    lua_gc(L, LUA_GCSTOP, 0);
    const uint64_t begun_ns = cpu_ns();
    rc = lua_load(L, next_piece, &pieces, name);
    okv_lua_of(L)->is_slow =
        cpu_ns() - begun_ns > SLOW_NS + (uint64_t)SLOW_SHARE * COMPILED_BYTE * length;
    lua_gc(L, LUA_GCRESTART, 0);
    uint64_t after = okv_lua_memory(okv_lua_of(L));
    lua_gc(L, LUA_GCSTEP, after > before ? (int)((after - before) >> 10) + 1 : 1);
    return rc == 0;
}

bool okv_lua_compiled_slowly(const struct okv_lua *lua)
{
    return lua->is_slow;
}
