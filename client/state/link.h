/*
 * The link of a handle: the states through which it connects, loses a connection and reconnects
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

/* reconnect.c moves from state to state. */
enum link_state {
    LINK_UP,         /* requests and READs go out */
    LINK_LEAVING,    /* the server said GOODBYE: owed replies may still come */
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

struct link {
    enum link_state state;
    bool never;   /* OKV_RECONNECT_NEVER */
    bool if_kept; /* OKV_RECONNECT_IF_KEPT */
    bool opening; /* link_open() runs the attempt, link_advance() does not */
    char *uri_text;
    struct okv_uri uri;
    char address[64];         /* rdma: numeric, of the last server; "": not known */
    uint64_t resolve_from_ns; /* from then on an attempt resolves the host name again */
    uint8_t client_id[OKV_CLIENT_ID_SIZE];
    struct link_identity identity;
    uint32_t credits; /* to request from the server */
    uint64_t connect_timeout_ns;
    struct okv_connecting *connecting;
    struct okv_welcome table; /* from the welcome of this attempt */
    bool reading;             /* a READ of the attempt is under way */
    int broken;               /* why the attempt's connection ended; 0: it has not */
    uint64_t deadline_ns;     /* of the state; LINK_UP has none */
    uint64_t up_since_ns;
    unsigned attempts; /* since a connection last proved steady */
    uint64_t random;
    int cause; /* LINK_LEAVING: the failure of a handle that never reconnects */
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

#endif
