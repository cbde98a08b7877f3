/*
 * The connection of a handle: how it is made, lost and made again
 * (docs/connections.md sections 3, 4 and 6).
 *
 *   LINK_UP -> goodbye: LINK_LEAVING -> LINK_CLOSING -> (LINK_PAUSING ->) LINK_CONNECTING
 *      ^  `--> lost ---------------------^                     ^             |
 *      |                                                       +-- failed ---+
 *      `------------- LINK_DIRECTORY <- LINK_SUPERBLOCK <------------------- +
 */
#ifndef OKV_CLIENT_CONNECTION_STATE_H
#define OKV_CLIENT_CONNECTION_STATE_H

#include <okv.h>
#include <stdbool.h>

#include "shared/base/uri.h"
#include "shared/format/wire.h"
#include "shared/transport/transport.h"

/* See reconnect.c. */
enum link_state {
    LINK_UP,         /* requests and READs go out */
    LINK_LEAVING,    /* the server said GOODBYE: only what it owes is waited for */
    LINK_CLOSING,    /* lost: what came before its end is worked off */
    LINK_PAUSING,    /* between two attempts */
    LINK_CONNECTING, /* the transport connects */
    LINK_SUPERBLOCK, /* the READ of the superblock is under way */
    LINK_DIRECTORY,  /* likewise of the directory */
};

struct link {
    enum link_state state;
    bool never;   /* connects again */
    bool opening; /* link_open() takes the steps */
    char *uri_text;
    struct okv_uri uri;
    char address[64];      /* rdma: of the last connection's server, numeric; "": not known */
    uint64_t name_from_ns; /* then an attempt looks the host's name up again */
    uint8_t client_id[OKV_CLIENT_ID_SIZE];
    uint32_t credits; /* to ask for */
    uint64_t connect_timeout_ns;
    struct okv_connecting *connecting;
    struct okv_welcome_fields table; /* as the server of this attempt described it */
    bool reading;                    /* a READ of the attempt is under way */
    int broken;                      /* why the connection of the attempt ended; 0: it has not */
    uint64_t deadline_ns;            /* of the state, LINK_UP has none */
    uint64_t up_since_ns;
    unsigned attempts; /* without lasting success */
    uint64_t random;
    int cause; /* LINK_LEAVING: what a handle that never reconnects fails with */
};

/* See keepalive.c. */
struct keepalive {
    uint64_t period_ns; /* 0: none */
    uint64_t next_ns;   /* the next tick */
    uint64_t quiet_since_ns;
    uint64_t acknowledged; /* at the last tick */
};

/* See watch.c. */
struct watch {
    int epoll;
    int timer;
    int wanted;        /* the descriptor of the connection or attempt; -1: none */
    int watched;       /* the same when it is in `epoll`; else -1 */
    uint64_t timer_ns; /* when the timer fires, or fired; WATCH_OFF */
    bool armed;        /* okv_arm() was called ever: somebody may sleep on `epoll` */
    bool stale;        /* the link has changed since */
};
#define WATCH_OFF UINT64_MAX

/* ---- connect.c ---- */

/* Begins an attempt to connect: LINK_CONNECTING. The sentence of a failure is in `why`. */
int attempt_start(okv *handle, struct okv_diag *why);
/* Goes on with it. OKV_EAGAIN: later. 0: the connection is verified, the directory is in
 * `staging`. Anything else: the attempt failed; what it left is for link_drop(). */
int attempt_step(okv *handle, struct okv_diag *why);
/* Its READ ended. */
void attempt_read_done(okv *handle, int status);
/* There is a connection: keeps the address of its server. */
void address_keep(okv *handle);
/* It is lost: for a while attempts go to that address. */
void address_use(struct link *link);

/* ---- reconnect.c ---- */

/* The connection is of no use any more. A handle that never reconnects fails with `code`. */
void link_lost(okv *handle, int code, const char *sentence);
/* The same, with what the device said. */
void link_disconnected(okv *handle, const char *sentence);
/* The server said GOODBYE. */
void link_goodbye(okv *handle);
/* Goes from state to state as far as it can without blocking; not while LINK_UP. Returns whether
 * it did. */
bool link_advance(okv *handle);
/* When link_advance() or keepalive_tick() has something to do at the latest; UINT64_MAX. */
uint64_t link_wake_ns(const okv *handle);
/* What becomes readable when link_advance() or engine_events() has something to do; -1. */
int link_fd(const okv *handle);
/* The first connection, blocking: one attempt. */
int link_open(okv *handle);
/* Blocks until there is a connection. OKV_ETIMEDOUT, the handle's failure. */
int link_await(okv *handle, uint64_t deadline_ns);
/* Ends the connection or the attempt, now: operations wait. */
void link_drop(okv *handle);
/* The end of the handle: tells the server, if that can be done in no time. */
void link_goodbye_say(okv *handle);

/* ---- replay.c ---- */

/* The connection is about to be destroyed: takes memory and operations from it. */
void replay_detach(okv *handle);
/* The operations that waited for a connection go on; `resumed`: the server knows what became of
 * the writes among them. `same_table`: it is the one of the last connection. */
void replay_resume(okv *handle, bool resumed, bool same_table);

/* ---- keepalive.c ---- */

/* From now on, on this connection. */
void keepalive_start(okv *handle);
/* Does what a tick demands, whose time has come; link_lost() when the server is dead. */
void keepalive_tick(okv *handle, uint64_t now);
/* When the next one is; UINT64_MAX when nothing is waited for. */
uint64_t keepalive_wake_ns(const okv *handle);

/* ---- watch.c ---- */

int watch_create(okv *handle);
void watch_destroy(okv *handle);
/* The descriptor of the connection, or of the attempt, is this one; -1: there is none. */
void watch_set(okv *handle, int fd);
/* After a turn in which nothing happened, if `idle`: whoever sleeps on an armed descriptor from
 * here on is woken for what there is to do, and for nothing else. */
void watch_follow(okv *handle, bool idle);

#endif
