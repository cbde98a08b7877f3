/* One attempt to connect. */
#ifndef OKV_CLIENT_CONNECTION_CONNECT_H
#define OKV_CLIENT_CONNECTION_CONNECT_H

#include "client/handle.h"

/* Begins an attempt to connect: LINK_CONNECTING. The sentence of a failure is in `why`. */
int attempt_start(okv *handle, struct okv_diag *why);
/* Goes on with it. OKV_EAGAIN: later. 0: the connection is verified, the directory is in
 * `staging`. Anything else: the attempt failed; what it left is for link_drop(). */
int attempt_step(okv *handle, struct okv_diag *why);
/* Its READ ended. */
void attempt_read_done(okv *handle, int status);
/* There is a connection: keeps the address of its server. */
void address_keep(okv *handle);
/* It is lost: for a while attempts go to that address. */
void address_use(struct link *link);

#endif
