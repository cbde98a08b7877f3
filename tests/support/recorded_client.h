/*
 * Clients that hammer a few keys, registers and counters, with everything a client can do to
 * them, and record what they did and saw in a history.
 *
 * Each client is a thread with a handle of its own. Some wait for each operation, others have
 * many under way; some read several keys at once; some read into registered memory, some
 * remember no extents. Now and then one drops its connection with operations under way, whose
 * outcome nobody learns then.
 */
#ifndef OKV_TESTS_RECORDED_CLIENT_H
#define OKV_TESTS_RECORDED_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <okv.h>

#include "tests/support/history.h"

#define RECORDED_REGISTERS 48
#define RECORDED_COUNTERS 16
#define RECORDED_KEYS (RECORDED_REGISTERS + RECORDED_COUNTERS)
#define RECORDED_KEY_MAX 1000
#define RECORDED_KINDS 8

struct recorded_key {
    uint8_t bytes[RECORDED_KEY_MAX];
    size_t length;
};

/* What all clients share. */
struct recorded_load {
    const char *uri;
    uint64_t seed;
    uint64_t operations;          /* all clients together */
    uint64_t until_ns;            /* when to end although there were fewer; 0: never */
    uint64_t reconnect_every;     /* operations of one client, about; 0: never */
    const atomic_bool *and_until; /* go on until this is set as well; may be NULL */
    bool until_broken;            /* end at the first value that is broken */
    uint32_t timeout_ms;          /* deadline of each operation; 0: none that a test meets */
    uint32_t pause_ms;            /* of a client between its calls: for a load that lasts */
    unsigned readers;             /* so many clients, the first ones, do not write */
    uint64_t numbers_from;        /* of values, below 2^40: so that two loads share none */
    bool reopen;                  /* when a handle fails for good, open another */
    struct recorded_key keys[RECORDED_KEYS];
    atomic_uint opened; /* handles, by all clients */
    atomic_uint_fast64_t begun;
    atomic_uint_fast64_t written; /* what was acknowledged and is no get */
    atomic_uint_fast64_t broken;  /* values that nobody wrote */
    atomic_int failure;           /* of a handle: why a client ended before its time */
};

struct recorded_slot {
    struct history_record record;
    uint8_t *value;
    uint8_t *buffer;
    bool busy;
};

struct recorded_client {
    struct recorded_load *load;
    pthread_t thread;
    unsigned index;
    unsigned depth; /* operations under way; 1: waits for each */
    uint64_t random;
    uint64_t numbers; /* of values written */
    uint64_t reconnect_at;
    okv *handle;
    okv_registration *registration;
    uint8_t *memory;
    struct recorded_slot *slots;
    uint64_t latest[RECORDED_KEYS]; /* version that was last seen of each key */
    struct history_log log;
    struct okv_counters counters;   /* of all its handles */
    uint64_t kinds[RECORDED_KINDS]; /* operations by enum recorded_kind */
    uint64_t unknown, failed;       /* of these, without a result */
    uint64_t reopened;              /* handles, because the one before failed */
    int last_failure;               /* of one operation */
    char broken_text[128];          /* about the first broken value */
};

/* Fills in the keys. The caller sets the rest before. */
void recorded_load_init(struct recorded_load *load);

/* Starts the thread. False: no memory, or no thread. */
bool recorded_client_start(struct recorded_client *client, struct recorded_load *load,
                           unsigned index);
/* Waits until it ends. Its log is the caller's then. */
void recorded_client_join(struct recorded_client *client);

/* Which kind kinds[i] counts: "get", "incr", ... */
const char *recorded_kind_name(unsigned kind);

/*
 * A HEAD tells the version and not the value. In the log it is a GET with the value 0; here it
 * gets the value that others saw or wrote with that version, and its length is checked. Returns
 * how many HEADs told what cannot be; `text` is about one of them. To be called before a check.
 */
size_t recorded_heads_resolve(const struct history *history, char *text, size_t size);

#endif
