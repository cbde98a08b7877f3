/* Requests to the server and its replies. */
#ifndef OKV_CLIENT_CONNECTION_REQUEST_H
#define OKV_CLIENT_CONNECTION_REQUEST_H

#include "client/handle.h"

/* Makes the request the operation's next step, and posts it. */
void request_start(okv *handle, struct operation *operation);
/* Posts the operation's request; without a request slot or send buffer it waits and is retried.
 * operation->posted says whether the message may have left. */
void request_post(okv *handle, struct operation *operation);
/* Handles a message from the server. Returns a get whose value the reply had no room for, which the
 * caller continues with lookup_resume(); else NULL. */
struct operation *request_message(okv *handle, const struct okv_event *event);

#endif
