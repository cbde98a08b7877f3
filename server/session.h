/*
 * One client's connection as the worker sees it.
 *
 * A request that finds no send buffer for its reply, or no place for its pull, waits
 * here with its receive buffer until there is one. A PUT whose value is being pulled
 * has a place here from its begin until it was answered (session_pull.h). A client
 * can have at most its credits of both: a further request shows that it took more
 * than it was given.
 */
#ifndef OKV_SERVER_SESSION_H
#define OKV_SERVER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "server/session_pull.h"
#include "shared/transport.h"

struct okv_session {
    uint64_t id;
    unsigned listener; /* index: which endpoint it is on */
    struct okv_conn *conn;
    bool closing;      /* we ended it: what still comes is dropped */
    bool said_goodbye; /* it was told that the server ends */
    uint32_t credits;
    struct okv_event *deferred; /* ring of `credits` */
    uint32_t deferred_first;
    uint32_t deferred_count;
    struct okv_session_pull pulls[OKV_PULLS_MAX];
    uint32_t pull_count;                 /* places of `pulls` that are taken */
    struct okv_session *next, *previous; /* of the worker's list */
};

/* NULL when there is no memory. */
struct okv_session *okv_session_create(uint64_t id, unsigned listener, uint32_t credits);
/* Accepts NULL. The deferred requests' buffers must have been given back, and every
 * pull must have ended. */
void okv_session_destroy(struct okv_session *session);

/* True when as many requests as the client has credits have not been answered yet. */
static inline bool okv_session_is_full(const struct okv_session *session)
{
    return session->deferred_count + session->pull_count >= session->credits;
}

/* Keeps a request for later. OKV_ECREDIT when the session is full. */
int okv_session_defer(struct okv_session *session, const struct okv_event *request);
/* The request that waits longest, or NULL. */
const struct okv_event *okv_session_oldest(const struct okv_session *session);
/* Forgets the one that okv_session_oldest() told. */
void okv_session_drop_oldest(struct okv_session *session);

#endif
