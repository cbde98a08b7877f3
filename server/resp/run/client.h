/*
 * A client that speaks RESP, and the RESP clients of a worker. Only the worker's thread uses them,
 * except where it says otherwise.
 */
#ifndef OKV_SERVER_RESP_RUN_CLIENT_H
#define OKV_SERVER_RESP_RUN_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/clients/client_table.h"
#include "server/core/limits.h"
#include "server/core/turn.h"
#include "server/resp/proto/buffer.h"
#include "server/resp/proto/parser.h"
#include "server/resp/run/download.h"
#include "shared/base/uri.h"
#include "shared/identity/user_key.h"
#include "shared/stream/stream.h"

struct okv_executor;
struct okv_housekeeping;
struct okv_resp;
struct okv_resp_build;
struct okv_resp_call_stats;
struct okv_resp_engine;
struct okv_resp_shared;
struct okv_resp_silent;
struct okv_resp_command_table;
struct okv_resp_listing;
struct okv_resp_transaction;
struct okv_resp_upload;
struct okv_server;

/* CLIENT REPLY: which replies a client gets. */
enum okv_resp_replies {
    OKV_RESP_REPLIES_ALL,
    OKV_RESP_REPLIES_NONE,
    OKV_RESP_REPLIES_NOT_THIS, /* nor the next */
    OKV_RESP_REPLIES_NOT_NEXT,
};

/* What happens to the requests of a client. */
enum okv_resp_state {
    OKV_RESP_READING,  /* they run as they arrive */
    OKV_RESP_RUNNING,  /* the next one goes on in its next turn */
    OKV_RESP_BLOCKED,  /* the next one waits: for a log, for memory, for an exclusive command */
    OKV_RESP_DRAINING, /* none runs: the connection closes when all replies have left */
};

/* Result of a command that goes on when it is called again, in a later turn. What it has replied so
 * far may leave. */
#define OKV_RESP_GOES_ON 1

/* Bytes of replies waiting for a client beyond which none of its commands runs. */
#define OKV_RESP_UNSENT_MAX (1u << 20)
/* Bytes of requests that are read meanwhile. */
#define OKV_RESP_UNREAD_MAX (64u << 20)
/* Bytes of the buffers and transactions of all clients together. Beyond that the replies and the
 * transaction of a client grow no further than OKV_RESP_SHORT_MAX, and its requests wait. */
#define OKV_RESP_MEMORY_MAX (INT64_C(1) << 30)
#define OKV_RESP_SHORT_MAX (256u << 10)
/* The start of a request moves to memory of its own up to this size, so that the worker keeps its
 * buffer. */
#define OKV_RESP_SMALL_REST 4096u
/* A client with a larger request under way, or with replies to take, is closed when it moves fewer
 * than OKV_RESP_PROGRESS_MIN bytes in OKV_RESP_STALLED_MS. */
#define OKV_RESP_PROGRESS_MIN (64u << 10)
#define OKV_RESP_STALLED_MS 30000u
#define OKV_RESP_NAME_MAX 64u /* size of what CLIENT SETNAME and SETINFO set, with its NUL */

/* What a command counts once, however often it runs (once.h): of one kind. Starts as zeros with
 * each command, and with each part of one that goes on. */
struct okv_resp_once {
    uint32_t seen;    /* in this run */
    uint32_t counted; /* in all runs so far */
};

struct okv_resp_client {
    struct okv_client common; /* its worker writes user and database with the lock of the table */
    struct okv_resp *resp;
    uint64_t id; /* as Redis counts clients; OKV_CLIENT_RESP_ID of it is that of okv */
    struct okv_stream stream;
    struct okv_handshake handshake; /* while one is under way */
    enum okv_resp_state state;
    bool is_ready;     /* in the list of its database of clients that can go on */
    bool has_input;    /* epoll said so */
    unsigned ready_in; /* index of that database */
    bool is_held;      /* its replies wait for a lease */
    bool takes_more;   /* its socket took all that a turn sends, and there is more */
    bool is_off_epoll; /* its connection is broken, and epoll would report that again and again */
    uint32_t events;   /* that epoll reports of it */
    uint32_t ticket;   /* of okv_admission_admit(), with has_ticket */
    bool has_ticket;
    struct okv_resp_silent *silent;    /* it has no place yet; or NULL */
    unsigned refusals;                 /* points: place.h */
    bool is_authenticated;             /* or the server has no users */
    uint8_t rights[OKV_DATABASES_MAX]; /* of its user, of enum okv_right */
    unsigned protocol;                 /* 2 or 3 */
    enum okv_resp_replies replies;
    atomic_bool no_touch; /* CLIENT NO-TOUCH: its reads are no uses of items */
    bool reads_copies;    /* READONLY */
    bool reply_has_begun; /* of its command, which goes on */

