/*
 * Writers of rising numbers and a one-sided reader, on a durable server that is killed meanwhile;
 * and whether what they know is there afterwards.
 *
 * A name is a key whose value carries a number (numbered_value.h), or a counter. One writer has
 * it, and writes the number after the last one that was answered, so that the value is always what
 * somebody knows or the next. A writer ends at its first write without an answer.
 */
#ifndef OKV_TESTS_DURABLE_LOAD_H
#define OKV_TESTS_DURABLE_LOAD_H

#include <stdatomic.h>
#include <stdint.h>

#include "tests/support/server_process.h"

enum {
    DURABLE_WRITERS = 3,
    DURABLE_KEYS = 9,
    DURABLE_NAMES = DURABLE_KEYS + DURABLE_WRITERS, /* a counter for each writer */
};

struct durable_fact {
    uint64_t number, version; /* 0: the name has no value yet */
};

struct durable_facts {
    struct durable_fact of[DURABLE_NAMES];
};

/* A fact that is older than what is known changes nothing. */
void durable_facts_learn(struct durable_facts *facts, unsigned name, struct durable_fact fact);
/* Each name's value is whole, and the one that is known or the next. Fails the test otherwise.
 * *found (may be NULL) is what is there. */
void durable_facts_check(const struct durable_facts *facts, const struct server_process *server,
                         struct durable_facts *found);

struct durable_load {
    /* Called by the thread that was just answered, or saw a value; NULL: nobody wants to know. */
    void (*note)(void *user, unsigned name, struct durable_fact fact);
    void *user;
    struct durable_facts known;
    /* While it runs: */
    struct durable_facts answered, seen;
    atomic_uint answers;
    atomic_bool has_to_stop;
    _Atomic(const char *) wrong;
};

/* Has the writers go on until so many writes more were answered, and kills the server. With a
 * snapshot, one is made after half of them. Zero `load` before the first time. */
void durable_load_run(struct durable_load *load, struct server_process *server, unsigned writes,
                      bool with_snapshot);
/* What is known is there, after a start. It notes and learns what else is. */
void durable_load_check(struct durable_load *load, const struct server_process *server);

#endif
