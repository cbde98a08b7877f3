/* The life of a connection: lost, closed, made again. */
#ifndef OKV_CLIENT_CONNECTION_RECONNECT_H
#define OKV_CLIENT_CONNECTION_RECONNECT_H

#include "client/handle.h"

/* The connection is of no use any more. A handle that never reconnects fails with `code`. With
 * OKV_EDISCONNECTED the sentence is followed by what the device said. */
void link_lost(okv *handle, int code, const char *sentence);
/* A READ ended that is the attempt's or the status's. */
void link_read_done(okv *handle, uint64_t cookie, int status);
/* The server said GOODBYE. */
void link_goodbye(okv *handle);
/* Goes from state to state as far as it can without blocking; not while LINK_UP. Returns whether
 * it did. */
bool link_advance(okv *handle);
/* When link_advance() or keepalive_tick() has something to do at the latest; UINT64_MAX. */
uint64_t link_wake_ns(const okv *handle);
/* What becomes readable when link_advance() or engine_events() has something to do; -1. */
int link_fd(const okv *handle);
/* The first connection, blocking: one attempt. */
int link_open(okv *handle);
/* Blocks until there is a connection. OKV_ETIMEDOUT, the handle's failure. */
int link_await(okv *handle, uint64_t deadline_ns);
/* Ends the connection or the attempt, now: operations wait. */
void link_drop(okv *handle);
/* The end of the handle: tells the server, if that can be done in no time. */
void link_goodbye_say(okv *handle);

#endif
