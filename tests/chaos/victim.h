/* Client processes that are killed or stopped: how a test runs chaos_victim. */
#ifndef OKV_TESTS_VICTIM_H
#define OKV_TESTS_VICTIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define VICTIMS_MAX 64
#define VICTIM_KEYS 64 /* all write to all of them: "victim0", ... */
#define VICTIM_LONG 150000

/* In memory that the test shares with its victims. */
struct victim_state {
    atomic_uint under_way;      /* puts that have no answer */
    atomic_uint long_under_way; /* of these, those that the server READs out of the victim */
    atomic_uint_fast64_t puts;  /* that were answered */
    atomic_int failure;         /* why it ended by itself */
    char why[256];              /* the same as a sentence */
};

struct victims {
    const char *uri;
    uint64_t seed;
    int fd;
    struct victim_state *states; /* VICTIMS_MAX */
    pid_t pids[VICTIMS_MAX];     /* 0: none */
    uint64_t started;
};

/* False: no memory. */
bool victims_init(struct victims *victims, const char *uri, uint64_t seed);
void victims_fini(struct victims *victims);
/*
 * Starts number `index`: "put" puts values, one after the other, "deep" keeps 32 operations under
 * way. False: no process.
 */
bool victim_start(struct victims *victims, unsigned index, const char *role);
/* Kills it with -9 and waits until it is gone. */
void victim_kill(struct victims *victims, unsigned index);
/* Whether it ended by itself. */
bool victim_has_ended(struct victims *victims, unsigned index);

#endif
