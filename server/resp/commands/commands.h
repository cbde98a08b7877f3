/* The commands that okv has of Redis': docs/resp.md section 4. */
#ifndef OKV_SERVER_RESP_COMMANDS_COMMANDS_H
#define OKV_SERVER_RESP_COMMANDS_COMMANDS_H

#include "server/resp/run/call.h"
#include "server/resp/run/command.h"

extern const struct okv_resp_command_table okv_resp_commands;

struct okv_database;

/* Whether it may be the name of a client. False: an error was replied. */
bool okv_resp_need_name(struct okv_resp_call *call, const struct okv_resp_arg *name);

/* bit_range.c */
okv_resp_function okv_resp_cmd_bitcount, okv_resp_cmd_bitpos;
/* bitfield.c */
okv_resp_function okv_resp_cmd_bitfield, okv_resp_cmd_bitfield_ro;
/* bitmap.c */
okv_resp_function okv_resp_cmd_getbit, okv_resp_cmd_setbit;
/* bitop.c */
okv_resp_function okv_resp_cmd_bitop;
/* client.c */
okv_resp_function okv_resp_cmd_client_id, okv_resp_cmd_client_setname, okv_resp_cmd_client_getname,
    okv_resp_cmd_client_reply, okv_resp_cmd_client_info, okv_resp_cmd_client_list,
    okv_resp_cmd_client_kill, okv_resp_cmd_client_setinfo, okv_resp_cmd_client_no_evict,
    okv_resp_cmd_client_no_touch;
/* command.c */
okv_resp_function okv_resp_cmd_command, okv_resp_cmd_command_count, okv_resp_cmd_command_docs,
    okv_resp_cmd_command_getkeys, okv_resp_cmd_command_getkeysandflags, okv_resp_cmd_command_list,
    okv_resp_cmd_help;
/* config.c */
okv_resp_function okv_resp_cmd_config_get, okv_resp_cmd_config_set;
/* connection.c */
okv_resp_function okv_resp_cmd_ping, okv_resp_cmd_echo, okv_resp_cmd_quit, okv_resp_cmd_auth,
    okv_resp_cmd_hello, okv_resp_cmd_select, okv_resp_cmd_reset, okv_resp_cmd_whoami,
    okv_resp_cmd_readonly, okv_resp_cmd_readwrite;
/* expire.c */
okv_resp_function okv_resp_cmd_expire, okv_resp_cmd_pexpire, okv_resp_cmd_expireat,
    okv_resp_cmd_pexpireat, okv_resp_cmd_persist, okv_resp_cmd_ttl, okv_resp_cmd_pttl,
    okv_resp_cmd_expiretime, okv_resp_cmd_pexpiretime;
/* generic.c */
okv_resp_function okv_resp_cmd_del, okv_resp_cmd_exists, okv_resp_cmd_touch, okv_resp_cmd_type,
    okv_resp_cmd_rename, okv_resp_cmd_renamenx, okv_resp_cmd_copy, okv_resp_cmd_move,
    okv_resp_prepare_rename, okv_resp_prepare_copy, okv_resp_prepare_move,
    okv_resp_cmd_memory_usage, okv_resp_cmd_object_encoding, okv_resp_cmd_object_freq,
    okv_resp_cmd_object_refcount;
/* info.c */
okv_resp_function okv_resp_cmd_info;
/* number.c */
okv_resp_function okv_resp_cmd_incr, okv_resp_cmd_decr, okv_resp_cmd_incrby, okv_resp_cmd_decrby,
    okv_resp_cmd_incrbyfloat;
/* range.c */
okv_resp_function okv_resp_cmd_getrange, okv_resp_cmd_append, okv_resp_cmd_setrange;
/* save.c */
okv_resp_function okv_resp_cmd_save, okv_resp_cmd_bgsave, okv_resp_cmd_lastsave;
/* When the newest snapshot of a database was made, as Unix time in ms; 0: it has none. */
uint64_t okv_resp_saved_ms(const struct okv_database *database);
/* scan.c */
okv_resp_function okv_resp_cmd_keys, okv_resp_cmd_scan, okv_resp_cmd_randomkey;
/* script.c */
okv_resp_function okv_resp_cmd_eval, okv_resp_cmd_eval_ro, okv_resp_cmd_evalsha,
    okv_resp_cmd_evalsha_ro, okv_resp_cmd_script_exists, okv_resp_cmd_script_flush,
    okv_resp_cmd_script_kill, okv_resp_cmd_script_load;
/* server.c */
okv_resp_function okv_resp_cmd_dbsize, okv_resp_cmd_time, okv_resp_cmd_role,
    okv_resp_cmd_slowlog_get, okv_resp_cmd_empty_list, okv_resp_cmd_zero, okv_resp_cmd_nothing,
    okv_resp_cmd_flushdb, okv_resp_cmd_flushall, okv_resp_cmd_wait;
/* shutdown.c */
okv_resp_function okv_resp_cmd_shutdown;
/* string.c */
okv_resp_function okv_resp_cmd_get, okv_resp_cmd_mget, okv_resp_cmd_strlen, okv_resp_cmd_set,
    okv_resp_cmd_setex, okv_resp_cmd_psetex, okv_resp_cmd_setnx, okv_resp_cmd_getset,
    okv_resp_cmd_getdel, okv_resp_cmd_getex, okv_resp_cmd_mset, okv_resp_cmd_msetnx;
/* transaction.c */
okv_resp_function okv_resp_cmd_discard, okv_resp_cmd_exec, okv_resp_cmd_multi, okv_resp_cmd_unwatch,
    okv_resp_cmd_watch;

#endif
