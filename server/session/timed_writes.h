/*
 * Times of writes, for the histogram of their database: from when the worker takes a write to when
 * it posts the reply. What the write waits for counts, too: its turn, memory, the log. Only writes
 * that end with OKV_OK count: a server that refuses all of them is not quick.
 *
 * Of the requests of a session one in 61 is timed, if it is a write and no other one is: the server
 * reads no clock for the others. The number is a prime, so that a client that sends batches has a
 * write of each place timed. Which request is the first depends on the session.
 */
#ifndef OKV_SERVER_SESSION_TIMED_WRITES_H
#define OKV_SERVER_SESSION_TIMED_WRITES_H

#include <stdbool.h>
#include <stdint.h>

struct okv_session;
struct okv_sessions;

#define OKV_TIMED_WRITES_ONE_IN 61u

/* A request has acquired its slot. */
void okv_timed_write_begin(struct okv_session *session, unsigned opcode, uint16_t request_slot);
/* The request in this slot has ended; `is_done`: as a write that was done. Its reply is posted. */
void okv_timed_write_end(struct okv_sessions *sessions, struct okv_session *session,
                         uint16_t request_slot, bool is_done);

#endif
