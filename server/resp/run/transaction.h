/* The transaction of a client: commands that MULTI queues, and keys that WATCH watches. It is
 * memory of the client until EXEC runs it. */
#ifndef OKV_SERVER_RESP_RUN_TRANSACTION_H
#define OKV_SERVER_RESP_RUN_TRANSACTION_H

#include "server/resp/proto/buffer.h"
#include "server/resp/run/call.h"
#include "server/resp/run/watches.h"

struct okv_resp_queued {
    const struct okv_resp_command *command;
    uint64_t work;   /* okv_resp_price_of_arguments() */
    size_t size;     /* with the texts: to the next one */
    size_t reply;    /* where its reply begins, when EXEC has run it */
    bool is_refused; /* likewise: the user may not run it */
    uint32_t count;
    struct okv_resp_arg args[]; /* followed by their texts */
};

struct okv_resp_transaction {
    bool is_open;     /* MULTI was given, and neither EXEC nor DISCARD since */
    bool is_spoiled;  /* a command was refused: EXEC runs none */
    bool reads_table; /* as it is published: OKV_RESP_TABLE */
    /* Of struct okv_resp_queued, each at a multiple of its alignment. In one piece, so that the end
     * costs the same however many there are. */
    struct okv_resp_buffer commands;
    size_t count;
    struct okv_resp_copy { /* of the command that is being queued */
        bool is_under_way;
        size_t at;          /* in `commands`; they are used up to the next byte that is copied */
        uint32_t arg, done; /* the argument that is next, and its bytes that are copied */
    } copy;
    uint64_t log_bytes;
    uint64_t work; /* of all commands, by their arguments */
    struct okv_resp_watches watches;
};

bool okv_resp_transaction_is_open(const struct okv_resp_client *client);
/* False: there is no memory. */
bool okv_resp_transaction_open(struct okv_resp_client *client);
/* Copies a command for EXEC, and replies. Returns 0, or OKV_RESP_GOES_ON. Without memory for it, or
 * when EXEC could not run it with the others, the transaction is spoiled. */
int okv_resp_transaction_queue(struct okv_resp_call *call);
/* If the transaction is open, EXEC runs nothing. */
void okv_resp_transaction_spoil(struct okv_resp_client *client);
/* The command after `queued`; the first for NULL; NULL at the end. Its arguments are good until the
 * next command is queued. */
struct okv_resp_queued *okv_resp_transaction_next(struct okv_resp_transaction *transaction,
                                                  struct okv_resp_queued *queued);
/* Watches a key of the client's database. OKV_ENOMEM. */
int okv_resp_transaction_watch(struct okv_resp_client *client, const struct okv_resp_arg *key,
                               uint64_t version);
bool okv_resp_transaction_is_watched(const struct okv_resp_client *client,
                                     const struct okv_resp_arg *key);
void okv_resp_transaction_unwatch(struct okv_resp_client *client);
/* Drops commands and watched keys. */
void okv_resp_transaction_drop(struct okv_resp_client *client);

/* Whether EXEC would have to wait for the log of a watched key of another database. */
bool okv_resp_transaction_waits(const struct okv_resp_client *client);
/* Bytes of memory, with what the allocator adds. */
size_t okv_resp_transaction_bytes(const struct okv_resp_client *client);
/* okv_resp_buffer_fresh() of them. */
size_t okv_resp_transaction_fresh(struct okv_resp_client *client);
/* Bytes of log records for these arguments, at most. */
uint64_t okv_resp_log_bytes(const struct okv_resp_arg *args, uint32_t count);
/* The same for the queued commands. */
uint64_t okv_resp_transaction_log_bytes(const struct okv_resp_client *client);

#endif
