/* Passes of the engine: they poll events and check deadlines, and so move operations on. */
#ifndef OKV_CLIENT_ENGINE_PROGRESS_H
#define OKV_CLIENT_ENGINE_PROGRESS_H

#include "client/engine/upcalls.h"
#include "client/handle.h"

/* Sends a report if it is due. Only where events may be handled. */
static inline void engine_report(okv *handle, uint64_t now)
{
    if (now >= handle->reporting.due_ns)
        handle->upcalls->report(handle, now);
}
/* Begins a call that starts operations; fast_get() does without it. Returns the clock. An idle
 * handle that was not polled for a while catches up first: it may learn that its connection has
 * ended. */
uint64_t engine_begin(okv *handle);
/* True when engine_begin() last ran a while ago. */
bool engine_is_stale(const okv *handle, uint64_t now);
/* Handles all that happened since the last pass, such as the end of the connection. Operations that
 * are under way may end in it. */
void engine_catch_up(okv *handle);
/* One pass over events, blocked operations and deadlines. Returns whether anything happened. */
bool engine_progress(okv *handle);
/* Handles one event of the transport. */
void engine_event(okv *handle, const struct okv_event *event);
/* Handles the result of a poll of the connection. */
void engine_dispatch(okv *handle, const struct okv_event *events, int count);
/* Polls once and handles the events. Returns how many, or a negative code. */
int engine_events(okv *handle);
/* Makes the handle unusable: ends every operation and keeps the sentence for okv_why(). */
void engine_fail(okv *handle, int failure, const char *sentence);
/* The transport returned OKV_EDISCONNECTED: handles the events from before, such as the server's
 * goodbye, and then the loss of the connection. */
void engine_disconnected(okv *handle);
/* Posts the batch of READs with one doorbell and the queued messages with another. Handles the loss
 * of the connection if that fails, or if a message could not be posted before. */
void engine_flush(okv *handle);

#endif
