/* The descriptor of okv_fd(). */
#ifndef OKV_CLIENT_ENGINE_EVENT_FD_H
#define OKV_CLIENT_ENGINE_EVENT_FD_H

#include "client/handle.h"

int event_fd_create(okv *handle);
void event_fd_destroy(okv *handle);
/* Sets the descriptor of the connection or attempt; -1: none. */
void event_fd_set(okv *handle, int fd);
/* Arms again what has gone stale since okv_arm(), so that a caller who sleeps on the descriptor
 * wakes for the next event or deadline. `idle`: the last pass of the engine found nothing. */
void event_fd_follow(okv *handle, bool idle);

#endif
