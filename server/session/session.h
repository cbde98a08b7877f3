/*
 * One client's connection as the worker sees it.
 *
 * A request takes its request slot from its arrival until its reply was posted. One that finds no
 * send buffer for its reply, no place for its rendezvous read, or its connection's share of a pass
 * used up, waits here with its receive buffer. A PUT whose value is being READ by rendezvous has a
 * place here from its begin until it was answered (session_rendezvous.h).
 */
#ifndef OKV_SERVER_SESSION_SESSION_H
#define OKV_SERVER_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/session/keepalive.h"
#include "server/session/rendezvous.h"
#include "server/session/reply_cache.h"
#include "shared/transport/transport.h"

/* Why a session ended: docs/connections.md section 3. Each has a counter closed_NAME. */
#define OKV_SESSION_END_LIST(X)   \
    X(BY_CLIENT, by_client)       \
    X(LOST, lost)                 \
    X(DEAD, dead)                 \
    X(UNRESPONSIVE, unresponsive) \
    X(REPLACED, replaced)         \
    X(IDLE, idle)                 \
    X(MALFORMED, malformed)       \
    X(NO_IMMEDIATE, no_immediate) \
    X(CREDIT, credit)             \
    X(STOPPING, stopping)         \
    X(FAILED, failed)

enum okv_session_end_reason {
#define OKV_SESSION_END_ENUM(name, counter) OKV_SESSION_END_##name,
    OKV_SESSION_END_LIST(OKV_SESSION_END_ENUM)
#undef OKV_SESSION_END_ENUM
};

struct okv_session {
    uint64_t id;
    unsigned listener; /* index: which endpoint it is on */
    uint32_t place;    /* what okv_admission_take() gave */
    struct okv_conn *conn;
    struct okv_reply_cache *reply_cache; /* the client's; has as many request slots */
    bool closing;                        /* we ended it: what still comes is dropped */
    bool told_goodbye;                   /* it knows that the server ends */
    bool forget;                         /* the client will not come back */

    uint32_t request_slots;
    uint64_t *taken;            /* a bit for each request slot */
    struct okv_event *deferred; /* ring of `request slots` */
    uint32_t deferred_first;
    uint32_t deferred_count;
    struct okv_session_rendezvous rendezvous_reads[OKV_RENDEZVOUS_MAX];
    uint32_t rendezvous_count; /* places of `rendezvous reads` that are taken */

    struct okv_keepalive keepalive;
    uint32_t idle_scans; /* since the last request */
    uint64_t created_ns; /* okv_clock_ns() */
    uint64_t pass;       /* of the worker: in which `served` requests were served */
    unsigned served;

    /* In lists of the worker. */
    bool is_ready, is_unflushed;
    TAILQ_ENTRY(okv_session) in_all, in_ready, in_unflushed;
};

TAILQ_HEAD(okv_session_list, okv_session);

/* NULL when there is no memory. */
struct okv_session *okv_session_create(uint64_t id, unsigned listener, uint32_t request_slots);
/* Accepts NULL. The deferred requests' buffers must have been given back, and every
 * rendezvous read must have ended. */
void okv_session_destroy(struct okv_session *session);

/* A request came on `request slot`. OKV_ECREDIT: there is no such request slot, or the one before
 * on it has not been answered. */
int okv_session_request_slot_take(struct okv_session *session, uint16_t request_slot);
/* It was answered. */
void okv_session_request_slot_free(struct okv_session *session, uint16_t request_slot);

/* Keeps a request, which has taken its request slot, for later. */
void okv_session_defer(struct okv_session *session, const struct okv_event *request);
/* The request that waits longest, or NULL. */
const struct okv_event *okv_session_oldest(const struct okv_session *session);
/* Forgets the one that okv_session_oldest() told. */
void okv_session_drop_oldest(struct okv_session *session);

#endif