    struct okv_resp_parser parser;
    struct okv_resp_buffer in, out;
    bool has_secrets; /* `out` may have words of a log-in */
    size_t at;        /* in `in`: where the next request begins */
    size_t sent;      /* of `out` */
    size_t memory;    /* bytes of buffers, arguments and transaction, as counted for all clients */
    struct {
        uint64_t batch;    /* of a log; 0: no reply waits */
        unsigned database; /* index: whose log */
        size_t from;       /* in `out`: where the replies begin that wait for the batch */
    } commit;
    struct okv_resp_upload *upload;           /* long value of the request under way; or NULL */
    struct okv_resp_build *build;             /* likewise, made of a stored one (long_build.h) */
    unsigned builds;                          /* that its command has begun */
    struct okv_resp_download download;        /* leaves after `out` */
    uint64_t reserved;                        /* bytes, by these three, and by `read` */
    struct okv_effort effort;                 /* of its command, to make room (store/room.h) */
    bool wants_alone;                         /* its script cannot run beside others */
    bool has_logged;                          /* its script, a line */
    struct okv_resp_once uses, denials;       /* of its command: of items, for want of a right */
    unsigned room_steps;                      /* that it may still take, if it runs alone */
    struct okv_resp_transaction *transaction; /* of MULTI and WATCH; or NULL */

    /* Commands that go on when they are called again. */
    struct okv_resp_flush_progress { /* FLUSHDB and FLUSHALL */
        uint64_t next, splits;       /* of okv_store_flush() */
        uint64_t batch;              /* of the log, with the last removals; 0: none */
        unsigned database;
        bool is_under_way, is_empty;
    } flush;
    struct okv_resp_progress { /* those that look at one argument after the other */
        uint32_t next;         /* argument, or byte of one; 0: none is under way */
        uint64_t sum;
    } progress;
    struct okv_resp_buffer text;      /* of CLIENT LIST, so far; replies of BITFIELD */
    struct okv_resp_listing *listing; /* KEYS; or NULL */
    struct okv_resp_random_progress { /* RANDOMKEY */
        uint64_t start, position;     /* of okv_store_iterate() */
        bool is_under_way, has_wrapped;
    } random;
    struct okv_resp_read { /* long value that its command reads (long_read.h) */
        const uint8_t *bytes;
        uint32_t length;   /* 0: there is none */
        uint32_t done;     /* bytes of it, which the command counts */
        unsigned database; /* index */
        struct okv_heap_pin pin;
        struct okv_reservation reservation;
    } read;
    uint64_t move_version;               /* MOVE: of the item in the other database; or 0 */
    struct okv_resp_bitop {              /* BITOP, before it runs alone */
        struct okv_resp_buffer versions; /* uint64_t of each source; 0: there is no item */
        uint32_t next;                   /* source that is looked at, or combined */
        uint32_t length;                 /* of that source */
        uint32_t done;                   /* bytes of the result that are combined with it */
        uint32_t longest;                /* of all sources: the length of the result */
        uint32_t reached;                /* bytes of the result; those behind it are 0 */
        bool are_known;                  /* versions, and the longest */
        bool is_taken;                   /* that source */
    } bitop;

    /* The worker writes these with the lock of the client table, and others read them with it. */
    char name[OKV_RESP_NAME_MAX], library[OKV_RESP_NAME_MAX], library_version[OKV_RESP_NAME_MAX];
    char peer[64];    /* its address, as text */
    char address[64]; /* that limits count as one: okv_host_group_text(), or the uid */
    char local[64];   /* the server's end, as text */
    const struct okv_resp_listener *listener;

