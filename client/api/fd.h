/* The descriptor of okv_fd(). */
#ifndef OKV_CLIENT_API_FD_H
#define OKV_CLIENT_API_FD_H

#include "client/handle.h"

/* Arms again what has gone stale since okv_arm(), so that a caller who sleeps on the descriptor
 * wakes for the next event or deadline. `idle`: the last pass of the engine found nothing. */
void fd_follow(okv *handle, bool idle);

#endif
