/* struct okv, the whole state of a handle, and its parts; operation.h has its operations.
 * client/README.md names the modules that work on it. */
#ifndef OKV_CLIENT_HANDLE_H
#define OKV_CLIENT_HANDLE_H

#include <okv.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "client/operation.h"
#include "shared/base/diag.h"
#include "shared/base/uri_list.h"
#include "shared/format/report.h"
#include "shared/format/superblock.h"
#include "shared/format/wire.h"
#include "shared/transport/transport.h"

#define REGISTRATIONS_MAX 64
/* Free bounce buffers that are kept. */
#define BOUNCES_KEPT 4

/* ---- the connection ---- */

/* A moment on both of our clocks that measure a lease. */
struct lease_time {
    uint64_t raw_ns;  /* okv_clock_raw_ns() */
    uint64_t boot_ns; /* okv_clock_boot_ns() */
};

/*
 * The states through which a handle connects, loses a connection and reconnects
 * (docs/connections.md sections 3, 4 and 6); reconnect.c moves from state to state.
 *
 *   LINK_UP -> goodbye: LINK_DRAINING -> LINK_CLOSING -> (LINK_BACKOFF ->) LINK_CONNECTING
 *      ^  `--> lost ----------------------^                     ^             |
 *      |                                                        +-- failed ---+
 *      `------------- LINK_DIRECTORY <- LINK_SUPERBLOCK <-------------------- +
 */
enum link_state {
    LINK_UP,         /* requests and READs go out */
    LINK_DRAINING,   /* the server said GOODBYE: owed replies may still come */
    LINK_CLOSING,    /* lost: events that came before its end are handled */
    LINK_BACKOFF,    /* the pause before the next attempt */
    LINK_CONNECTING, /* the transport connects */
    LINK_SUPERBLOCK, /* the attempt READs the superblock */
    LINK_DIRECTORY,  /* the attempt READs the directory */
};

/* Who the handle's user is: identity.c. */
struct link_identity {
    char user[OKV_NAME_SIZE]; /* "": nobody */
    char *key_file;
    struct okv_user_key *key; /* NULL: there is no user */
    struct okv_hello hello;   /* the attempt's last one */
    uint8_t cookie[OKV_COOKIE_SIZE];
    struct okv_binding binding;
    bool has_proven;  /* `hello` has a proof, made with `cookie` and `binding` */
    bool is_answered; /* the attempt's welcome had the server's proof */
    bool is_second;   /* the attempt began again after a denial */
    unsigned rounds;  /* hellos of the attempt beyond the first */
};

/* servers.c chooses the one that an attempt goes to. */
struct servers {
    struct okv_uri_list list;
    struct okv_uri_tls of_tls;    /* of the URI, or else of the options */
    char database[OKV_NAME_SIZE]; /* likewise */
    char named[OKV_PRIMARY_SIZE]; /* the primary, as the last refusal has it; or "" */
    unsigned at;                  /* of `list`: the latest that was asked in turn */
    unsigned asked;               /* in turn, since the last pause */
    unsigned patience;            /* how often all of them have been silent for a whole round */
    char *avoided;                /* URI of a server that stood still; NULL: there is none */
    uint64_t avoid_until_ns;      /* on okv_clock_ns(): it is asked again */
    bool has_followed;            /* since the last pause, what a refusal says */
    bool was_answered;            /* since the last pause, by any of them */
};

struct link {
    enum link_state state;
    bool never;   /* OKV_RECONNECT_NEVER */
    bool if_kept; /* OKV_RECONNECT_IF_KEPT */
    bool opening; /* link_open() runs the attempts, link_advance() does not */
    struct servers servers;
    char *uri_text; /* of the server of the latest attempt */
    struct okv_uri uri;
    char address[64];         /* rdma: numeric, of the last server; "": not known */
    uint64_t resolve_from_ns; /* from then on an attempt resolves the host name again */
    uint8_t client_id[OKV_CLIENT_ID_SIZE];
    struct link_identity identity;
    uint32_t credits; /* to request from the server */
    uint64_t connect_timeout_ns;
    bool observes;          /* okv_options.observe */
    uint64_t open_until_ns; /* while `opening` */
    struct okv_connecting *connecting;
    struct okv_welcome table; /* from the welcome of this attempt */
    bool reading;             /* a READ of the attempt is under way */
    int broken;               /* why the attempt's connection ended; 0: it has not */
    bool is_turned_away;      /* over tcps, the server denied the last attempt: that is certain */
    int refusal;              /* how the last attempt failed; 0: it did not, or is the first */
    uint64_t deadline_ns;     /* of the state; LINK_UP has none */
    struct lease_time said_hello; /* the attempt, or a little earlier */
    uint64_t up_since_ns;
    unsigned attempts; /* since a connection last proved steady */
    uint64_t random;
    int cause; /* LINK_DRAINING: the failure of a handle that never reconnects */
};