    uint64_t unauthenticated_ns; /* since when, unless is_authenticated */
    uint64_t progress_ns;        /* when its last byte came or left, or enough of a transfer */
    size_t progress_bytes;       /* of a transfer, since then */
    const char *_Atomic command; /* its last one; static */
    /* For CLIENT LIST: bytes of requests and of replies that wait, and the queued commands of MULTI
     * (-1: there was none) with their bytes. */
    atomic_uint_fast64_t unserved, unsent, queued_bytes;
    atomic_int queued;
    TAILQ_ENTRY(okv_resp_client) in_all; /* before that in the inbox */
    TAILQ_ENTRY(okv_resp_client) in_ready, in_deferred;
};

TAILQ_HEAD(okv_resp_client_list, okv_resp_client);

/* The RESP clients of a worker. */
struct okv_resp {
    struct okv_server *server;
    struct okv_resp_shared *shared; /* with the other workers */
    unsigned worker;                /* index */
    const struct okv_resp_command_table *commands;
    const struct okv_executor *executors;  /* of its databases */
    struct okv_turn turn;                  /* of the client that is served */
    struct okv_housekeeping *housekeeping; /* of the worker; NULL: the clock stands still */
    uint64_t hash_seed;                    /* of tables of keys that clients choose: a secret */
    int epoll_fd;
    pthread_mutex_t lock;              /* of the inbox */
    struct okv_resp_client_list inbox; /* clients that the acceptor assigned */
    atomic_bool has_inbox;
    atomic_uint clients; /* with those of the inbox */
    struct okv_resp_client_list all;
    struct okv_resp_client_list ready[OKV_DATABASES_MAX]; /* of a database: they can go on */
    unsigned ready_next;                                  /* index of the one whose turn is next */
    struct okv_resp_client_list deferred;                 /* their replies wait for a commit */
    /* Borrowed by the client that is served: buffer_pool.h. */
    struct okv_resp_buffer in, out;
    struct okv_resp_arg *args;
    uint32_t arg_capacity;
    /* Memory of clients that is not counted any more: a pass unmaps more than it reads. */
    struct okv_resp_trash trash;
    struct okv_resp_counts {
        uint64_t commands, hits, misses;
    } counts; /* not yet in the server's */
    struct okv_resp_call_stats *call_stats;
    struct okv_resp_engine *engine; /* of scripts; NULL: there was none yet */
    uint64_t exclusive_ticket;      /* of okv_exclusive_share() */
    uint8_t dropped[16 << 10];      /* bytes of values that are not stored */
};

/* ---- any thread ---- */

/* Assigns a client, whose stream, ticket and peer are set, to a worker. */
void okv_resp_assign(struct okv_resp *resp, struct okv_resp_client *client);
/* Asks the client's worker to close it. */
void okv_resp_terminate(struct okv_resp_client *client);

/* ---- the worker's thread ---- */

/* Replies from `from` on wait for a batch of a database's log. None waits for another log, and an
 * earlier batch of this one succeeded. */
void okv_resp_defer(struct okv_resp_client *client, unsigned database, uint64_t batch, size_t from);
/* Allows the deferred replies to be sent. */
void okv_resp_release(struct okv_resp_client *client);

/* How long a client may be silent. Any thread. */
uint64_t okv_resp_hello_ns(const struct okv_server *server);

/* Whether the client has to get by with little: all clients together have as much memory as they
 * may, or it has not logged in. */
bool okv_resp_is_short_of_memory(const struct okv_resp_client *client);

/* Sets its name, its library or that library's version. The text is shorter than OKV_RESP_NAME_MAX.
 */
void okv_resp_client_set_text(struct okv_resp_client *client, char to[OKV_RESP_NAME_MAX],
                              const struct okv_resp_arg *text);
void okv_resp_client_set_user(struct okv_resp_client *client, const char *user);
void okv_resp_client_set_database(struct okv_resp_client *client, unsigned database);
void okv_resp_client_set_protocol(struct okv_resp_client *client, unsigned protocol);

#endif
