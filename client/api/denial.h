/* The sentence about a request that the server denied: okv_why() has it until the next call. */
#ifndef OKV_CLIENT_API_DENIAL_H
#define OKV_CLIENT_API_DENIAL_H

#include "client/handle.h"

/* After OKV_EDENIED, if the connection stays: names the right that the user lacks. It learns no
 * more than it knew, as only a user with a right in the database is connected. */
void denial_explain(okv *handle) __attribute__((cold));
/* wait_operation(), and denial_explain() if it was denied. */
int denial_wait(okv *handle, struct operation *operation, struct okv_result *result);

#endif
