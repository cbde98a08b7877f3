/* A run of a script, and what its functions know of it (okv_lua_user()). */
#ifndef OKV_SERVER_RESP_SCRIPT_RUN_H
#define OKV_SERVER_RESP_SCRIPT_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "server/resp/script/shebang.h"

struct okv_resp_call;
struct okv_resp_compiled;
struct okv_resp_engine;
struct okv_resp_script;

struct okv_resp_script_run {
    struct okv_resp_call *call; /* EVAL and its like */
    struct okv_resp_engine *engine;
    struct okv_resp_script *script;
    bool is_new;                        /* the script is not in the cache yet */
    struct okv_resp_compiled *compiled; /* NULL: not yet */
    struct okv_resp_shebang shebang;    /* of what is compiled */
    uint32_t first_key, keys;           /* among the arguments of the call */
    bool is_read_only;
    unsigned protocol; /* of replies to the script: redis.setresp() */
    bool has_failed;
    bool reads_table;       /* a command that it called */
    uint64_t commands_work; /* of the commands that it called */
};

/* Counts work for a script, beside that of the commands that it calls. */
void okv_resp_script_spend(struct okv_resp_call *call, uint64_t work);

/*
 * Compiles the script, and adds it to the cache if it is new. Returns whether it could; else there
 * was an error reply, or with *is_over the limit of work was reached, and nothing was replied.
 */
bool okv_resp_script_compile(struct okv_resp_script_run *run, uint64_t work, bool *is_over);

/*
 * Runs the script within `most` units of work and replies. Its changes are made at its end, unless
 * it failed. OKV_EAGAIN: to be called again later. With *needs_alone set nothing was changed, and
 * the script has to run alone: it takes longer, others were in its way, or it changes several items
 * that others would see one by one.
 */
int okv_resp_script_run(struct okv_resp_script_run *run, uint64_t most, bool *needs_alone);

#endif