/* keepalive.c sends heartbeats. */
struct keepalive {
    uint64_t period_ns; /* 0: none */
    uint64_t next_ns;   /* the next tick */
    uint64_t quiet_since_ns;
    uint64_t acknowledged; /* at the last tick */
};

/* The descriptor of okv_fd(): event_fd.c. */
struct event_fd {
    int epoll;
    int timer;
    int wanted;        /* descriptor of the connection or attempt; -1: none */
    int watched;       /* the one that `epoll` holds now; -1: none */
    uint64_t timer_ns; /* when the timer fires or fired; EVENT_FD_OFF: not set */
    bool armed;        /* okv_arm() was called: the caller may sleep on `epoll` */
    bool stale;        /* the link has changed since the last okv_arm() */
};
#define EVENT_FD_OFF UINT64_MAX

/* ---- the server's clock and table ---- */

/* connection/clock_sync.c estimates the server's clock. */
#define CLOCK_BOUNDS 4
struct clock_bound {
    int64_t offset_ms; /* the server's clock was at least this far ahead of ours */
    uint64_t at_ms;    /* on our clock: when the sample came */
};

struct clock_sync {
    struct clock_bound bounds[CLOCK_BOUNDS]; /* the latest; bound n is at n % CLOCK_BOUNDS */
    uint64_t taken;                          /* bounds so far */
    uint64_t latest_ms;                      /* on the server's clock: the latest accepted sample */
    uint64_t sampled_at_ms; /* on our clock: when the latest sample came, accepted or not */
    uint64_t told_ms;       /* on the server's clock: the latest result of clock_now_ms() */
    bool reading;           /* a READ of the status is under way */
};

/* connection/lease_clock.c bounds the server's lease clock. */
#define LEASE_SAMPLES 4
struct lease_sample {
    struct lease_time posted; /* the request */
    uint64_t server_us;       /* the server's clock in its reply */
};
struct lease_clock {
    struct lease_sample samples[LEASE_SAMPLES]; /* the latest; sample n is at n % LEASE_SAMPLES */
    unsigned taken;                             /* samples so far */
};

/* A message that no operation waits for: connection/notice.h. */
struct notice {
    bool is_owed; /* its reply: it holds a request slot until then */
    uint16_t request_slot;
    uint64_t sequence;
};

/* connection/lease.c says until when READs count. Times are on okv_clock_boot_ns() unless they say
 * otherwise. */
struct lease {
    bool is_checked;         /* the server is a member of a cluster */
    bool is_due;             /* the status is to be READ with the next bucket */
    uint64_t seen_ns;        /* after the READs that completed last */
    uint64_t deadline_ns;    /* READs count that had completed before it */
    uint64_t refresh_ns;     /* from then on the status is due */
    uint64_t again_ns;       /* on okv_clock_ns(): READ the status, or look after the lease, as
                                operations wait; UINT64_MAX: no need */
    uint64_t valid_until_us; /* on the server's clock: the end of the lease */
    uint64_t watched_ns;     /* since when lease_watch() has found that the lease has run out; 0: it
                                has not */
    uint64_t looked_ns;      /* the latest such look */
    struct lease_clock clock;
    struct notice ping;
    struct lease_time pinged; /* when `ping` was posted */
};
/* Between READs of a status that covers too little. */
#define LEASE_AGAIN_NS 10000000

/* get/hints.c keeps hints in sets. */
struct hint {
    uint64_t extent : 48;
    uint64_t key_length : 15; /* 0: free */
    uint64_t key_in_extent : 1;
    uint32_t hash; /* upper half of the key's hash */
    uint32_t value_length;
};

struct okv_registration {
    uint8_t *base;
    size_t length;
    struct okv_memory *memory; /* NULL while not connected */
};

/* ---- queues of operations ---- */

/* Has room for all slots. */
struct slot_stack {
    uint16_t *slots;
    uint32_t count;
};

/* A ring with room for all slots. */
struct slot_queue {
    uint16_t *slots;
    uint32_t first;
    uint32_t count;
};

/* A ring with room for `depth` results. */
struct result_queue {
    struct okv_result *results;
    uint32_t first;
    uint32_t count;
};

/* The index `ahead` steps after `first` in a ring; first < size, ahead <= size. */
static inline uint32_t ring_index(uint32_t first, uint32_t ahead, uint32_t size)
{
    uint32_t index = first + ahead;

    return index < size ? index : index - size;
}

/* Request slots: docs/connections.md section 2. The arrays have room for all that were requested.
 */
struct request_slots {
    struct operation **holders; /* by request slot; NULL: free */
    uint64_t *answered;         /* by request slot: the sequence of its last reply */
    uint16_t *free;             /* a stack of the free ones among those that the server granted */
    uint32_t count;             /* of `free` */
    uint32_t resends;           /* holders whose request waits to be sent again */
};

