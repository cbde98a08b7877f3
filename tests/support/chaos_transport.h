/*
 * A client's transport with faults: okv_transport_for() here returns the real transport of the
 * scheme behind a layer that injects faults. The linker puts it in the place of ours (--wrap), so
 * the client above it is the real one.
 *
 * Faults meet the connections that a thread makes while it uses a `struct chaos`, and no others:
 * a handle that is opened without one is a plain client. A connection is broken with
 * the transport's own close, after which the client is told what it is always told: an
 * OKV_EVENT_CLOSED. What a reliable connection does not do is not done: nothing comes
 * twice, nothing comes late, nothing is altered.
 */
#ifndef OKV_TESTS_CHAOS_TRANSPORT_H
#define OKV_TESTS_CHAOS_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/transport/transport.h"

enum chaos_fault {
    CHAOS_NONE,
    CHAOS_LOSE_REPLY,    /* the server answered; the connection breaks before anybody knows */
    CHAOS_LOSE_REQUEST,  /* the request never leaves, the connection breaks */
    CHAOS_BREAK_SENT,    /* breaks when the request has left */
    CHAOS_BREAK_REPLIED, /* breaks after the reply was handed to the client */
    CHAOS_BREAK_POLL,    /* breaks in a poll, with READs under way or without */
    CHAOS_DELAY,         /* an event, and all behind it, is held back for some polls */
    CHAOS_FAIL_CONNECT,  /* a connect is given up at one of its steps, or when it stands */
    CHAOS_FAULTS
};

/* Calls that can be made to fail. */
enum chaos_call {
    CHAOS_CONNECT_START,
    CHAOS_CONNECT_STEP, /* the connect is over */
    CHAOS_MEMORY_REGISTER,
    CHAOS_ADVERTISE,
    CHAOS_POST_READ, /* OKV_EDISCONNECTED and OKV_EIO break the connection, */
    CHAOS_POST_SEND, /* here too; nothing is posted with any code */
    CHAOS_HEARTBEAT, /* here too */
    CHAOS_CALLS
};

struct chaos_link;

struct chaos {
    uint64_t random;
    /* Each request, poll, event, connect meets a fault of its kind once in so many; 0: never.
     */
    uint32_t one_in[CHAOS_FAULTS];
    unsigned delay_polls_max; /* 0 means 3 */
    /* The next request meets this one, whatever one_in says; it is CHAOS_NONE again then. */
    enum chaos_fault next;
    /* Called when a request was lost or left or was answered and its connection is broken, before
     * the client can know; it may use other handles. May be NULL. */
    void (*on_break)(void *user, enum chaos_fault fault);
    void *user;

    uint64_t injected[CHAOS_FAULTS];
    uint64_t failed[CHAOS_CALLS];
    uint64_t breaks; /* connections that were broken */

    /* See chaos_fail. */
    unsigned countdown[CHAOS_CALLS];
    int code[CHAOS_CALLS];
    unsigned steps_left; /* of the connect under way, which fails then; 0: it does not */
    struct chaos_link *links;
};

/* Without faults, until the fields above say so. Same seed, same calls: same faults. */
void chaos_init(struct chaos *chaos, uint64_t seed);
/* Its handles must be closed. */
void chaos_fini(struct chaos *chaos);
/* What this thread's connects and calls meet from now on; NULL: nothing. A handle on which faults
 * are to be met is used, and closed, under the chaos that it was opened under. */
void chaos_use(struct chaos *chaos);
/* The n-th call from now, from 1, returns `code`, once. */
void chaos_fail(struct chaos *chaos, enum chaos_call call, unsigned nth, int code);

const char *chaos_fault_name(enum chaos_fault fault);

#endif
