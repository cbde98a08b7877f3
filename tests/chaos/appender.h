/*
 * A client that appends numbered entries to logs, one at a time, and remembers what came of
 * each: afterwards an entry that was acknowledged must be there once and in its order, one
 * without an answer at most once, one that certainly failed not at all.
 */
#ifndef OKV_TESTS_APPENDER_H
#define OKV_TESTS_APPENDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <okv.h>

#define APPENDER_TEXT 160

struct appender {
    const char *uri;
    unsigned index;      /* which one of several: names its keys */
    uint32_t timeout_ms; /* deadline of each append */
    bool reopen;         /* when the handle fails for good, open another */
    const atomic_bool *stop;
    atomic_bool opened; /* the first handle */
    pthread_t thread;
    uint8_t *outcomes; /* of entry i: 'a'cknowledged, 'u'nknown, 'f'ailed */
    uint64_t count, capacity;
    uint64_t slowest_ns; /* append, and when it began */
    uint64_t slowest_begin_ns;
    uint64_t reopened;             /* handles */
    int failure;                   /* of the handle */
    char complaint[APPENDER_TEXT]; /* an answer that cannot be; "" */
};

/* Of one appender, after appender_join(). */
struct appender_counts {
    uint64_t acknowledged, unknown, failed;
    uint64_t unknown_done; /* of those without an answer */
};

/* The caller has set uri to stop. False: no memory or no thread. */
bool appender_start(struct appender *appender);
void appender_join(struct appender *appender);
/* Reads the logs; `text` becomes "" when they are right, or says what is wrong. Frees. */
void appender_check(struct appender *appender, okv *handle, struct appender_counts *counts,
                    char text[APPENDER_TEXT]);

#endif
