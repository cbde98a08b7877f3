/*
 * How a worker ends its sessions: docs/connections.md section 6.
 *
 *   drain    answers requests, tells every client goodbye and waits for all to leave
 *   settle   waits until the last messages have left
 *   end      closes the connections that remain
 *
 * A server whose device failed skips the first two.
 */
#ifndef OKV_SERVER_WORKER_SHUTDOWN_H
#define OKV_SERVER_WORKER_SHUTDOWN_H

#include <stdint.h>

#include "server/session/sessions.h"

/* The worker's pass: serves what has come, and sleeps at most so long when nothing has. */
struct okv_shutdown {
    struct okv_sessions *sessions;
    void (*progress)(void *worker, int longest_sleep_ms);
    void *worker;
};

/* Ends the worker's sessions. Returns when it gives up on those that are left, a time of
 * okv_clock_ns(). */
uint64_t okv_shutdown_run(const struct okv_shutdown *shutdown);

/* Ends the sessions that the acceptor let in meanwhile; gives up after a second, but not before
 * `until_ns`. */
void okv_shutdown_end_late(const struct okv_shutdown *shutdown, uint64_t until_ns);

#endif
