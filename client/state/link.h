/*
 * The connection of a handle: how it is made, lost and made again
 * (docs/connections.md sections 3, 4 and 6).
 *
 *   LINK_UP -> goodbye: LINK_LEAVING -> LINK_CLOSING -> (LINK_BACKOFF ->) LINK_CONNECTING
 *      ^  `--> lost ---------------------^                     ^             |
 *      |                                                       +-- failed ---+
 *      `------------- LINK_DIRECTORY <- LINK_SUPERBLOCK <------------------- +
 */
#ifndef OKV_CLIENT_STATE_LINK_H
#define OKV_CLIENT_STATE_LINK_H

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
    LINK_BACKOFF,    /* between two attempts */
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
struct event_fd {
    int epoll;
    int timer;
    int wanted;        /* the descriptor of the connection or attempt; -1: none */
    int watched;       /* the same when it is in `epoll`; else -1 */
    uint64_t timer_ns; /* when the timer fires, or fired; EVENT_FD_OFF */
    bool armed;        /* okv_arm() was called ever: somebody may sleep on `epoll` */
    bool stale;        /* the link has changed since */
};
#define EVENT_FD_OFF UINT64_MAX

#endif
