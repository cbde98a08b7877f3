/* Goodbye: the server's before it shuts down, and ours when the handle closes. */
#ifndef OKV_CLIENT_CONNECTION_GOODBYE_H
#define OKV_CLIENT_CONNECTION_GOODBYE_H

#include "client/handle.h"

/* The server said GOODBYE: the link drains, and closes as soon as all owed replies have come. With
 * OKV_EDENIED, if the key file has no other key, the handle fails. */
void goodbye_receive(okv *handle, int status);
/* Sends GOODBYE, and waits up to 20 ms until the device has delivered it. Does nothing if it cannot
 * be posted at once: the server then notices the end of the connection. */
void goodbye_send(okv *handle);

#endif
