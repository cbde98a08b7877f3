/*
 * A real table whose content proves itself: for readers that copy its bytes while
 * writers change it.
 *
 * Keys come in groups. All keys of a group are in one bucket whatever the size of the
 * index, and one thread changes them in steps: step n puts or deletes the key number
 * n mod keys, with n as the counter in the value. So one number says what all of a
 * group must be at a moment, and a mixture of two moments is no state at all.
 *
 * Fillers are further keys, all over the table, that come and go, so that the
 * index grows and shrinks. A value is a function of its key and of a counter.
 */
#ifndef OKV_TESTS_TORN_TABLE_H
#define OKV_TESTS_TORN_TABLE_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/store/commands.h"
#include "server/store/store.h"

#define TORN_GROUPS 2
#define TORN_KEYS_MAX 32
#define TORN_FILLERS_MAX 2048
#define TORN_KEY_SIZE 8
#define TORN_VALUE_MIN 16 /* the counter, and as much that proves it */
#define TORN_VALUE_MAX 4096
#define TORN_VERSIONS 1024
/* Keys are numbered: those of group g from g * TORN_KEYS_MAX on, then the fillers. */
#define TORN_FIRST_FILLER (TORN_GROUPS * TORN_KEYS_MAX)
#define TORN_IDS (TORN_FIRST_FILLER + TORN_FILLERS_MAX)

struct torn_shape {
    const char *name;
    uint32_t bucket_size;
    unsigned keys;      /* in each group */
    uint32_t small_max; /* bytes of the longest small value */
    unsigned large;     /* one value in so many is large, up to TORN_VALUE_MAX; 0: none */
    unsigned fillers;
};

struct torn_group {
    uint64_t hash; /* agrees with that of every key of the group as far as any depth goes */
    alignas(64) atomic_uint_fast64_t begun;       /* step under way or done */
    alignas(64) atomic_uint_fast64_t done;        /* steps that were answered */
    atomic_uint_fast64_t versions[TORN_VERSIONS]; /* of the last steps, modulo TORN_VERSIONS */
};

struct torn_table {
    const struct torn_shape *shape;
    uint8_t *base;
    uint64_t length;
    struct okv_store store;
    struct torn_group groups[TORN_GROUPS];
    uint8_t keys[TORN_IDS][TORN_KEY_SIZE];
};

/* Fails the test when it cannot be made. */
void torn_table_open(struct torn_table *table, const struct torn_shape *shape, uint64_t seed);
void torn_table_close(struct torn_table *table);

/* The value of a key with a counter; returns its length. */
uint32_t torn_value(const struct torn_shape *shape, unsigned id, uint64_t counter,
                    uint8_t value[TORN_VALUE_MAX]);

/* Whether step `step` of a group deletes; never its key 0, so no group is ever empty. */
bool torn_step_deletes(const struct torn_shape *shape, unsigned group, uint64_t step);

/* The counter that key `key` of a group has after `steps` steps; 0: it is not there. */
uint64_t torn_counter_after(const struct torn_shape *shape, unsigned group, uint64_t steps,
                            unsigned key);

/* Whether the item that a step of a group put may have this version: when the step was answered
 * with another one, it may not. */
bool torn_version_may_be(struct torn_table *table, unsigned group, uint64_t step, uint64_t version);

/* The next step of a group, by its one writer; 0 or a code of okv_store_put(). */
int torn_step(struct torn_table *table, struct okv_store_work *work, unsigned group);
/* The next change to a filler: all are put, then all deleted, and so on. `*next` begins at 0. */
int torn_fill(struct torn_table *table, struct okv_store_work *work, uint64_t *next);

static inline uint64_t torn_mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

#endif
