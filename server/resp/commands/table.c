#include "server/resp/commands/commands.h"

#define READ OKV_RESP_READ
#define WRITE OKV_RESP_WRITE
#define ADMIN OKV_RESP_ADMIN
#define UNAUTHENTICATED OKV_RESP_UNAUTHENTICATED
#define EXCLUSIVE OKV_RESP_EXCLUSIVE
#define TRANSACTION OKV_RESP_TRANSACTION
#define UNQUEUED OKV_RESP_UNQUEUED
#define NO_MULTI OKV_RESP_NO_MULTI
#define CHANGE OKV_RESP_CHANGE
#define OWN_CHANGE OKV_RESP_OWN_CHANGE
#define TABLE OKV_RESP_TABLE
#define CONSISTENT OKV_RESP_CONSISTENT
#define VALUE OKV_RESP_VALUE
#define OFFSET OKV_RESP_OFFSET
#define BIT_OFFSET OKV_RESP_BIT_OFFSET
#define WALK OKV_RESP_WALK
#define CLIENTS OKV_RESP_CLIENTS
#define PREPARES OKV_RESP_PREPARES
#define DECIMALS OKV_RESP_DECIMALS

/* First key, last key, step, value. */
#define NO_KEYS 0, 0, 0, 0
#define ONE_KEY 1, 1, 1, 0
#define KEY_VALUE 1, 1, 1, 2
#define KEY_TIME_VALUE 1, 1, 1, 3
#define SECOND_KEY 2, 2, 1, 0
#define TWO_KEYS 1, 2, 1, 0
#define ALL_KEYS 1, -1, 1, 0
#define PAIRS 1, -1, 2, 0

