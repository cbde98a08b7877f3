/*
 * Two clients of one thread: one whose connections break while its writes are under way,
 * and a plain one that competes with it for the same keys. exactly_once_test.c says what is
 * held. Nothing here fails a test itself: `failure` says what is wrong.
 */
#ifndef OKV_TESTS_EXACTLY_ONCE_H
#define OKV_TESTS_EXACTLY_ONCE_H

#include <okv.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/support/chaos_transport.h"

#define LOG_MAX 2048u /* bytes of the log of the first part; it begins again then */
#define LARGE 40000u  /* bytes of a value that the server rendezvous reads */

#define STORM_DEPTH 8u
#define STORM_COUNTERS 4u
#define STORM_RECORD 16u      /* bytes */
#define STORM_LOG_RECORDS 64u /* of one pair in one log, about */

/* A write of the second part that succeeded: what it was told. */
struct told {
    unsigned counter; /* or, for records, the log */
    uint64_t number;  /* the sum; or the record's own number */
    size_t end;       /* of the record: the log's length */
};

struct told_list {
    struct told *entries;
    size_t count, size;
};

struct pair {
    unsigned number;
    unsigned rounds;
    uint64_t random;
    pthread_t thread;
    struct chaos chaos;
    okv *broken, *plain;
    char failure[256];
    uint64_t writes; /* of both */

    /* Of the round that is under way. */
    unsigned form, round;
    bool competed;
    struct okv_result other; /* the competitor's */
    uint64_t version;        /* that a conditional write demands */
    int64_t sum;             /* that the counter has before */
    char log[LOG_MAX];
    size_t log_length;
    uint8_t value[LARGE], value2[LARGE], got[LARGE];

    /* Of the storm. */
    unsigned submitted;
    struct told_list sums, records;
};

/* pthread_create's. */
void *pair_run_rounds(void *pair);
void *pair_run_storm(void *pair);
void pair_fini(struct pair *pair);
/* After every pair's storm; NULL or what is wrong. The sentence is static or the pair's. */
const char *storm_check(struct pair *pairs, unsigned count);

/* Notes the first failure; false. */
bool pair_fail(struct pair *pair, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
