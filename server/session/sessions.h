/*
 * The sessions of one worker, and what they share with it. A worker makes one, and its thread alone
 * uses it, but for `clients`.
 */
#ifndef OKV_SERVER_SESSION_SESSIONS_H
#define OKV_SERVER_SESSION_SESSIONS_H

#include "server/housekeeping.h"
#include "server/server.h"
#include "server/session/session.h"

struct okv_sessions {
    struct okv_server *server;
    struct okv_store_work work; /* private copies of the buckets being changed */
    struct okv_housekeeping housekeeping;
    atomic_uint clients[OKV_LISTENERS_MAX]; /* of each listener; the acceptor adds */

    struct okv_session_list all;
    struct okv_session_list ready;     /* those with something to serve or to answer */
    struct okv_session_list unflushed; /* those with replies to be sent at the end of the pass */

    uint64_t pass;   /* number of the worker's present pass */
    bool is_held_up; /* in this pass: a write waits for one that another connection brought */
};

/* OKV_ENOMEM. */
int okv_sessions_init(struct okv_sessions *sessions, struct okv_server *server);
void okv_sessions_fini(struct okv_sessions *sessions);

/* The session has something to serve or to answer. */
void okv_sessions_make_ready(struct okv_sessions *sessions, struct okv_session *session);
/* Replies were posted: they leave at the end of the pass. */
void okv_sessions_await_flush(struct okv_sessions *sessions, struct okv_session *session);
/* Sends them at once. */
void okv_sessions_flush(struct okv_sessions *sessions, struct okv_session *session);
/* The session ends: takes it out of all lists. */
void okv_sessions_unlist(struct okv_sessions *sessions, struct okv_session *session);

/* Time between two keepalive ticks. Any thread. */
uint64_t okv_sessions_tick_ns(const struct okv_server *server);
/* Time between two scans for idle sessions. Any thread. */
uint64_t okv_sessions_scan_ns(const struct okv_server *server);

#endif
