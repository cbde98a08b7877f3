/*
 * Makes one call of a run fail.
 *
 * The code under test is linked with --wrap for the functions of wrap_*.c, so that its
 * own calls come here and those of libc, cmocka and the sanitizers do not. Each call
 * offers one or more ways to fail; a pair of a call and a way is a point. Points of one
 * side are counted from 1; the plan names the one that fails, once.
 *
 * A site is a call in the code, seen by one side: its return address tells it. Sites and
 * plan lie in memory that forked children share, so that the parent sees what they met.
 */
#ifndef OKV_TESTS_INJECT_H
#define OKV_TESTS_INJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INJECT_SITES_MAX 2048
/* Return addresses of the frames above a failure, for people. */
#define INJECT_FRAMES 8

enum inject_side { INJECT_CLIENT, INJECT_SERVER, INJECT_SIDES };

/* Ways to fail other than an errno. */
enum { INJECT_SHORT = -1, INJECT_NOTHING = -2 };

struct inject_site {
    atomic_uintptr_t
        offset; /* of the return address in the program, with the side in bit 63; 0: free */
    const char *function;
    atomic_uint calls;      /* in the runs without failure */
    atomic_uint last_clean; /* number of the last of those runs that met it, from 1 */
    atomic_uint clean;      /* how many of the same plan did */
    bool steady;            /* all of some plan did */
    atomic_uint points;
    atomic_uint failed; /* times that it was made to fail */
    bool late;          /* met only after a failure */
};

struct inject_plan {
    enum inject_side side;
    uint64_t nth;    /* the point that fails; 0: none */
    uint64_t offset; /* count only the points of this site; 0: of all */
};

struct inject_failure {
    atomic_bool happened;
    const char *function;
    int way;
    uintptr_t offset;
    uintptr_t frames[INJECT_FRAMES];
    unsigned frame_count;
};

struct inject_shared {
    struct inject_plan plan;
    unsigned clean; /* runs without failure, with this one if it is one */
    atomic_bool armed;
    atomic_uint_fast64_t
        points[INJECT_SIDES]; /* passed in this run, of those that the plan counts */
    struct inject_failure failure;
    struct inject_site sites[INJECT_SITES_MAX];
    atomic_uint lost; /* sites that found no place */
};

extern struct inject_shared *inject;

/* Once, before any child. */
void inject_init(void);
/* For the next run: nothing passed, nothing failed. */
void inject_plan(const struct inject_plan *plan);
/* From now on this thread is the client, and the others are the server. */
void inject_be_client(void);
/* Points of this thread count, or do not. Threads begin with true. */
void inject_watch(bool watch);

/* Asks whether this call fails: 0, or the way. `ways` has `count`. */
int inject_point(const char *function, const void *caller, const int *ways, unsigned count);

/* Index of a site in inject->sites by offset and side, or NULL. */
const struct inject_site *inject_site_find(uintptr_t offset, enum inject_side side);
static inline uintptr_t inject_site_offset(const struct inject_site *site)
{
    return atomic_load(&site->offset) & ~((uintptr_t)1 << 63);
}
static inline enum inject_side inject_site_side(const struct inject_site *site)
{
    return atomic_load(&site->offset) >> 63 ? INJECT_SERVER : INJECT_CLIENT;
}

/* Ends the connection that the client opened last, as a network would; wrap_*.c. */
void inject_cut_local(void);
void inject_cut_verbs(void);

#endif
