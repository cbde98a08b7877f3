/* math.random and math.randomseed: those of Lua share the C library's state with all threads. The
 * same seed gives the same numbers as in Redis. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#include "server/lua/argument.h"
#include "server/lua/libraries.h"

struct random {
    unsigned short machine[3]; /* of nrand48(): where each script begins */
    unsigned short state[3];   /* of the script, which may seed it */
};

static char random_key;

static struct random *random_of(lua_State *L)
{
    lua_pushlightuserdata(L, &random_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    struct random *random = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return random;
}

static int random_number(lua_State *L)
{
    double number = (double)(nrand48(random_of(L)->state) % INT32_MAX) / INT32_MAX;
    int from = 1, to;

    switch (lua_gettop(L)) {
    case 0:
        lua_pushnumber(L, number);
        return 1;
    case 1:
        to = (int)okv_lua_check_integer(L, 1);
        luaL_argcheck(L, from <= to, 1, "interval is empty");
        break;
    case 2:
        from = (int)okv_lua_check_integer(L, 1);
        to = (int)okv_lua_check_integer(L, 2);
        luaL_argcheck(L, from <= to, 2, "interval is empty");
        break;
    default:
        return luaL_error(L, "wrong number of arguments");
    }
    lua_pushnumber(L, floor(number * ((double)to - from + 1)) + from);
    return 1;
}

static int seed(lua_State *L)
{
    uint32_t number = (uint32_t)okv_lua_check_integer(L, 1);
    struct random *random = random_of(L);

    random->state[0] = 0x330e;
    random->state[1] = (unsigned short)number;
    random->state[2] = (unsigned short)(number >> 16);
    return 0;
}

void okv_lua_begin_random(lua_State *L)
{
    struct random *random = random_of(L);

    for (unsigned i = 0; i < 3; i++)
        random->state[i] = (unsigned short)nrand48(random->machine);
}

void okv_lua_add_random(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"random", random_number}, {"randomseed", seed}, {NULL, NULL}};

    okv_lua_add(L, functions);
    lua_pushlightuserdata(L, &random_key);
    struct random *random = lua_newuserdata(L, sizeof *random);
    if (getrandom(random->machine, sizeof random->machine, 0) != sizeof random->machine)
        luaL_error(L, "no random numbers");
    lua_rawset(L, LUA_REGISTRYINDEX);
}
