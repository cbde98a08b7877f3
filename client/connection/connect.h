/* One attempt to connect. */
#ifndef OKV_CLIENT_CONNECTION_CONNECT_H
#define OKV_CLIENT_CONNECTION_CONNECT_H

#include "client/handle.h"

/* Begins an attempt: LINK_CONNECTING. On failure `why` has a sentence. */
int attempt_start(okv *handle, struct okv_diag *why);
/* Continues the attempt. OKV_EAGAIN: call again later. 0: the connection is verified and the
 * directory is in `staging`. Otherwise the attempt failed; link_drop() cleans up. */
int attempt_step(okv *handle, struct okv_diag *why);
/* The READ of the attempt has ended. */
void attempt_read_done(okv *handle, int status);
/* Remembers the numeric address of the connection's server. */
void address_keep(okv *handle);
/* For a while, attempts go to that address without resolving the name. */
void address_prefer(struct link *link);

#endif
