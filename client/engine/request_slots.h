/*
 * Credits and request slots: docs/connections.md section 2. The server grants a number of credits.
 * A request takes a numbered slot, and its reply frees it.
 */
#ifndef OKV_CLIENT_ENGINE_REQUEST_SLOTS_H
#define OKV_CLIENT_ENGINE_REQUEST_SLOTS_H

#include "client/handle.h"

/* Sets the free slots for a new connection, which may have granted another number. */
void request_slots_reset(okv *handle);
/* Assigns a free slot, which must exist, and a sequence number. */
void request_slot_acquire(okv *handle, struct operation *operation);
/* True when the next request can have a slot and a send buffer. */
bool request_has_room(const okv *handle);
/* True when a reply is owed on this connection. */
bool request_is_owed(const okv *handle);
/* Stops waiting for a reply to the operation, and frees its request slot if it has one. */
void request_forget(okv *handle, struct operation *operation);

#endif