/* Sorted by name, which lookups rely on. Subcommands follow their command. */
static const struct okv_resp_command commands[] = {
    {"APPEND", okv_resp_cmd_append, 3, WRITE | VALUE, ONE_KEY, "string", "Appends to a value"},
    {"AUTH", okv_resp_cmd_auth, -2, UNAUTHENTICATED | UNQUEUED | NO_MULTI, NO_KEYS, "connection",
     "Authenticates the client"},
    {"CLIENT", NULL, -2, 0, NO_KEYS, "connection", "Client connection commands"},
    {"CLIENT|GETNAME", okv_resp_cmd_client_getname, 2, 0, NO_KEYS, "connection",
     "Returns the name of the client"},
    {"CLIENT|ID", okv_resp_cmd_client_id, 2, 0, NO_KEYS, "connection",
     "Returns the id of the client"},
    {"CLIENT|INFO", okv_resp_cmd_client_info, 2, 0, NO_KEYS, "connection", "Describes the client"},
    {"CLIENT|KILL", okv_resp_cmd_client_kill, -3, ADMIN | CLIENTS, NO_KEYS, "connection",
     "Closes client connections"},
    {"CLIENT|LIST", okv_resp_cmd_client_list, -2, CLIENTS, NO_KEYS, "connection",
     "Lists client connections"},
    {"CLIENT|NO-EVICT", okv_resp_cmd_client_switch, 3, 0, NO_KEYS, "connection", "Does nothing"},
    {"CLIENT|NO-TOUCH", okv_resp_cmd_client_switch, 3, 0, NO_KEYS, "connection", "Does nothing"},
    {"CLIENT|REPLY", okv_resp_cmd_client_reply, 3, NO_MULTI, NO_KEYS, "connection",
     "Turns replies on or off"},
    {"CLIENT|SETINFO", okv_resp_cmd_client_setinfo, 4, 0, NO_KEYS, "connection",
     "Sets name and version of the client's library"},
    {"CLIENT|SETNAME", okv_resp_cmd_client_setname, 3, 0, NO_KEYS, "connection",
     "Sets the name of the client"},
    {"COMMAND", okv_resp_cmd_command, -1, 0, NO_KEYS, "server", "Lists the commands"},
    {"COMMAND|COUNT", okv_resp_cmd_command_count, 2, 0, NO_KEYS, "server", "Counts the commands"},
    {"COMMAND|DOCS", okv_resp_cmd_command_docs, -2, 0, NO_KEYS, "server", "Documents commands"},
    {"COMMAND|GETKEYS", okv_resp_cmd_command_getkeys, -3, 0, NO_KEYS, "server",
     "Extracts the keys of a command"},
    {"COMMAND|INFO", okv_resp_cmd_command_info, -2, 0, NO_KEYS, "server", "Describes commands"},
    {"CONFIG", NULL, -2, 0, NO_KEYS, "server", "Configuration commands"},
    {"CONFIG|GET", okv_resp_cmd_config_get, -3, ADMIN, NO_KEYS, "server", "Returns settings"},
    {"CONFIG|SET", okv_resp_cmd_config_set, -4, ADMIN, NO_KEYS, "server",
     "Always refused: set options of okv-server instead"},
    {"COPY", okv_resp_cmd_copy, -3, WRITE | EXCLUSIVE | OWN_CHANGE | VALUE | PREPARES, TWO_KEYS,
     "generic", "Copies a value to a key"},
    {"DBSIZE", okv_resp_cmd_dbsize, 1, READ | TABLE, NO_KEYS, "server",
     "Returns the number of keys"},
    {"DECR", okv_resp_cmd_decr, 2, WRITE, ONE_KEY, "string", "Subtracts 1 from a number"},
    {"DECRBY", okv_resp_cmd_decrby, 3, WRITE, ONE_KEY, "string", "Subtracts from a number"},
    {"DEL", okv_resp_cmd_del, -2, WRITE, ALL_KEYS, "generic", "Deletes keys"},
    {"DISCARD", okv_resp_cmd_discard, 1, UNQUEUED, NO_KEYS, "transactions",
     "Discards a transaction"},
    {"ECHO", okv_resp_cmd_echo, 2, 0, NO_KEYS, "connection", "Returns its argument"},
    {"EXEC", okv_resp_cmd_exec, 1, UNQUEUED | EXCLUSIVE | TRANSACTION | CHANGE, NO_KEYS,
     "transactions", "Runs a transaction"},
    {"EXISTS", okv_resp_cmd_exists, -2, READ | CONSISTENT, ALL_KEYS, "generic",
     "Counts existing keys"},
    {"EXPIRE", okv_resp_cmd_expire, -3, WRITE | VALUE, ONE_KEY, "generic",
     "Sets a time to live in seconds"},
    {"EXPIREAT", okv_resp_cmd_expireat, -3, WRITE | VALUE, ONE_KEY, "generic",
     "Sets the expiry of a key as Unix time in seconds"},
    {"EXPIRETIME", okv_resp_cmd_expiretime, 2, READ, ONE_KEY, "generic",
     "Returns the expiry of a key as Unix time in seconds"},
    {"FLUSHALL", okv_resp_cmd_flushall, -1, ADMIN | NO_MULTI, NO_KEYS, "server",
     "Removes all keys of all databases"},
    {"FLUSHDB", okv_resp_cmd_flushdb, -1, ADMIN | NO_MULTI, NO_KEYS, "server",
     "Removes all keys of the database"},
    {"GET", okv_resp_cmd_get, 2, READ | VALUE, ONE_KEY, "string", "Returns a value"},
    {"GETBIT", okv_resp_cmd_getbit, 3, READ, ONE_KEY, "bitmap", "Returns a bit of a value"},
    {"GETDEL", okv_resp_cmd_getdel, 2, WRITE | VALUE, ONE_KEY, "string",
     "Returns a value, and deletes its key"},
    {"GETEX", okv_resp_cmd_getex, -2, WRITE | VALUE, ONE_KEY, "string",
     "Returns a value, and sets its expiry"},
    {"GETRANGE", okv_resp_cmd_getrange, 4, READ | VALUE, ONE_KEY, "string",
     "Returns part of a value"},
    {"GETSET", okv_resp_cmd_getset, 3, WRITE | VALUE, KEY_VALUE, "string",
     "Sets a value, and returns the old one"},
    {"HELLO", okv_resp_cmd_hello, -1, UNAUTHENTICATED | UNQUEUED | NO_MULTI, NO_KEYS, "connection",
     "Selects the protocol version, and may authenticate the client"},
    {"INCR", okv_resp_cmd_incr, 2, WRITE, ONE_KEY, "string", "Adds 1 to a number"},
    {"INCRBY", okv_resp_cmd_incrby, 3, WRITE, ONE_KEY, "string", "Adds to a number"},
    {"INCRBYFLOAT", okv_resp_cmd_incrbyfloat, 3, WRITE | DECIMALS, ONE_KEY, "string",
     "Adds to a floating-point number"},
    {"INFO", okv_resp_cmd_info, -1, READ | CLIENTS, NO_KEYS, "server", "Describes the server"},
    {"KEYS", okv_resp_cmd_keys, 2, READ | TABLE | WALK, NO_KEYS, "generic",
     "Lists keys that match a pattern"},
    {"LATENCY", NULL, -2, 0, NO_KEYS, "server", "Latency commands"},
    {"LATENCY|HISTORY", okv_resp_cmd_empty_list, 3, ADMIN, NO_KEYS, "server", "Lists nothing"},
    {"LATENCY|LATEST", okv_resp_cmd_empty_list, 2, ADMIN, NO_KEYS, "server", "Lists nothing"},
    {"LATENCY|RESET", okv_resp_cmd_zero, -2, ADMIN, NO_KEYS, "server", "Does nothing"},
    {"MEMORY", NULL, -2, 0, NO_KEYS, "server", "Memory commands"},
    {"MEMORY|USAGE", okv_resp_cmd_memory_usage, -3, READ, SECOND_KEY, "server",
     "Returns the size of an item in bytes"},
    {"MGET", okv_resp_cmd_mget, -2, READ | CONSISTENT | VALUE, ALL_KEYS, "string",
     "Returns values"},
    {"MOVE", okv_resp_cmd_move, 3, WRITE | EXCLUSIVE | OWN_CHANGE | NO_MULTI | VALUE | PREPARES,
     ONE_KEY, "generic", "Moves a key to another database"},
    {"MSET", okv_resp_cmd_mset, -3, WRITE | EXCLUSIVE, PAIRS, "string", "Sets values"},
    {"MSETNX", okv_resp_cmd_msetnx, -3, WRITE | EXCLUSIVE, PAIRS, "string",
     "Sets values if none of the keys exists"},
    {"MULTI", okv_resp_cmd_multi, 1, UNQUEUED, NO_KEYS, "transactions", "Begins a transaction"},
    {"OBJECT", NULL, -2, 0, NO_KEYS, "generic", "Commands about stored values"},
    {"OBJECT|ENCODING", okv_resp_cmd_object_encoding, 3, READ, SECOND_KEY, "generic",
     "Returns the encoding that Redis would use for a value"},
    {"OBJECT|REFCOUNT", okv_resp_cmd_object_refcount, 3, READ, SECOND_KEY, "generic",
     "Returns 1 for an existing key"},
    {"PERSIST", okv_resp_cmd_persist, 2, WRITE | VALUE, ONE_KEY, "generic",
     "Removes the expiry of a key"},
    {"PEXPIRE", okv_resp_cmd_pexpire, -3, WRITE | VALUE, ONE_KEY, "generic",
     "Sets a time to live in milliseconds"},
    {"PEXPIREAT", okv_resp_cmd_pexpireat, -3, WRITE | VALUE, ONE_KEY, "generic",
     "Sets the expiry of a key as Unix time in milliseconds"},
    {"PEXPIRETIME", okv_resp_cmd_pexpiretime, 2, READ, ONE_KEY, "generic",
     "Returns the expiry of a key as Unix time in milliseconds"},
    {"PING", okv_resp_cmd_ping, -1, 0, NO_KEYS, "connection", "Tests the connection"},
    {"PSETEX", okv_resp_cmd_psetex, 4, WRITE, KEY_TIME_VALUE, "string",
     "Sets a value with a time to live in milliseconds"},
    {"PTTL", okv_resp_cmd_pttl, 2, READ, ONE_KEY, "generic",
     "Returns the time to live in milliseconds"},
    {"QUIT", okv_resp_cmd_quit, -1, UNAUTHENTICATED | UNQUEUED, NO_KEYS, "connection",
     "Closes the connection"},
    {"RANDOMKEY", okv_resp_cmd_randomkey, 1, READ | TABLE, NO_KEYS, "generic",
     "Returns a random key"},
    {"RENAME", okv_resp_cmd_rename, 3, WRITE | EXCLUSIVE | VALUE | PREPARES, TWO_KEYS, "generic",
     "Renames a key"},
    {"RENAMENX", okv_resp_cmd_renamenx, 3, WRITE | EXCLUSIVE | VALUE | PREPARES, TWO_KEYS,
     "generic", "Renames a key if the new one does not exist"},
    {"RESET", okv_resp_cmd_reset, 1, UNAUTHENTICATED | UNQUEUED, NO_KEYS, "connection",
     "Resets the connection to its initial state"},
    {"ROLE", okv_resp_cmd_role, 1, READ, NO_KEYS, "server",
     "Returns the role of the server: master without replicas"},
    {"SCAN", okv_resp_cmd_scan, -2, READ | TABLE, NO_KEYS, "generic", "Lists keys in steps"},
    {"SELECT", okv_resp_cmd_select, 2, NO_MULTI, NO_KEYS, "connection", "Selects a database"},
    {"SET", okv_resp_cmd_set, -3, WRITE, KEY_VALUE, "string", "Sets a value"},
    {"SETBIT", okv_resp_cmd_setbit, 4, WRITE | VALUE | BIT_OFFSET, ONE_KEY, "bitmap",
     "Sets a bit of a value"},
    {"SETEX", okv_resp_cmd_setex, 4, WRITE, KEY_TIME_VALUE, "string",
     "Sets a value with a time to live in seconds"},
    {"SETNX", okv_resp_cmd_setnx, 3, WRITE, KEY_VALUE, "string",
     "Sets a value if the key does not exist"},
    {"SETRANGE", okv_resp_cmd_setrange, 4, WRITE | VALUE | OFFSET, ONE_KEY, "string",
     "Overwrites part of a value"},
    {"SLOWLOG", NULL, -2, 0, NO_KEYS, "server", "Slow log commands"},
    {"SLOWLOG|GET", okv_resp_cmd_slowlog_get, -2, ADMIN, NO_KEYS, "server", "Lists nothing"},
    {"SLOWLOG|LEN", okv_resp_cmd_zero, 2, ADMIN, NO_KEYS, "server", "Returns 0"},
    {"SLOWLOG|RESET", okv_resp_cmd_nothing, 2, ADMIN, NO_KEYS, "server", "Does nothing"},
    {"STRLEN", okv_resp_cmd_strlen, 2, READ, ONE_KEY, "string", "Returns the length of a value"},
    {"SUBSTR", okv_resp_cmd_getrange, 4, READ | VALUE, ONE_KEY, "string",
     "Returns part of a value"},
    {"TIME", okv_resp_cmd_time, 1, 0, NO_KEYS, "server", "Returns the time of the server"},
    {"TOUCH", okv_resp_cmd_exists, -2, READ | CONSISTENT, ALL_KEYS, "generic",
     "Counts existing keys"},
    {"TTL", okv_resp_cmd_ttl, 2, READ, ONE_KEY, "generic", "Returns the time to live in seconds"},
    {"TYPE", okv_resp_cmd_type, 2, READ, ONE_KEY, "generic", "Returns the type of a value"},
    {"UNLINK", okv_resp_cmd_del, -2, WRITE, ALL_KEYS, "generic", "Deletes keys"},
    {"UNWATCH", okv_resp_cmd_unwatch, 1, 0, NO_KEYS, "transactions", "Stops watching keys"},
    {"WATCH", okv_resp_cmd_watch, -2, READ | UNQUEUED, ALL_KEYS, "transactions",
     "Watches keys: EXEC does nothing if one changes"},
};

const struct okv_resp_command_table okv_resp_commands = {commands,
                                                         sizeof commands / sizeof *commands};
