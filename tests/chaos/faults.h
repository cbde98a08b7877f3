/*
 * Faults of the network between the two devices, by netem on both ends of the veth pair, and
 * the counters that show that they happened.
 */
#ifndef OKV_TESTS_FAULTS_H
#define OKV_TESTS_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/chaos/battery.h"

enum faults_end {
    FAULTS_SERVER = 1, /* what the server sends */
    FAULTS_CLIENTS = 2,
    FAULTS_BOTH = 3,
};

/* Since the devices were made: the sum of both ends. */
struct faults_counters {
    uint64_t dropped[2];    /* by netem: at the server's end, at the clients' */
    uint64_t sent, packets; /* by the devices; received by them, and not damaged */
    uint64_t retries;       /* a requester began again for want of an answer */
    uint64_t exceeded;      /* it gave up */
    uint64_t duplicates;    /* requests that were answered before */
    uint64_t gaps;          /* requests or answers out of sequence */
    uint64_t not_ready;     /* receivers without a buffer */
};

/* Installs netem with no fault. Fails the test when it cannot. */
void faults_begin(struct battery *battery);
/* `what` is netem's words, "loss 1%"; NULL: no fault. The other end stays as it is. */
void faults_set(struct battery *battery, enum faults_end end, const char *what);
void faults_read(struct battery *battery, struct faults_counters *out);
/* now - before, field by field. */
struct faults_counters faults_since(const struct faults_counters *before,
                                    const struct faults_counters *now);

#endif
