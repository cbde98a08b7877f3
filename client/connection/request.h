/* What goes to the server as a message, and its answers. */
#ifndef OKV_CLIENT_CONNECTION_REQUEST_H
#define OKV_CLIENT_CONNECTION_REQUEST_H

#include "client/handle.h"

/* Sends the operation's request as its only step. */
void request_start(okv *handle, struct operation *operation);
/* 0, OKV_EAGAIN for no request slot or room, or a failure; operation->posted says whether
 * the message may have left. */
int request_post(okv *handle, struct operation *operation);
/* Sends GOODBYE. OKV_EAGAIN: no request slot or room; OKV_EDISCONNECTED, OKV_EIO. */
int request_goodbye(okv *handle);
/* A message came from the server. */
void request_message(okv *handle, const struct okv_event *event);

#endif
