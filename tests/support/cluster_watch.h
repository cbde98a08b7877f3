/* Clients of a cluster that watch it through faults: one puts rising numbers under one key and
 * notes how long none was acknowledged, and some get that key in bursts. A get is wrong if its
 * number is below one that was acknowledged before it began. */
#ifndef OKV_TESTS_CLUSTER_WATCH_H
#define OKV_TESTS_CLUSTER_WATCH_H

#include <okv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CLUSTER_WATCHED "watched" /* the key; its value is a uint64_t */
#define CLUSTER_READERS 2

struct cluster_watch;

struct cluster_watcher {
    struct cluster_watch *watch;
    pthread_t thread;
    okv *handle;
    char wrong[256]; /* why it ended before it had to; "": nothing */
};

struct cluster_watch {
    struct cluster_watcher writer, readers[CLUSTER_READERS];
    unsigned running; /* readers */
    bool has_writer;
    atomic_bool has_to_stop, is_wrong;
    atomic_uint_fast64_t number;  /* of the last put */
    atomic_uint_fast64_t told;    /* the last one that was acknowledged */
    atomic_uint_fast64_t epoch;   /* of the server that acknowledged it */
    atomic_uint_fast64_t put_ns;  /* the longest time without an acknowledgement */
    atomic_uint_fast64_t get_ns;  /* the longest get */
    atomic_uint_fast64_t gets;    /* that were right */
    atomic_uint_fast64_t unknown; /* puts */
};

/* `watch` is all zeros. Returns once a put is acknowledged. */
void cluster_watch_start(struct cluster_watch *watch, const char *uri,
                         const struct okv_options *options);
/* Waits until a server of a later epoch acknowledges a put. */
void cluster_watch_await_epoch(struct cluster_watch *watch, uint64_t after);
/* Ends the threads, if they run. */
void cluster_watch_stop(struct cluster_watch *watch);
/* After a stop: fails the test if one of them saw something wrong. */
void cluster_watch_check(const struct cluster_watch *watch);

#endif
