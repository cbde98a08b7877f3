/*
 * Credits and request slots: docs/connections.md section 2. The server grants a number of credits;
 * each is a numbered slot that a request takes and its reply gives back.
 */
#ifndef OKV_CLIENT_ENGINE_REQUEST_SLOTS_H
#define OKV_CLIENT_ENGINE_REQUEST_SLOTS_H

#include "client/handle.h"

/* All slots are free but for those that are held: a new connection may have granted others. */
void request_slots_reset(okv *handle);
/* Gives the operation a slot, of which there is one, and its request a number. */
void request_slot_take(okv *handle, struct operation *operation);
/* Whether the next request has a slot and a buffer. */
bool request_has_room(const okv *handle);
/* Whether an answer is owed on this connection. */
bool request_is_owed(const okv *handle);
/* No answer to the operation's request is waited for, if one was: its slot is free. */
void request_forget(okv *handle, struct operation *operation);

#endif
