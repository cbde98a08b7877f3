/* struct okv: all that a handle has. What it is made of is in client/state/; what is done with it
 * is in the rooms beside (client/README.md). */
#ifndef OKV_CLIENT_HANDLE_H
#define OKV_CLIENT_HANDLE_H

#include <okv.h>
#include <stdbool.h>

#include "client/state/link.h"
#include "client/state/operation.h"
#include "client/state/queues.h"
#include "client/state/table.h"
#include "shared/base/diag.h"
#include "shared/format/superblock.h"
#include "shared/format/wire.h"
#include "shared/transport/transport.h"

struct upcalls;

struct okv {
    const struct okv_transport_ops *transport;
    const struct upcalls *upcalls;
    struct okv_conn *conn;     /* NULL: there is none now */
    struct okv_memory *memory; /* the arena, registered */
    uint8_t *arena;            /* `staging`, `status`, every operation's image and extent buffer */
    size_t arena_size;
    uint32_t image_size; /* of each operation's image */
    uint8_t *staging; /* OKV_DIRECTORY_SIZE bytes for READs of read_blocking() and of connecting */
    uint8_t *status;  /* where the status is READ to between other things */

    struct link link;
    struct keepalive keepalive;
    struct event_fd event_fd;
    char how[sizeof((struct okv_conn *)0)->how]; /* of the last connection */
    struct okv_welcome_fields table;             /* as the server described it */
    uint64_t directory[OKV_DIRECTORY_ENTRIES];
    uint64_t bucket_count; /* an estimate: which bucket to look at first */
    uint64_t timeout_ns;
    struct clock_sync clock;
    struct hint *hints;
    uint64_t *hint_tags; /* behind them: a byte of each hint's hash, those of a set together */
    uint32_t hint_count; /* places: 0 or a power of two */
    uint32_t hints_kept; /* places in use */

    struct operation *operations;
    uint32_t slot_count; /* depth, and as many again as there are credits: for abandoned ones */
    uint32_t depth;
    uint32_t active;  /* operations that somebody waits for */
    uint32_t pending; /* operations whose result okv_poll has still to deliver: at most depth */
    uint64_t earliest_deadline_ns; /* of the active ones, or earlier */
    struct slot_stack free;
    struct slot_queue blocked_reads;    /* for room for READs */
    struct slot_queue blocked_requests; /* for credits and send buffers */
    struct result_queue ended;          /* of asynchronous operations */

    struct read_batch batch;
    unsigned
        reads; /* in the batch or under way, but for read_blocking()'s and okv_bench_read()'s */
    struct bounce *bounces[BOUNCES_KEPT];                      /* not in use; NULL: none */
    struct okv_registration *registrations[REGISTRATIONS_MAX]; /* NULL: none */
    unsigned registrations_end;                                /* none from here on */

    struct request_slots request_slots;
    uint64_t taken;         /* operations ever */
    uint16_t *order;        /* room for all slots: replay.c */
    uint64_t next_sequence; /* rises over all connections */
    bool unflushed;         /* messages were queued since the last flush */
    uint32_t passes;
    uint64_t begun_ns; /* the last call that looked at the clock and began operations */
    int failure;       /* why the handle is unusable; 0 while it is usable */
    bool lost;         /* a message could not be posted: OKV_EDISCONNECTED */
    bool closed;       /* OKV_EVENT_CLOSED of `conn` came */

    struct okv_counters counters;
    struct okv_diag why;     /* there is no connection */
    struct okv_diag refused; /* a call was refused for its arguments: client/engine/refusal.h */
    uint64_t refused_at;     /* refusal_moment() then */
};

static inline bool link_is_up(const okv *handle)
{
    return handle->link.state == LINK_UP;
}

#endif
