/* The transaction of a client: commands that MULTI queues, and keys that WATCH watches. It is
 * memory of the client until EXEC runs it. */
#ifndef OKV_SERVER_RESP_RUN_TRANSACTION_H
#define OKV_SERVER_RESP_RUN_TRANSACTION_H

#include "server/resp/run/call.h"
#include "shared/format/entry.h"

struct okv_resp_queued {
    const struct okv_resp_command *command;
    uint64_t work; /* okv_resp_price_of_arguments() */
    uint32_t count;
    struct okv_resp_arg args[]; /* followed by their texts */
};

struct okv_resp_watched {
    unsigned database;
    uint64_t version; /* 0: there was no item */
    uint32_t key_length;
    uint8_t key[OKV_KEY_MAX];
};

struct okv_resp_transaction {
    bool is_open;                       /* MULTI was given, and neither EXEC nor DISCARD since */
    bool is_spoiled;                    /* a command was refused: EXEC runs none */
    bool reads_table;                   /* as it is published: OKV_RESP_TABLE */
    struct okv_resp_copy {              /* of the command that is being queued */
        struct okv_resp_queued *queued; /* NULL: there is none */
        uint8_t *to;
        uint32_t arg, done; /* the argument that is next, and its bytes that are copied */
    } copy;
    struct okv_resp_queued **queue; /* [capacity] */
    size_t count, capacity;
    size_t bytes; /* that the allocator has for the commands */
    uint64_t log_bytes;
    uint64_t work;                     /* of all commands, by their arguments */
    struct okv_resp_watched **watches; /* [watch_capacity] */
    size_t watch_count, watch_capacity;
    /* Of the watches, by the hash of the key: number + 1; 0: free. Twice as many as watches at
     * least; a power of two. */
    uint32_t *watch_index;
    size_t watch_slots;
    uint64_t hash_seed; /* of the index */
};

bool okv_resp_transaction_is_open(const struct okv_resp_client *client);
/* False: there is no memory. */
bool okv_resp_transaction_open(struct okv_resp_client *client);
/* Copies a command for EXEC, and replies. Returns 0, or OKV_RESP_GOES_ON. Without memory for it, or
 * when EXEC could not run it with the others, the transaction is spoiled. */
int okv_resp_transaction_queue(struct okv_resp_call *call);
/* If the transaction is open, EXEC runs nothing. */
void okv_resp_transaction_spoil(struct okv_resp_client *client);
/* Watches a key of the client's database. OKV_ENOMEM. */
int okv_resp_transaction_watch(struct okv_resp_client *client, const struct okv_resp_arg *key,
                               uint64_t version);
bool okv_resp_transaction_is_watched(const struct okv_resp_client *client,
                                     const struct okv_resp_arg *key);
void okv_resp_transaction_unwatch(struct okv_resp_transaction *transaction);
/* Drops commands and watched keys. */
void okv_resp_transaction_drop(struct okv_resp_client *client);

/* Whether EXEC would have to wait for the log of a watched key of another database. */
bool okv_resp_transaction_waits(const struct okv_resp_client *client);
/* Bytes of memory, with what the allocator adds. */
size_t okv_resp_transaction_bytes(const struct okv_resp_client *client);
/* Bytes of log records for these arguments, at most. */
uint64_t okv_resp_log_bytes(const struct okv_resp_arg *args, uint32_t count);
/* The same for the queued commands. */
uint64_t okv_resp_transaction_log_bytes(const struct okv_resp_client *client);

#endif
