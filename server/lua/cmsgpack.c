/* The library "cmsgpack" (https://github.com/antirez/lua-cmsgpack). */
#include "server/lua/libraries.h"
#include "server/lua/msgpack.h"

void okv_lua_add_cmsgpack(lua_State *L)
{
    static const luaL_Reg functions[] = {{"pack", okv_lua_msgpack_pack},
                                         {"unpack", okv_lua_msgpack_unpack},
                                         {"unpack_limit", okv_lua_msgpack_unpack_limit},
                                         {"unpack_one", okv_lua_msgpack_unpack_one},
                                         {NULL, NULL}};

    okv_lua_add(L, functions);
    lua_pushliteral(L, "cmsgpack");
    lua_setfield(L, -2, "_NAME");
    lua_pushliteral(L, "lua-cmsgpack 0.4.0");
    lua_setfield(L, -2, "_VERSION");
    lua_pushliteral(L, "MessagePack for Lua");
    lua_setfield(L, -2, "_DESCRIPTION");
}
