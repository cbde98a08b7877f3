/* struct okv: the whole state of a handle. client/state/ declares its parts; client/README.md names
 * the modules that work on it. */
#ifndef OKV_CLIENT_HANDLE_H
#define OKV_CLIENT_HANDLE_H

#include <okv.h>
#include <stdbool.h>

#include "client/state/link.h"
#include "client/state/operation.h"
#include "client/state/queues.h"
#include "client/state/reporting.h"
#include "client/state/table.h"
#include "shared/base/diag.h"
#include "shared/format/superblock.h"
#include "shared/format/wire.h"
#include "shared/transport/transport.h"

struct upcalls;

struct okv {
    const struct okv_transport_ops *transport;
    const struct upcalls *upcalls;
    struct okv_conn *conn;     /* NULL: not connected */
    struct okv_memory *memory; /* the registration of the arena */
    uint8_t *arena;            /* `staging`, `status`, every operation's image and extent buffer */
    size_t arena_size;
    uint32_t image_size; /* of each operation's image */
    uint8_t *staging;    /* OKV_DIRECTORY_SIZE bytes, for read_blocking() and for connecting */
    uint8_t *status;     /* destination of the status READs that do not block */

    struct { /* engine/record.h */
        okv_log_function *tell;
        void *user;
    } log;
    struct link link;
    struct keepalive keepalive;
    struct event_fd event_fd;
    char how[sizeof((struct okv_conn *)0)->how]; /* path of the last connection */
    bool is_one_sided;                           /* of the last connection */
    struct okv_welcome table;                    /* as the server described it */
    uint64_t directory[OKV_DIRECTORY_ENTRIES];
    uint64_t bucket_count; /* an estimate: it selects the bucket to READ first */
    uint64_t timeout_ns;
    struct clock_sync clock;
    struct hint *hints;
    uint64_t *hint_tags; /* behind the hints: one word of tags for each set */
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
    uint64_t begun_ns; /* when engine_begin() last read the clock */
    int failure;       /* why the handle is unusable; 0 while it is usable */
    bool lost;         /* a message could not be posted: OKV_EDISCONNECTED */
    bool closed;       /* OKV_EVENT_CLOSED of `conn` came */

    struct okv_counters counters;
    uint32_t timed_phase; /* of the gets that are timed; a get reads it with its counter */
    struct reporting reporting;
    struct okv_diag why;     /* why there is no connection */
    struct okv_diag refused; /* a call was refused for its arguments: client/engine/refusal.h */
    uint64_t refused_at;     /* refusal_moment() then */
};

static inline bool link_is_up(const okv *handle)
{
    return handle->link.state == LINK_UP;
}

#endif
