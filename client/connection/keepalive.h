/* Finding out that the server's host is gone. */
#ifndef OKV_CLIENT_CONNECTION_KEEPALIVE_H
#define OKV_CLIENT_CONNECTION_KEEPALIVE_H

#include "client/handle.h"

/* From now on, on this connection. */
void keepalive_start(okv *handle);
/* Does what a tick demands, whose time has come; link_lost() when the server is dead. */
void keepalive_tick(okv *handle, uint64_t now);
/* When the next one is; UINT64_MAX when nothing is waited for. */
uint64_t keepalive_wake_ns(const okv *handle);

#endif
