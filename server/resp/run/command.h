/* A command as its table describes it, and lookups in that table. */
#ifndef OKV_SERVER_RESP_RUN_COMMAND_H
#define OKV_SERVER_RESP_RUN_COMMAND_H

#include "server/resp/proto/parser.h"

struct okv_resp_call;

/* Whose commands these are. */
#define OKV_RESP_REDIS_VERSION "7.0.15"

enum okv_resp_flag {
    OKV_RESP_READ = 1,            /* reads items: needs that right */
    OKV_RESP_WRITE = 2,           /* changes items: needs that right */
    OKV_RESP_ADMIN = 4,           /* needs that right */
    OKV_RESP_UNAUTHENTICATED = 8, /* allowed before AUTH */
    OKV_RESP_EXCLUSIVE = 16,      /* runs alone: no other RESP command, and no write of libokv */
    OKV_RESP_UNQUEUED = 32,       /* MULTI does not queue it */
    OKV_RESP_NO_MULTI = 64,       /* not allowed within MULTI */
    OKV_RESP_CHANGE = 128,        /* runs in a change scope, like a write */
    OKV_RESP_OWN_CHANGE = 256,    /* begins change scopes itself */
    OKV_RESP_TABLE = 512,         /* reads the whole table, as it is published */
    OKV_RESP_CONSISTENT = 1024,   /* reads several items as of one publication */
    OKV_RESP_TRANSACTION = 2048,  /* with OKV_RESP_EXCLUSIVE: runs alone only after MULTI */
    OKV_RESP_VALUE = 4096,        /* its work grows with the values of its keys */
    OKV_RESP_OFFSET = 8192,       /* its third argument is an offset: a value may grow up to it */
    OKV_RESP_BIT_OFFSET = 16384,  /* the same in bits */
    OKV_RESP_WALK = 32768,        /* walks the whole table */
    OKV_RESP_CLIENTS = 65536,     /* looks at all clients */
    OKV_RESP_PREPARES = 131072,   /* is called with is_preparing before it runs alone */
    OKV_RESP_FIELDS = 262144,     /* its arguments are those of BITFIELD (proto/bitfield.h) */
    OKV_RESP_DESCRIBES = 524288,  /* replies about commands */
    OKV_RESP_DECIMALS = 1048576,  /* writes a number with decimals */
    OKV_RESP_SCRIPT = 2097152,    /* runs a script, alone if it has to */
    OKV_RESP_COUNTED = 4194304,   /* its second argument is the number of its keys, which follow */
};

/* Returns 0, OKV_RESP_GOES_ON, or OKV_EAGAIN as okv_resp_run(). */
typedef int okv_resp_function(struct okv_resp_call *call);

struct okv_resp_command {
    const char *name;                  /* in capitals; CLIENT|ID is the command CLIENT ID */
    okv_resp_function *run;            /* NULL: it has subcommands, and is none without */
    int arity;                         /* number of arguments, with the name; negative: the least */
    unsigned flags;                    /* of enum okv_resp_flag */
    int first_key, last_key, key_step; /* as COMMAND has them; 0: no keys */
    int value; /* index of the argument that becomes the value of the item; 0: none */
    const char *group, *summary; /* as COMMAND DOCS has them */
    /* As COMMAND has them; NULL: none. All but the notes are words. */
    const char *traits;      /* its flags, then with @ the ACL categories that no flag implies */
    const char *access;      /* what it does to its keys */
    const char *access_rest; /* the same to those behind the first; NULL: there is no difference */
    const char *notes;       /* about its keys */
    const char *tips;
    /* What a request without any of the words, or whose OKV_RESP_FIELDS only read, does to its
     * keys; NULL: there is no difference. */
    const char *access_without, *words;
};

struct okv_resp_command_table {
    const struct okv_resp_command *commands; /* sorted by name */
    unsigned count;
};

/* In either case; NULL: there is none. */
const struct okv_resp_command *okv_resp_command_find(const struct okv_resp_command_table *table,
                                                     const struct okv_resp_arg *name);
/* The command of a request; NULL: there is none. With an unknown subcommand it is the command
 * itself. */
const struct okv_resp_command *okv_resp_command_of(const struct okv_resp_command_table *table,
                                                   const struct okv_resp_arg *args, uint32_t count);
/* Whether the command takes `count` arguments; its name counts. */
static inline bool okv_resp_command_takes(const struct okv_resp_command *command, uint32_t count)
{
    return command->arity > 0 ? (int)count == command->arity : (int)count >= -command->arity;
}
/* Index of the last key of a request with `count` arguments. */
static inline int okv_resp_last_key(const struct okv_resp_command *command, uint32_t count)
{
    return command->last_key < 0 ? (int)count + command->last_key : command->last_key;
}
bool okv_resp_command_is_subcommand(const struct okv_resp_command *command);
/* Number of its subcommands, which follow it in the table. */
unsigned okv_resp_command_parts(const struct okv_resp_command_table *table,
                                const struct okv_resp_command *command);
/* Whether a request with `count` arguments, whose command this is, names a subcommand that there is
 * not. */
bool okv_resp_command_lacks_part(const struct okv_resp_command_table *table,
                                 const struct okv_resp_command *command, uint32_t count);

#endif
