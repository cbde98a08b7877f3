/*
 * A client that speaks RESP, and what a worker has for all of its own. Only the worker's thread
 * uses them, except where it says otherwise.
 *
 * This folder may use server/command, server/wal, server/store, worker.h and shared/, and the
 * headers that all threads of a server share (server.h).
 */
#ifndef OKV_SERVER_RESP_RUN_CLIENT_H
#define OKV_SERVER_RESP_RUN_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/command/execute.h"
#include "server/resp/proto/buffer.h"
#include "server/resp/proto/parser.h"
#include "server/resp/run/long_value.h"
#include "server/server.h"
#include "shared/stream/stream.h"

struct okv_resp;
struct okv_resp_command_table;
struct okv_resp_transaction;

/* Which replies a client gets: CLIENT REPLY. */
enum okv_resp_replies {
    OKV_RESP_REPLIES_ALL,
    OKV_RESP_REPLIES_NONE,
    OKV_RESP_REPLIES_NOT_THIS, /* nor the next */
    OKV_RESP_REPLIES_NOT_NEXT,
};

/* Bytes of replies that wait for a client: it gets no more before it reads them. */
#define OKV_RESP_UNSENT_MAX (1u << 20)
/* Bytes of requests that are read meanwhile. */
#define OKV_RESP_UNREAD_MAX (64u << 20)
/* Bytes of the buffers and transactions of all clients together. Beyond that the replies and the
 * transaction of a client grow no further than OKV_RESP_SHORT_MAX, and its requests wait. */
#define OKV_RESP_KEPT_MAX (INT64_C(1) << 30)
#define OKV_RESP_SHORT_MAX (256u << 10)
/* A request that is begun takes its own memory up to this, so that the worker keeps its buffer. */
#define OKV_RESP_SMALL_REST 4096u
/* A client that sends a request of more than that, or has replies to take, is ended when it moves
 * less than OKV_RESP_PROGRESS_MIN bytes in OKV_RESP_STALLED_MS. */
#define OKV_RESP_PROGRESS_MIN (64u << 10)
#define OKV_RESP_STALLED_MS 30000u
#define OKV_RESP_HELLO_MS 10000u /* in which a client says who it is, without --hello-ms */
#define OKV_RESP_NAME_MAX 64u    /* bytes of the name that a client gives itself, with its NUL */

struct okv_resp_client {
    struct okv_resp *resp;
    uint64_t id;
    struct okv_stream stream;
    uint32_t place;    /* of okv_admission_admit() */
    unsigned protocol; /* 2 or 3 */
    uint32_t events;   /* that epoll has for it */
    bool is_ready;     /* it is in the list of those with something to do */
    bool is_holding;   /* likewise of those whose replies wait for the log */
    bool is_deaf;      /* its connection is broken, which epoll is not to tell again */
    bool is_blocked;   /* its next command waits: for the log, for memory, for a step of a flush */
    bool has_more;     /* requests have come that wait for a turn, or for room for replies */
    bool is_ending;    /* the connection ends when all replies have left */
    bool has_place;    /* `place` is valid */
    bool is_known;     /* the server serves everybody, or it said who it is */
    enum okv_resp_replies replies;
    uint8_t rights[OKV_DATABASES_MAX]; /* of its user, of enum okv_right */

    struct okv_resp_parser parser;
    struct okv_resp_buffer in, out;
    size_t at;      /* in `in`: where the next request begins */
    size_t sent;    /* of `out` */
    size_t kept;    /* bytes of both, of arguments and the transaction, as the door counts them */
    uint64_t batch; /* of a log, that its replies wait for; 0: of none */
    unsigned log;   /* with it: index of the database whose log it is */
    size_t held;    /* with it, in `out`: where these begin */
    struct okv_resp_upload *upload;           /* of the request that arrives; or NULL */
    struct okv_resp_download download;        /* behind `out` */
    uint64_t reserved;                        /* bytes, by both */
    struct okv_resp_transaction *transaction; /* what MULTI and WATCH began; or NULL */
    struct okv_resp_flush_progress {          /* of FLUSHDB and FLUSHALL */
        uint64_t next, splits;                /* of okv_store_flush() */
        uint64_t batch;                       /* of the log, that has the last removals; 0: none */
        unsigned database;
        bool is_under_way, is_empty;
    } flush;

    struct {
        uint32_t next; /* argument; 0: none is under way */
        uint64_t removed;
    } del;                 /* that goes on with the log's next batch */
    uint64_t move_version; /* of a MOVE that waits for the log of the other database; or 0 */

    /* Others read them with the door's lock, and the worker writes them with it. */
    unsigned database; /* index */
    char user[OKV_NAME_SIZE];
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE]; /* of the user's key */
    char peer[64];                             /* its address, for people */
    char address[64];                          /* the same without its port: what limits are for */
    char local[64];                            /* the server's end, for people */
    const struct okv_resp_listener *listener;  /* that let it in */
    char name[OKV_RESP_NAME_MAX];

    uint64_t created_ns, unknown_ns; /* since when it has not said who it is, unless is_known */
    uint64_t moved_ns;               /* when its last byte came or went, or enough of a transfer */
    size_t moved_bytes;              /* of a transfer, since */
    atomic_uint_fast64_t active_ns;  /* of its last request */
    atomic_uint_fast64_t requests, bytes_in, bytes_out;
    const char *_Atomic command; /* its last one; static */
    /* For CLIENT LIST, as of its last turn: bytes that wait to be served and to be read by it, and
     * commands behind MULTI (-1: there was none) with their bytes. */
    atomic_uint_fast64_t unserved, unsent, queued_bytes;
    atomic_int queued;
    atomic_bool is_unwanted; /* CLIENT KILL: its worker ends it */
    TAILQ_ENTRY(okv_resp_client) in_all, in_ready, in_holding;
    TAILQ_ENTRY(okv_resp_client) in_door; /* with the door's lock; before that of an inbox */
};

TAILQ_HEAD(okv_resp_client_list, okv_resp_client);

/* What a worker has for its clients. */
struct okv_resp {
    struct okv_server *server;
    unsigned worker; /* index */
    const struct okv_resp_command_table *commands;
    const struct okv_executor *executors;  /* of its databases */
    struct okv_housekeeping *housekeeping; /* of the worker; NULL: the clock stands still */
    int epoll_fd;
    pthread_mutex_t lock;              /* of the next */
    struct okv_resp_client_list inbox; /* whom the acceptor let in */
    atomic_bool has_inbox;
    atomic_uint clients;      /* with those of the inbox */
    atomic_bool has_unwanted; /* one is to end, or users were loaded again */
    struct okv_resp_client_list all, ready, holding;
    /* Lent to the client whose turn it is. */
    struct okv_resp_buffer in, out;
    struct okv_resp_arg *args;
    uint32_t arg_capacity;
    struct okv_resp_counts {
        uint64_t commands, hits, misses;
    } counts;                  /* of this turn */
    uint64_t exclusive_ticket; /* of okv_exclusive_share() */
    uint8_t dropped[16 << 10]; /* bytes of values that have no place */
};

#endif
