/*
 * Long work: the long writes of a worker's sessions that have copies and checksums to make.
 *
 * A pass makes one slice in all, so a request waits for one slice at most, however many long writes
 * there are. Databases take turns, and so do the writes of each: one with more to do joins the end
 * of the queue. Those that are held up have a queue of their own, of which a turn tries a few. With
 * --wipe there is another slice for freed memory.
 */
#ifndef OKV_SERVER_SESSION_LONG_WORK_H
#define OKV_SERVER_SESSION_LONG_WORK_H

#include "server/session/sessions.h"

/* Bytes of a slice, after which others have their turn. */
#define OKV_LONG_WORK_SLICE (256u << 10)

/* A long write that runs. */
void okv_long_work_add(struct okv_sessions *sessions, struct okv_long_write *write);
/* Makes one slice. Sessions whose writes ended join the ready queue. Returns the number of writes
 * that went on, or of other work; 0: no write can go on. */
unsigned okv_long_work_run(struct okv_sessions *sessions);
/* The session's connection has closed: drops its long writes. */
void okv_long_work_drop(struct okv_sessions *sessions, struct okv_session *session);

#endif
