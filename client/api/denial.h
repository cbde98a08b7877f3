/* The sentence about a call that the server denied: okv_why() has it until the next call. */
#ifndef OKV_CLIENT_API_DENIAL_H
#define OKV_CLIENT_API_DENIAL_H

#include "client/handle.h"

/* wait_operation(). After OKV_EDENIED on a connection that stays, okv_why() names the right that
 * the user lacks. It learns no more than it knew: only a user with a right in the database is
 * connected. */
int denial_wait(okv *handle, struct operation *operation, struct okv_result *result);

#endif
