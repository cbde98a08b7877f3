/* One invocation of a command, and what all commands do with it. */
#ifndef OKV_SERVER_RESP_RUN_CALL_H
#define OKV_SERVER_RESP_RUN_CALL_H

#include "server/resp/proto/reply.h"
#include "server/resp/run/client.h"

struct okv_resp_command;
struct okv_resp_staging;

struct okv_resp_call {
    struct okv_resp_client *client;
    const struct okv_resp_command *command;
    const struct okv_resp_arg *args; /* args[0] is its name */
    uint32_t count;
    struct okv_resp_reply reply;
    size_t reply_start;                  /* in reply.out */
    size_t counted;                      /* the same: bytes from here on are no work yet */
    const struct okv_executor *executor; /* of the client's database */
    bool may_have_download;              /* the reply may end with a long value (long_value.h) */
    bool is_in_change; /* of a durable database: reads see what is not published yet */
    bool is_part;      /* of several changes: okv_store_modify() */
    bool is_preparing; /* others are served meanwhile, and nothing is to be changed */
    bool has_changed;  /* something, so that it cannot begin again */
    bool is_refused;   /* the user may not run it */
    uint64_t price;    /* work of a command of EXEC, as it was queued (price.h) */
    uint64_t room;     /* bytes that such a command may write */
    uint64_t spare;    /* work that a command which runs alone may do beyond its price */
    void *user;        /* of a part that okv_resp_in_change() runs */
    struct okv_resp_staging
        *staging; /* of a script, which changes nothing before its end; or NULL */
};

/* Whether the client's user has this right, of enum okv_right, in a database. */
bool okv_resp_may(const struct okv_resp_client *client, unsigned database, unsigned right);
/* Whether it has any. Otherwise no reply may say that the database is there. */
bool okv_resp_sees(const struct okv_resp_client *client, unsigned database);
/* What Redis calls that which the client's database does when it is full. */
const char *okv_resp_policy_of(const struct okv_resp_client *client);
/* Whether it has the right `admin` in every database. */
bool okv_resp_is_admin_of_all(const struct okv_resp_client *client);
/* Whether it has the rights that the command needs. */
bool okv_resp_call_may(const struct okv_resp_call *call);
/* The same; counts a refusal. */
bool okv_resp_call_is_allowed(const struct okv_resp_call *call);

/* Work that the store has done for the worker since the last call. */
uint64_t okv_resp_take_work(const struct okv_resp *resp);
/* What the store does from now on is done for this client; nobody pays for what it did before. */
void okv_resp_begin_work(struct okv_resp_client *client);
/* Whether a command goes on in its next turn. Not while it runs alone: then it ends in this one. */
bool okv_resp_has_to_pause(struct okv_resp_call *call);
/* Replies with an argument, in steps. Returns 0 or OKV_RESP_GOES_ON. */
int okv_resp_bulk_in_steps(struct okv_resp_call *call, const struct okv_resp_arg *arg);
/* Runs the command if the user may, without looking at MULTI and locks. Counts its work. */
int okv_resp_execute(struct okv_resp_call *call);

/* Runs a part of a command in a change scope of a database, and on that database. Its reply waits
 * for the commit. OKV_EAGAIN: the log takes no change at the moment, or an earlier reply waits for
 * another one; else what `run` returns. */
int okv_resp_in_change(struct okv_resp_call *call, unsigned database,
                       int (*run)(struct okv_resp_call *call));

/* ---- replies with an error ---- */

void okv_resp_refuse_right(struct okv_resp_call *call);
/* Of commands of the whole server. False: the user is not admin of all databases. */
bool okv_resp_need_all(struct okv_resp_call *call);
/* Wrong number of arguments. Returns 0. */
int okv_resp_refuse_count(struct okv_resp_call *call);
/* Unknown subcommand. Returns 0. */
int okv_resp_refuse_subcommand(struct okv_resp_call *call);

#endif
