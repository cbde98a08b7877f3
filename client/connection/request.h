/* Requests to the server and its replies. */
#ifndef OKV_CLIENT_CONNECTION_REQUEST_H
#define OKV_CLIENT_CONNECTION_REQUEST_H

#include "client/handle.h"

/* Makes the request the operation's next step. */
void request_start(okv *handle, struct operation *operation);
/* Sends the operation's request. OKV_EAGAIN: no request slot or send buffer. operation->posted says
 * whether the message may have left. */
int request_post(okv *handle, struct operation *operation);
/* Handles a message from the server. */
void request_message(okv *handle, const struct okv_event *event);

#endif
