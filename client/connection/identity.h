/* The client's proof of identity, and the check of the server's: docs/protocol.md section 1.4. */
#ifndef OKV_CLIENT_CONNECTION_IDENTITY_H
#define OKV_CLIENT_CONNECTION_IDENTITY_H

#include "client/handle.h"

/* Reads user and key file of the options; without them the handle has no user. OKV_EINVAL (one
 * without the other, an invalid name), OKV_EPERM and the other errors of okv_user_key_read(). */
int identity_init(okv *handle, const struct okv_options *options);
void identity_fini(okv *handle);

/* The hello that begins an attempt. */
void identity_begin(okv *handle, const struct okv_hello *hello, struct okv_wire_hello *out);
/* The okv_next_hello of a handle: answers a challenge. Reads the key file again if the server
 * refuses the key. */
okv_next_hello identity_next_hello;
/* True when a welcome comes from a server that knows the user's key, or without a user. Remembers
 * the result. */
bool identity_is_proven(okv *handle, const uint8_t *welcome, size_t length);
/* True when the server of this attempt may be anyone: there is a user, and no proof came. */
bool identity_is_doubtful(const okv *handle);
/* True when there is a user, and the server of this attempt has proven that it knows the key. */
bool identity_is_known(const okv *handle);
/* Reads the key file again. True when it has another key, which the next attempt uses. */
bool identity_renew(okv *handle);

#endif
