/* Heartbeats: they show whether the server's host still responds. */
#ifndef OKV_CLIENT_CONNECTION_KEEPALIVE_H
#define OKV_CLIENT_CONNECTION_KEEPALIVE_H

#include "client/handle.h"

/* Starts on the present connection. */
void keepalive_start(okv *handle);
/* Runs a tick that is due: sends a heartbeat, or reports the connection as lost. */
void keepalive_tick(okv *handle, uint64_t now);
/* When the next tick is due; UINT64_MAX when nothing waits for the server. */
uint64_t keepalive_wake_ns(const okv *handle);

#endif
