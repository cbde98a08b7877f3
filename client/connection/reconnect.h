/* The states of the link: client/handle.h has the picture. */
#ifndef OKV_CLIENT_CONNECTION_RECONNECT_H
#define OKV_CLIENT_CONNECTION_RECONNECT_H

#include "client/handle.h"

/* A READ of an attempt or of the status has ended. */
void link_read_done(okv *handle, uint64_t cookie, int status);
/* Advances from state to state as far as possible without blocking; not while LINK_UP. Returns
 * whether it did. */
bool link_advance(okv *handle);
/* When link_advance() or keepalive_tick() is due at the latest; UINT64_MAX: never. */
uint64_t link_wake_ns(const okv *handle);
/* A descriptor that becomes readable for link_advance() or engine_events();
 * -1: none. */
int link_fd(const okv *handle);
/* The attempt has failed with `rc`, and link_drop() was called: LINK_BACKOFF, before an attempt to
 * the next server. */
void link_go_on(okv *handle, int rc);
/* The verified connection of the attempt becomes the handle's. */
void link_up(okv *handle);
/* Ends the connection or the attempt at once. Operations wait for the next connection. */
void link_drop(okv *handle);

#endif
