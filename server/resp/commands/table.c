#include "server/resp/commands/commands.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define READ OKV_RESP_READ
#define WRITE OKV_RESP_WRITE
#define ADMIN OKV_RESP_ADMIN
#define UNAUTHENTICATED OKV_RESP_UNAUTHENTICATED
#define EXCLUSIVE OKV_RESP_EXCLUSIVE
#define UNQUEUED OKV_RESP_UNQUEUED
#define NO_MULTI OKV_RESP_NO_MULTI
#define GATE OKV_RESP_GATE
#define OWN_GATE OKV_RESP_OWN_GATE
#define WALK OKV_RESP_WALK
#define KEYS OKV_RESP_KEYS

/* First key, last key, step, value. */
#define NO_KEYS 0, 0, 0, 0
#define ONE_KEY 1, 1, 1, 0
#define KEY_VALUE 1, 1, 1, 2
#define KEY_TIME_VALUE 1, 1, 1, 3
#define KEY_BEHIND 2, 2, 1, 0
#define TWO_KEYS 1, 2, 1, 0
#define ALL_KEYS 1, -1, 1, 0
#define PAIRS 1, -1, 2, 0

/* In the order of their names. What has the name of another one behind it is that one's subcommand.
 */
static const struct okv_resp_command commands[] = {
    {"APPEND", okv_resp_run_append, 3, WRITE, ONE_KEY, "string", "Appends to a value"},
    {"AUTH", okv_resp_run_auth, -2, UNAUTHENTICATED | UNQUEUED, NO_KEYS, "connection",
     "Says who the client is"},
    {"CLIENT", NULL, -2, 0, NO_KEYS, "connection", "Has to do with clients"},
    {"CLIENT|GETNAME", okv_resp_run_client_getname, 2, 0, NO_KEYS, "connection",
     "Tells the client's name"},
    {"CLIENT|ID", okv_resp_run_client_id, 2, 0, NO_KEYS, "connection", "Tells the client's number"},
    {"CLIENT|INFO", okv_resp_run_client_info, 2, 0, NO_KEYS, "connection", "Tells of the client"},
    {"CLIENT|KILL", okv_resp_run_client_kill, -3, ADMIN, NO_KEYS, "connection", "Ends clients"},
    {"CLIENT|LIST", okv_resp_run_client_list, -2, 0, NO_KEYS, "connection", "Tells of clients"},
    {"CLIENT|NO-EVICT", okv_resp_run_nothing, 3, 0, NO_KEYS, "connection", "Does nothing"},
    {"CLIENT|NO-TOUCH", okv_resp_run_nothing, 3, 0, NO_KEYS, "connection", "Does nothing"},
    {"CLIENT|REPLY", okv_resp_run_client_reply, 3, NO_MULTI, NO_KEYS, "connection",
     "Leaves replies out"},
    {"CLIENT|SETINFO", okv_resp_run_nothing, 4, 0, NO_KEYS, "connection", "Does nothing"},
    {"CLIENT|SETNAME", okv_resp_run_client_setname, 3, 0, NO_KEYS, "connection",
     "Names the client"},
    {"COMMAND", okv_resp_run_command, -1, 0, NO_KEYS, "server", "Lists the commands"},
    {"COMMAND|COUNT", okv_resp_run_command_count, 2, 0, NO_KEYS, "server", "Counts the commands"},
    {"COMMAND|DOCS", okv_resp_run_command_docs, -2, 0, NO_KEYS, "server", "Explains commands"},
    {"COMMAND|GETKEYS", okv_resp_run_command_getkeys, -3, 0, NO_KEYS, "server",
     "Lists the keys of a command"},
    {"COMMAND|INFO", okv_resp_run_command_info, -2, 0, NO_KEYS, "server", "Lists some commands"},
    {"CONFIG", NULL, -2, 0, NO_KEYS, "server", "Has to do with settings"},
    {"CONFIG|GET", okv_resp_run_config_get, -3, ADMIN, NO_KEYS, "server", "Shows settings"},
    {"CONFIG|SET", okv_resp_run_config_set, -4, ADMIN, NO_KEYS, "server", "Changes nothing"},
    {"COPY", okv_resp_run_copy, -3, WRITE | EXCLUSIVE | OWN_GATE, TWO_KEYS, "generic",
     "Copies a value to a key"},
    {"DBSIZE", okv_resp_run_dbsize, 1, READ | WALK, NO_KEYS, "server",
     "Tells how many keys there are"},
    {"DECR", okv_resp_run_decr, 2, WRITE, ONE_KEY, "string", "Subtracts 1 from a number"},
    {"DECRBY", okv_resp_run_decrby, 3, WRITE, ONE_KEY, "string", "Subtracts from a number"},
    {"DEL", okv_resp_run_del, -2, WRITE, ALL_KEYS, "generic", "Deletes keys"},
    {"DISCARD", okv_resp_run_discard, 1, UNQUEUED, NO_KEYS, "transactions",
     "Forgets a transaction"},
    {"ECHO", okv_resp_run_echo, 2, 0, NO_KEYS, "connection", "Replies with its argument"},
    {"EXEC", okv_resp_run_exec, 1, UNQUEUED | EXCLUSIVE | GATE, NO_KEYS, "transactions",
     "Runs a transaction"},
    {"EXISTS", okv_resp_run_exists, -2, READ | KEYS, ALL_KEYS, "generic",
     "Counts the keys that exist"},
    {"EXPIRE", okv_resp_run_expire, -3, WRITE, ONE_KEY, "generic", "Sets a time to live in s"},
    {"EXPIREAT", okv_resp_run_expireat, -3, WRITE, ONE_KEY, "generic",
     "Sets when a key expires, in s"},
    {"EXPIRETIME", okv_resp_run_expiretime, 2, READ, ONE_KEY, "generic",
     "Tells when a key expires, in s"},
    {"FLUSHALL", okv_resp_run_flushall, -1, ADMIN | NO_MULTI, NO_KEYS, "server",
     "Empties all databases"},
    {"FLUSHDB", okv_resp_run_flushdb, -1, ADMIN | NO_MULTI, NO_KEYS, "server",
     "Empties the database"},
    {"GET", okv_resp_run_get, 2, READ, ONE_KEY, "string", "Replies with a value"},
    {"GETBIT", okv_resp_run_getbit, 3, READ, ONE_KEY, "bitmap", "Replies with a bit of a value"},
    {"GETDEL", okv_resp_run_getdel, 2, WRITE, ONE_KEY, "string",
     "Deletes a key, and replies with its value"},
    {"GETEX", okv_resp_run_getex, -2, WRITE, ONE_KEY, "string",
     "Replies with a value, and sets when it expires"},
    {"GETRANGE", okv_resp_run_getrange, 4, READ, ONE_KEY, "string",
     "Replies with a part of a value"},
    {"GETSET", okv_resp_run_getset, 3, WRITE, KEY_VALUE, "string",
     "Sets a value, and replies with the one before"},
    {"HELLO", okv_resp_run_hello, -1, UNAUTHENTICATED | UNQUEUED | NO_MULTI, NO_KEYS, "connection",
     "Chooses the protocol"},
    {"INCR", okv_resp_run_incr, 2, WRITE, ONE_KEY, "string", "Adds 1 to a number"},
    {"INCRBY", okv_resp_run_incrby, 3, WRITE, ONE_KEY, "string", "Adds to a number"},
    {"INCRBYFLOAT", okv_resp_run_incrbyfloat, 3, WRITE, ONE_KEY, "string",
     "Adds to a decimal number"},
    {"INFO", okv_resp_run_info, -1, READ, NO_KEYS, "server", "Tells of the server"},
    {"KEYS", okv_resp_run_keys, 2, READ | WALK, NO_KEYS, "generic", "Lists the keys of a pattern"},
    {"LATENCY", NULL, -2, 0, NO_KEYS, "server", "Has to do with what is slow"},
    {"LATENCY|HISTORY", okv_resp_run_empty_list, 3, ADMIN, NO_KEYS, "server", "Lists nothing"},
    {"LATENCY|LATEST", okv_resp_run_empty_list, 2, ADMIN, NO_KEYS, "server", "Lists nothing"},
    {"LATENCY|RESET", okv_resp_run_zero, -2, ADMIN, NO_KEYS, "server", "Does nothing"},
    {"MEMORY", NULL, -2, 0, NO_KEYS, "server", "Has to do with memory"},
    {"MEMORY|USAGE", okv_resp_run_memory_usage, -3, READ, KEY_BEHIND, "server",
     "Tells the bytes of an item"},
    {"MGET", okv_resp_run_mget, -2, READ | KEYS, ALL_KEYS, "string", "Replies with values"},
    {"MOVE", okv_resp_run_move, 3, WRITE | EXCLUSIVE | OWN_GATE | NO_MULTI, ONE_KEY, "generic",
     "Moves a key to another database"},
    {"MSET", okv_resp_run_mset, -3, WRITE | EXCLUSIVE, PAIRS, "string", "Sets values"},
    {"MSETNX", okv_resp_run_msetnx, -3, WRITE | EXCLUSIVE, PAIRS, "string",
     "Sets values if none of the keys exists"},
    {"MULTI", okv_resp_run_multi, 1, UNQUEUED, NO_KEYS, "transactions", "Begins a transaction"},
    {"OBJECT", NULL, -2, 0, NO_KEYS, "generic", "Has to do with how a value is kept"},
    {"OBJECT|ENCODING", okv_resp_run_object_encoding, 3, READ, KEY_BEHIND, "generic",
     "Tells how Redis would keep a value"},
    {"OBJECT|REFCOUNT", okv_resp_run_object_refcount, 3, READ, KEY_BEHIND, "generic",
     "Tells 1 of what exists"},
    {"PERSIST", okv_resp_run_persist, 2, WRITE, ONE_KEY, "generic", "Lets a key live for ever"},
    {"PEXPIRE", okv_resp_run_pexpire, -3, WRITE, ONE_KEY, "generic", "Sets a time to live in ms"},
    {"PEXPIREAT", okv_resp_run_pexpireat, -3, WRITE, ONE_KEY, "generic",
     "Sets when a key expires, in ms"},
    {"PEXPIRETIME", okv_resp_run_pexpiretime, 2, READ, ONE_KEY, "generic",
     "Tells when a key expires, in ms"},
    {"PING", okv_resp_run_ping, -1, 0, NO_KEYS, "connection", "Replies"},
    {"PSETEX", okv_resp_run_psetex, 4, WRITE, KEY_TIME_VALUE, "string",
     "Sets a value with a time to live in ms"},
    {"PTTL", okv_resp_run_pttl, 2, READ, ONE_KEY, "generic", "Tells the time to live in ms"},
    {"QUIT", okv_resp_run_quit, -1, UNAUTHENTICATED | UNQUEUED, NO_KEYS, "connection",
     "Ends the connection"},
    {"RANDOMKEY", okv_resp_run_randomkey, 1, READ | WALK, NO_KEYS, "generic",
     "Replies with some key"},
    {"RENAME", okv_resp_run_rename, 3, WRITE | EXCLUSIVE, TWO_KEYS, "generic", "Renames a key"},
    {"RENAMENX", okv_resp_run_renamenx, 3, WRITE | EXCLUSIVE, TWO_KEYS, "generic",
     "Renames a key if the new one does not exist"},
    {"RESET", okv_resp_run_reset, 1, UNAUTHENTICATED | UNQUEUED, NO_KEYS, "connection",
     "Makes the connection as it began"},
    {"ROLE", okv_resp_run_role, 1, READ, NO_KEYS, "server", "Tells that there are no replicas"},
    {"SCAN", okv_resp_run_scan, -2, READ | WALK, NO_KEYS, "generic", "Lists some keys"},
    {"SELECT", okv_resp_run_select, 2, NO_MULTI, NO_KEYS, "connection", "Chooses a database"},
    {"SET", okv_resp_run_set, -3, WRITE, KEY_VALUE, "string", "Sets a value"},
    {"SETBIT", okv_resp_run_setbit, 4, WRITE, ONE_KEY, "bitmap", "Sets a bit of a value"},
    {"SETEX", okv_resp_run_setex, 4, WRITE, KEY_TIME_VALUE, "string",
     "Sets a value with a time to live in s"},
    {"SETNX", okv_resp_run_setnx, 3, WRITE, KEY_VALUE, "string",
     "Sets a value if the key does not exist"},
    {"SETRANGE", okv_resp_run_setrange, 4, WRITE, ONE_KEY, "string",
     "Overwrites a part of a value"},
    {"SLOWLOG", NULL, -2, 0, NO_KEYS, "server", "Has to do with slow commands"},
    {"SLOWLOG|GET", okv_resp_run_empty_list, -2, ADMIN, NO_KEYS, "server", "Lists nothing"},
    {"SLOWLOG|LEN", okv_resp_run_zero, 2, ADMIN, NO_KEYS, "server", "Tells 0"},
    {"SLOWLOG|RESET", okv_resp_run_nothing, 2, ADMIN, NO_KEYS, "server", "Does nothing"},
    {"STRLEN", okv_resp_run_strlen, 2, READ, ONE_KEY, "string", "Tells the length of a value"},
    {"SUBSTR", okv_resp_run_getrange, 4, READ, ONE_KEY, "string", "Replies with a part of a value"},
    {"TIME", okv_resp_run_time, 1, 0, NO_KEYS, "server", "Tells the time"},
    {"TOUCH", okv_resp_run_exists, -2, READ | KEYS, ALL_KEYS, "generic",
     "Counts the keys that exist"},
    {"TTL", okv_resp_run_ttl, 2, READ, ONE_KEY, "generic", "Tells the time to live in s"},
    {"TYPE", okv_resp_run_type, 2, READ, ONE_KEY, "generic", "Tells the type of a value"},
    {"UNLINK", okv_resp_run_del, -2, WRITE, ALL_KEYS, "generic", "Deletes keys"},
    {"UNWATCH", okv_resp_run_unwatch, 1, 0, NO_KEYS, "transactions", "Forgets watched keys"},
    {"WATCH", okv_resp_run_watch, -2, READ | UNQUEUED, ALL_KEYS, "transactions",
     "Has EXEC do nothing if keys change"},
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

/* Letters of a word, as capitals, against a name. */
static int compare(const struct okv_resp_arg *word, const char *name)
{
    for (uint32_t i = 0; i < word->length; i++) {
        int difference = toupper(word->text[i]) - name[i];
        if (difference || name[i] == '\0')
            return difference ? difference : 1;
    }
    return name[word->length] ? -1 : 0;
}

#define SUBCOMMAND '|' /* behind it in a name */

bool okv_resp_command_is_part(const struct okv_resp_command *command)
{
    return strchr(command->name, SUBCOMMAND) != NULL;
}

const struct okv_resp_command *okv_resp_command_find(const struct okv_resp_arg *name)
{
    size_t first = 0, end = COMMAND_COUNT;

    while (first < end) {
        size_t middle = (first + end) / 2;
        int order = compare(name, commands[middle].name);
        if (order == 0)
            return &commands[middle];
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    return NULL;
}

const struct okv_resp_command *okv_resp_command_of(const struct okv_resp_arg *args, uint32_t count)
{
    const struct okv_resp_command *command = okv_resp_command_find(&args[0]);
    char name[32];

    if (!command || okv_resp_command_is_part(command))
        return NULL;
    if (count < 2 || command + 1 == commands + COMMAND_COUNT ||
        !okv_resp_command_is_part(command + 1) || args[1].length > sizeof name / 2)
        return command;
    int length = snprintf(name, sizeof name, "%s%c%.*s", command->name, SUBCOMMAND,
                          (int)args[1].length, (const char *)args[1].text);
    const struct okv_resp_arg arg = {(const uint8_t *)name, (uint32_t)length};
    const struct okv_resp_command *part = okv_resp_command_find(&arg);
    return part ? part : command;
}

const struct okv_resp_command *okv_resp_command_at(unsigned index)
{
    return index < COMMAND_COUNT ? &commands[index] : NULL;
}
