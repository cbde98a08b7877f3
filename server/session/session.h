/*
 * A session: one connection of a client. Sessions belong to the worker that serves them.
 *
 * A request occupies its request slot from its arrival until its reply is posted. It waits here, in
 * its receive buffer, as long as
 *   - an earlier request of the session waits, or others of its database do;
 *   - there is no send buffer for its reply;
 *   - the connection or the database has used up its share of a pass;
 *   - an older connection of the client may still apply the same write;
 *   - too many long writes are under way;
 *   - there is no memory for it: others have reserved it, or it is being wiped;
 *   - the log's batch is closed, or a command of a client of Redis runs alone;
 *   - it is a GET, and the lease of a member of a cluster is over.
 * A long write is listed here from its beginning until it is answered (long_write.h).
 */
#ifndef OKV_SERVER_SESSION_SESSION_H
#define OKV_SERVER_SESSION_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/clients/client_table.h"
#include "server/core/turn.h"
#include "server/session/keepalive.h"
#include "shared/base/uri.h"
#include "shared/format/wire.h"
#include "shared/identity/user_key.h"
#include "shared/transport/transport.h"

struct okv_long_write;
struct okv_peer_mail;
struct okv_peer_sender;
struct okv_reply_cache;

/* Why a session ended. Each reason has a counter closed_NAME, which okv(1) explains. */
#define OKV_SESSION_END_LIST(X)   \
    X(BY_CLIENT, by_client)       \
    X(LOST, lost)                 \
    X(DEAD, dead)                 \
    X(UNRESPONSIVE, unresponsive) \
    X(REPLACED, replaced)         \
    X(REVOKED, revoked)           \
    X(KILLED, killed)             \
    X(HALF_OPEN, half_open)       \
    X(CROWDED_OUT, crowded_out)   \
    X(IDLE, idle)                 \
    X(MALFORMED, malformed)       \
    X(NO_IMMEDIATE, no_immediate) \
    X(CREDIT, credit)             \
    X(STOPPING, stopping)         \
    X(DEPOSED, deposed)           \
    X(FAILED, failed)

enum okv_session_end_reason {
#define OKV_SESSION_END_ENUM(name, counter) OKV_SESSION_END_##name,
    OKV_SESSION_END_LIST(OKV_SESSION_END_ENUM)
#undef OKV_SESSION_END_ENUM
};

/* The answer to a write that waits until the log has it (reply.h). */
struct okv_pending_reply {
    uint64_t batch;
    struct okv_reply_message reply;
    uint8_t value[OKV_WRITE_REPLY_MAX];
    void *long_value; /* one that does not fit there; else NULL */
    bool is_done;     /* the batch has ended; the reply waits for a send buffer */
    bool is_dropped;  /* the batch is not published here; another copy may publish it */
};

struct okv_session {
    struct okv_client common;
    unsigned listener;        /* index: which endpoint it is on */
    uint32_t place;           /* of okv_admission_admit() */
    atomic_uint rights;       /* of enum okv_right; 0: it is to end. The acceptor changes them. */
    atomic_int unwanted;      /* why it is to end: crowded out; 0: it is not */
    atomic_bool is_half_open; /* nothing shows yet that the client got the welcome */
    struct okv_conn *conn;
    struct okv_reply_cache *reply_cache; /* the client's, with at least as many slots */
    bool closing;                        /* the worker closed it; later messages are dropped */
    bool told_goodbye;                   /* a GOODBYE was sent */
    bool forget;                         /* the client said GOODBYE: drop its reply cache */
    bool is_revoked;                     /* its user lost every right: it is told, then it ends */
    uint64_t revoked_ns;                 /* when that was noticed */

    uint64_t *slots_in_use; /* a bit for each request slot */
    uint64_t *sequences;    /* of the last request on each request slot; 0: none came */
    struct {
        uint64_t begun_ns; /* 0: no write is being timed (timed_writes.h) */
        uint16_t request_slot;
    } timed;
    struct okv_event *deferred; /* ring of `request_slots` */
    uint32_t deferred_first;
    uint32_t deferred_count;
    struct okv_pending_reply *pending; /* ring of `request_slots`, in the order of application */
    uint32_t pending_first, pending_count;
    bool is_gone;                       /* its connection has closed; the last held reply ends it */
    struct okv_long_write *long_writes; /* [OKV_LONG_WRITES_MAX] */
    uint32_t long_write_count;          /* of these, in use */
    uint64_t reserved;                  /* bytes, by all of them */
    bool is_observer; /* it READs nothing, and may connect to a copy: feature OKV_FEATURE_OBSERVE */
    bool is_peer;     /* of another server: the feature replicate is in force */
    struct okv_peer_sender *peer;   /* NULL: none of its messages went to the inbox */
    struct okv_peer_mail *arriving; /* the one whose body is on its way, or NULL */
    struct okv_effort effort;       /* of its first request, to make room (store/room.h) */

    struct okv_keepalive keepalive;
    uint32_t idle_scans; /* since the last request */
    uint32_t half_open_scans;
    uint64_t created_ns; /* okv_clock_ns() */
    uint64_t pass;       /* of the worker, to which `served` belongs */
    unsigned served;     /* requests served in that pass, as they count for its share */

    /* Membership in the lists of struct okv_sessions. */
    bool is_ready, is_unflushed, is_committing;
    TAILQ_ENTRY(okv_session) in_all, in_ready, in_unflushed, in_committing;
};

TAILQ_HEAD(okv_session_list, okv_session);

/* What its requests may do at this moment. Any thread. */
static inline unsigned okv_session_rights_now(const struct okv_session *session)
{
    return atomic_load_explicit(&session->rights, memory_order_relaxed);
}

/* Adds to one of those that the worker alone writes. */
static inline void okv_session_add(atomic_uint_fast64_t *count, uint64_t n)
{
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* NULL when there is no memory. */
struct okv_session *okv_session_create(uint64_t id, unsigned listener, uint32_t request_slots);
/* Accepts NULL. No request may be deferred, and every long write must have ended. */
void okv_session_destroy(struct okv_session *session);

/* Whether this sequence or a later one came on the request slot before; if not, notes it. Sequence
 * 0, which no client of okv sends, and a slot that is not there never repeat. */
bool okv_session_is_repeated(struct okv_session *session, uint16_t request_slot, uint64_t sequence);
/* A request came. OKV_ECREDIT: there is no such slot, or its last request is unanswered. */
int okv_session_slot_acquire(struct okv_session *session, uint16_t request_slot);
/* The request was answered. */
void okv_session_slot_release(struct okv_session *session, uint16_t request_slot);

/* Queues a request that occupies its slot. */
void okv_session_defer(struct okv_session *session, const struct okv_event *request);
/* The oldest deferred request, or NULL. */
const struct okv_event *okv_session_oldest(const struct okv_session *session);
/* Removes the oldest deferred request from the queue. */
void okv_session_drop_oldest(struct okv_session *session);

#endif
