/* The commands that okv has of Redis': docs/resp.md section 4. */
#ifndef OKV_SERVER_RESP_COMMANDS_COMMANDS_H
#define OKV_SERVER_RESP_COMMANDS_COMMANDS_H

#include "server/resp/run/call.h"

enum okv_resp_flag {
    OKV_RESP_READ = 1,            /* looks at items: needs that right */
    OKV_RESP_WRITE = 2,           /* changes items: needs that right */
    OKV_RESP_ADMIN = 4,           /* needs that right */
    OKV_RESP_UNAUTHENTICATED = 8, /* whoever has not said who it is may give it */
    OKV_RESP_EXCLUSIVE = 16,      /* runs alone: no other RESP command, and no change of libokv */
    OKV_RESP_UNQUEUED = 32,       /* MULTI does not queue it */
    OKV_RESP_NO_MULTI = 64,       /* not within MULTI */
    OKV_RESP_GATE = 128,          /* runs within the log's gate, as one that changes items does */
    OKV_RESP_OWN_GATE = 256,      /* enters the gates of logs itself */
    OKV_RESP_WALK = 512,          /* looks at the whole table, as it is published */
    OKV_RESP_KEYS = 1024,         /* looks at several items, which are of one moment */
};

/* Returns 0, or OKV_EAGAIN as okv_resp_call(). */
typedef int okv_resp_function(struct okv_resp_call *call);

struct okv_resp_command {
    const char *name;                  /* in capitals; CLIENT|ID is the command CLIENT ID */
    okv_resp_function *run;            /* NULL: it has subcommands, and is none without */
    int arity;                         /* with the name; negative: at least so many */
    unsigned flags;                    /* of enum okv_resp_flag */
    int first_key, last_key, key_step; /* as COMMAND has them; 0: no keys */
    int value; /* index of the argument that is the item's new value; 0: none is */
    const char *group, *summary; /* as COMMAND DOCS has them */
};

/* The command of a request; NULL: there is none. With an unknown subcommand it is the command
 * itself. */
const struct okv_resp_command *okv_resp_command_of(const struct okv_resp_arg *args, uint32_t count);
/* In any case of letters; NULL. */
const struct okv_resp_command *okv_resp_command_find(const struct okv_resp_arg *name);
/* Whether it is a subcommand. */
bool okv_resp_command_is_part(const struct okv_resp_command *command);
/* The one at an index; NULL behind the last. */
const struct okv_resp_command *okv_resp_command_at(unsigned index);

#define OKV_RESP_FUNCTION_LIST(X) \
    X(append)                     \
    X(auth)                       \
    X(client_getname)             \
    X(client_id)                  \
    X(client_info)                \
    X(client_kill)                \
    X(client_list)                \
    X(client_reply)               \
    X(client_setname)             \
    X(command)                    \
    X(command_count)              \
    X(command_docs)               \
    X(command_getkeys)            \
    X(command_info)               \
    X(config_get)                 \
    X(config_set)                 \
    X(copy)                       \
    X(dbsize)                     \
    X(decr)                       \
    X(decrby)                     \
    X(del)                        \
    X(discard)                    \
    X(echo)                       \
    X(empty_list)                 \
    X(exec)                       \
    X(exists)                     \
    X(expire)                     \
    X(expireat)                   \
    X(expiretime)                 \
    X(flushall)                   \
    X(flushdb)                    \
    X(get)                        \
    X(getbit)                     \
    X(getdel)                     \
    X(getex)                      \
    X(getrange)                   \
    X(getset)                     \
    X(hello)                      \
    X(incr)                       \
    X(incrby)                     \
    X(incrbyfloat)                \
    X(info)                       \
    X(keys)                       \
    X(memory_usage)               \
    X(mget)                       \
    X(move)                       \
    X(mset)                       \
    X(msetnx)                     \
    X(multi)                      \
    X(nothing)                    \
    X(object_encoding)            \
    X(object_refcount)            \
    X(persist)                    \
    X(pexpire)                    \
    X(pexpireat)                  \
    X(pexpiretime)                \
    X(ping)                       \
    X(psetex)                     \
    X(pttl)                       \
    X(quit)                       \
    X(randomkey)                  \
    X(rename)                     \
    X(renamenx)                   \
    X(reset)                      \
    X(role)                       \
    X(scan)                       \
    X(select)                     \
    X(set)                        \
    X(setbit)                     \
    X(setex)                      \
    X(setnx)                      \
    X(setrange)                   \
    X(strlen)                     \
    X(time)                       \
    X(ttl)                        \
    X(type)                       \
    X(unwatch)                    \
    X(watch)                      \
    X(zero)

#define OKV_RESP_DECLARE(name) okv_resp_function okv_resp_run_##name;
OKV_RESP_FUNCTION_LIST(OKV_RESP_DECLARE)
#undef OKV_RESP_DECLARE

#endif
