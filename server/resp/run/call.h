/* One command of a client: who may give it, under which locks it runs, and what it may wait for. */
#ifndef OKV_SERVER_RESP_RUN_CALL_H
#define OKV_SERVER_RESP_RUN_CALL_H

#include "server/resp/proto/reply.h"
#include "server/resp/run/client.h"

struct okv_resp_command;

struct okv_resp_call {
    struct okv_resp_client *client;
    const struct okv_resp_command *command;
    const struct okv_resp_arg *args; /* args[0] is its name */
    uint32_t count;
    struct okv_resp_reply reply;
    const struct okv_executor *executor; /* of the client's database */
    bool may_have_download; /* its one reply may end with a long value (long_value.h) */
    bool is_in_gate;        /* of the log: changes may be made, and reads see them */
    bool is_part;           /* of several changes; okv_store_write */
    bool has_changed;       /* something, so that it cannot begin again */
    void *user;             /* of a part that okv_resp_in_gate() runs */
};

/*
 * Runs a command, or queues it behind MULTI, and adds one reply to client->out. The caller shares
 * the lock of exclusive commands. OKV_EAGAIN: nothing was replied; call it again later with the
 * same arguments. A DEL, a MOVE or a flush that has begun goes on then.
 */
int okv_resp_call(struct okv_resp_client *client, const struct okv_resp_arg *args, uint32_t count);

/* Runs a command without looking at MULTI and locks: for EXEC. */
int okv_resp_execute(struct okv_resp_call *call);

/* Runs a part of a command within the gate of a database's log, if it has one, and on that
 * database. OKV_EAGAIN, or what `run` returns. */
int okv_resp_in_gate(struct okv_resp_call *call, unsigned database,
                     int (*run)(struct okv_resp_call *call));

/* Bytes that records of the log have for these arguments, at most. */
uint64_t okv_resp_log_bytes(const struct okv_resp_arg *args, uint32_t count);

/* Replies that the number of arguments is wrong. Returns 0. */
int okv_resp_refuse_count(struct okv_resp_call *call);
/* Replies that the command has no such subcommand. Returns 0. */
int okv_resp_refuse_part(struct okv_resp_call *call);

/* Whether the client's user has this right, of enum okv_right, in its database. */
bool okv_resp_may(const struct okv_resp_client *client, unsigned database, unsigned right);

#endif
