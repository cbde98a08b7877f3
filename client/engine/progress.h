/* Passes of the engine: they poll events and check deadlines, and so move operations on. */
#ifndef OKV_CLIENT_ENGINE_PROGRESS_H
#define OKV_CLIENT_ENGINE_PROGRESS_H

#include "client/handle.h"

/* True when call_begin() last ran a while ago. */
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
/* The transport returned OKV_EDISCONNECTED: handles the events from before, such as the server's
 * goodbye, and then the loss of the connection. */
void engine_disconnected(okv *handle);
/* Posts the batch of READs with one doorbell and the queued messages with another. Handles the loss
 * of the connection if that fails, or if a message could not be posted before. */
void engine_flush(okv *handle);

#endif
