/*
 * What all tests of the battery have in common: their options, their seed, and the one line
 * with which they end:
 *
 *   battery NAME: held ...; injected ...; checked ...; ok in 31 s, OKV_TEST_SEED=7
 *
 * All of it is for the program's main thread.
 */
#ifndef OKV_TESTS_BATTERY_H
#define OKV_TESTS_BATTERY_H

#include <stdbool.h>
#include <stdint.h>

struct battery {
    const char *name;
    uint64_t seed;
    uint64_t random; /* state for random_next() */
    bool is_long;    /* --long, or OKV_LONG=1 */
    bool weak;       /* --weak: see battery_usage */
    char **words;    /* arguments that are no options */
    int word_count;
    uint64_t begin_ns;
    unsigned failures;
    bool ended;
    char held[256], injected[512], checked[512];
};

/*
 * Reads the options and prints the seed. Ends the program with status 77 when it does not run
 * on two devices that a veth pair joins, and after --help. `about` is for --help. A program
 * that ends without battery_end() prints a line of its own.
 */
void battery_begin(struct battery *battery, const char *name, const char *about, int argc,
                   char **argv);

/* Something is not as it must be; the test may go on. Prints the sentence to stderr. */
void battery_fail(struct battery *battery, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Says something on the way, to stderr. */
void battery_note(struct battery *battery, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Add to the parts of the line; parts are separated by commas. */
void battery_held(struct battery *battery, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void battery_injected(struct battery *battery, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void battery_checked(struct battery *battery, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints the line; the exit status, 0 when nothing failed. */
int battery_end(struct battery *battery);

/* Sleeps so long. */
void battery_sleep(double seconds);
/*
 * Whether what came at `to_ns` came later than was promised: in so many seconds from `from_ns` on.
 * What comes a little later is not late: threads wait for one of few processors, emulated ones
 * perhaps. Neither is what comes later by as much as the machine stood still meanwhile, twice: see
 * stalls.h.
 */
bool battery_is_late(uint64_t from_ns, uint64_t to_ns, double seconds);
/* Sleeps for as long as what was promised so is not late. */
void battery_await_promise(uint64_t from_ns, double seconds);

#endif