/* READs that wait for the next doorbell: engine/read_batch.h. */
struct read_batch {
    struct okv_read *reads; /* room for conn->max_reads */
    unsigned count;
};

/* ---- reports ---- */

/* Reports to the server: connection/report.c sends them, engine/timed_gets.h times gets for them.
 */
struct reporting {
    uint64_t period_ns; /* 0: no reports */
    uint64_t due_ns;    /* of report_send(); UINT64_MAX: never on this connection */
    uint64_t next_ns;   /* of the next report */
    struct notice notice;
    struct okv_counters told; /* as in the last report */
    /* Since then, of the timed gets. */
    uint64_t get_ns;
    uint32_t cells[OKV_REPORT_CELLS];
};

/* ---- the handle ---- */

struct engine_ops;

struct okv {
    _Atomic uint32_t *mark; /* of a call that is running: client/api/enter.h */
    pid_t process;          /* that opened the handle */
    const struct okv_transport_ops *transport;
    const struct engine_ops *ops;
    struct okv_conn *conn;     /* NULL: not connected */
    struct okv_memory *memory; /* the registration of the arena */
    uint8_t *arena;            /* `staging`, `status`, every operation's image and extent buffer */
    size_t arena_size;
    uint32_t image_size; /* of each operation's image */
    uint8_t *staging;    /* OKV_DIRECTORY_SIZE bytes, for read_blocking() and for connecting */
    uint8_t *status;     /* destination of the status READs that do not block */

    struct { /* engine/log_event.h */
        okv_log_function *tell;
        void *user;
    } log;
    struct link link;
    struct keepalive keepalive;
    struct event_fd event_fd;
    char how[sizeof((struct okv_conn *)0)->how]; /* path of the last connection */
    char server[320];                            /* of the last connection: its URI */
    bool is_one_sided;                           /* of the last connection */
    struct okv_welcome table;                    /* as the server described it */
    uint64_t directory[OKV_DIRECTORY_ENTRIES];
    uint64_t bucket_count; /* an estimate: it selects the bucket to READ first */
    uint64_t timeout_ns;
    struct clock_sync clock;
    struct lease lease;
    struct hint *hints;
    uint64_t *hint_tags; /* after the hints: one word of tags for each set */
    uint32_t hint_count; /* capacity: 0 or a power of two */
    uint32_t hints_kept; /* hints in use */

    struct operation *operations;
    uint32_t slot_count; /* depth + credits; the surplus is for abandoned operations */
    uint32_t depth;
    uint32_t active;               /* operations without a result */
    uint32_t pending;              /* results that okv_poll() owes: at most depth */
    uint64_t earliest_deadline_ns; /* of the active operations, or earlier */
    struct slot_stack free;
    struct slot_queue blocked_reads;    /* for room for READs */
    struct slot_queue blocked_requests; /* for credits and send buffers */
    struct result_queue ended;          /* of asynchronous operations */

    struct read_batch batch;
    unsigned reads; /* batched or under way; read_blocking() and okv_bench_read() do not count */
    struct bounce *bounces[BOUNCES_KEPT];                      /* free ones; NULL: none */
    struct okv_registration *registrations[REGISTRATIONS_MAX]; /* NULL: none */
    unsigned registrations_end;                                /* entries from here on are NULL */

    struct request_slots request_slots;
    uint64_t operations_begun; /* the next one's number; fast_get() begins none */
    uint16_t *order;           /* scratch space of resend.c, for all slots */
    uint64_t next_sequence;    /* of requests; rises across connections */
    bool unflushed;            /* messages are queued for the next doorbell */
    uint32_t passes;
    uint64_t begun_ns; /* when call_begin() last read the clock */
    int failure;       /* why the handle is unusable; 0 while it is usable */
    bool lost;         /* a message could not be posted: OKV_EDISCONNECTED */
    bool closed;       /* OKV_EVENT_CLOSED of `conn` came */

    struct okv_counters counters;
    uint32_t timed_phase; /* of the gets that are timed; a get reads it with its counter */
    struct reporting reporting;
    struct hits *hits;              /* client/connection/hits.c; NULL: none are reported */
    struct okv_diag why;            /* why there is no connection */
    struct okv_diag argument_error; /* of a call that was refused: client/api/argument_error.h */
    uint64_t argument_error_at;     /* call_count() then */
    unsigned denied_right;          /* that the request lacked which was denied last */
};

static inline bool link_is_up(const okv *handle)
{
    return handle->link.state == LINK_UP;
}

/* What a call returns whose time is over and that has changed nothing. */
static inline int timeout_status(const okv *handle)
{
    return handle->link.refusal == OKV_EDENIED ? OKV_EDENIED : OKV_ETIMEDOUT;
}

#endif
