/* Events and deadlines: what moves operations from step to step. */
#ifndef OKV_CLIENT_ENGINE_PROGRESS_H
#define OKV_CLIENT_ENGINE_PROGRESS_H

#include "client/handle.h"

/* What a call begins with: returns the clock. Before that a handle that nobody looked at for a
 * while hears what happened meanwhile, such as the end of its connection. */
uint64_t engine_begin(okv *handle);
/* Whether nobody looked for a while. */
bool engine_is_stale(const okv *handle, uint64_t now);
/* Hears what happened, whenever anybody looked last. */
void engine_catch_up(okv *handle);
/* One pass over events, blocked operations and deadlines. Returns whether anything happened. */
bool engine_progress(okv *handle);
/* Handles one event of the transport. */
void engine_event(okv *handle, const struct okv_event *event);
/* Handles what a poll of the connection returned. */
void engine_dispatch(okv *handle, const struct okv_event *events, int count);
/* Handles what events there are, up to a turn's. Returns how many, or a negative code. */
int engine_events(okv *handle);
/* Makes the handle unusable: ends every operation and says why. */
void engine_fail(okv *handle, int failure, const char *sentence);
/* The connection is lost, as the transport said by OKV_EDISCONNECTED: what came before, such
 * as the server's goodbye, is heard first. */
void engine_disconnected(okv *handle);
/* Posts the batch with one doorbell, and what messages were queued with another. When that
 * fails the connection is lost, and when a message could not be posted before. */
void reads_flush(okv *handle);

#endif
