/*
 * Clients whose operations are recorded, and clients that append to logs, while something
 * goes wrong; and the judgement on what they did and saw.
 */
#ifndef OKV_TESTS_TRAFFIC_H
#define OKV_TESTS_TRAFFIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/chaos/appender.h"
#include "tests/chaos/battery.h"
#include "tests/support/history.h"
#include "tests/support/recorded_client.h"

#define TRAFFIC_CLIENTS 8
#define TRAFFIC_APPENDERS 2
struct traffic {
    struct battery *battery;
    const char *uri;
    uint32_t timeout_ms;
    struct recorded_load load;
    struct recorded_client clients[TRAFFIC_CLIENTS];
    struct appender appenders[TRAFFIC_APPENDERS];
    unsigned appender_count;
    atomic_bool stop;
    uint64_t begin_ns, end_ns; /* when they were started, and when told to end */
    struct history history;
    uint64_t unknown, failed, reopened;
};

/* Empties the table and starts clients; `round` makes values unique among several. Without
 * `with_logs` no appenders. Fails the test when it cannot. */
void traffic_start(struct traffic *traffic, struct battery *battery, const char *uri,
                   unsigned round, uint32_t timeout_ms, bool with_logs);
/* Ends the clients; their history is there then. */
void traffic_stop(struct traffic *traffic);
/* Adds to the history what a fresh client reads of every key. */
void traffic_read_all(struct traffic *traffic);

/* Each of these fails the test when it does not hold. */
void traffic_check_order(struct traffic *traffic);     /* linearizable, nothing acked is lost */
void traffic_check_logs(struct traffic *traffic);      /* each append once; reads the table */
void traffic_check_deadlines(struct traffic *traffic); /* no operation took longer */
/* Every client had an answer in each window of so many seconds between two moments. */
void traffic_check_progress(struct traffic *traffic, uint64_t from_ns, uint64_t to_ns,
                            double seconds);
/* Every client had an answer within so many seconds after a moment; returns the last one's. */
double traffic_check_back(struct traffic *traffic, uint64_t from_ns, double seconds,
                          const char *what);
void traffic_fini(struct traffic *traffic);

/* Judges a history that is not the traffic's whole one; `what` is for people. */
void traffic_judge(struct battery *battery, struct history *history, const char *what);
/* Whether an operation ended with an answer of the table. */
bool traffic_is_answer(const struct history_record *record);

#endif
