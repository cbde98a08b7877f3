/* Counts small amounts of work, and spends them together (budget.h). An error loses what is not
 * spent yet: less than the error costs. */
#ifndef OKV_SERVER_LUA_METER_H
#define OKV_SERVER_LUA_METER_H

#include "server/lua/budget.h"

#define OKV_LUA_METER_MAX 1000u
/* Bytes of a text between two looks at the budget. */
#define OKV_LUA_PIECE 4096u

struct okv_lua_meter {
    lua_State *L;
    uint64_t work;
};

static inline void okv_lua_settle(struct okv_lua_meter *meter)
{
    uint64_t work = meter->work;

    meter->work = 0;
    okv_lua_spend(meter->L, work);
}

static inline void okv_lua_count(struct okv_lua_meter *meter, uint64_t work)
{
    meter->work += work;
    if (meter->work >= OKV_LUA_METER_MAX)
        okv_lua_settle(meter);
}

#endif
