/*
 * The sessions of one worker, and what they share. Only the worker's thread uses it, except for
 * `clients`.
 */
#ifndef OKV_SERVER_SESSION_SESSIONS_H
#define OKV_SERVER_SESSION_SESSIONS_H

#include "server/command/housekeeping.h"
#include "server/core/limits.h"
#include "server/peers/inbox.h"
#include "server/session/session.h"

struct okv_executor;

TAILQ_HEAD(okv_long_write_list, okv_long_write);

struct okv_sessions {
    struct okv_server *server;
    struct okv_store_work *works;   /* of each database: copies of the buckets being changed */
    struct okv_executor *executors; /* likewise */
    struct okv_housekeeping housekeeping;
    atomic_uint clients[OKV_LISTENERS_MAX]; /* per listener; the acceptor adds */

    struct okv_session_list all;
    /* Of a database, the ready queue: those with something to serve or answer. */
    struct okv_session_list ready[OKV_DATABASES_MAX];
    struct okv_session_list unflushed;      /* those with replies to flush at the end of the pass */
    struct okv_peer_mail_list peer_answers; /* that wait for send buffers (peer.h) */
    struct okv_session_list committing;     /* those with replies that wait for the log (reply.h) */

    struct okv_long_work { /* of a database (long_work.h) */
        struct okv_long_write_list running, held_up;
    } long_work[OKV_DATABASES_MAX];
    unsigned run_next, wipe_next; /* the databases whose turns are next: indices */

    uint64_t now_ns;                    /* begin of the worker's current pass */
    uint64_t pass;                      /* its number */
    unsigned served[OKV_DATABASES_MAX]; /* in it: requests, as they count for a database's share */
    unsigned room_steps;                /* before it */
    bool is_held_up; /* in it: a write waits for one of another connection, for memory, for a log,
                        or for a command that runs alone; or a client is told that it has to go */
    uint64_t exclusive_ticket; /* of okv_exclusive_share() */
};

/* OKV_ENOMEM. */
int okv_sessions_init(struct okv_sessions *sessions, struct okv_server *server);
void okv_sessions_fini(struct okv_sessions *sessions);

void okv_sessions_begin_pass(struct okv_sessions *sessions);
/* Whether a change of this pass, of any kind of client, made room. Then another pass is due. */
bool okv_sessions_made_room(const struct okv_sessions *sessions);
/* Adds the session to the ready queue of its database, if it is not there. */
void okv_sessions_make_ready(struct okv_sessions *sessions, struct okv_session *session);
/* Replies were posted. The end of the pass flushes them. */
void okv_sessions_queue_flush(struct okv_sessions *sessions, struct okv_session *session);
/* Flushes posted replies now. */
void okv_sessions_flush(struct okv_sessions *sessions, struct okv_session *session);
/* The session has nothing to serve and nothing to flush any more. */
void okv_sessions_quiet(struct okv_sessions *sessions, struct okv_session *session);
/* Removes the session from all lists. */
void okv_sessions_unlist(struct okv_sessions *sessions, struct okv_session *session);

/* Interval of keepalive ticks. Any thread. */
uint64_t okv_sessions_tick_ns(const struct okv_server *server);
/* Interval of scans for idle sessions. Any thread. */
uint64_t okv_sessions_scan_ns(const struct okv_server *server);

#endif
