/* The end of a connection and of a handle. */
#ifndef OKV_CLIENT_ENGINE_FAILURE_H
#define OKV_CLIENT_ENGINE_FAILURE_H

#include "client/handle.h"

/* Makes the handle unusable: ends every operation and keeps the sentence for okv_why(). */
void engine_fail(okv *handle, int failure, const char *sentence);
/* The connection is unusable: closes it. A handle that never reconnects fails with `code`. With
 * OKV_EDISCONNECTED, the message of the device is appended to the sentence. */
void engine_lost(okv *handle, int code, const char *sentence);

#endif
