/* The descriptor of okv_fd(). */
#ifndef OKV_CLIENT_ENGINE_EVENT_FD_H
#define OKV_CLIENT_ENGINE_EVENT_FD_H

#include "client/handle.h"

int event_fd_create(okv *handle);
void event_fd_destroy(okv *handle);
/* Sets the descriptor of the connection or attempt; -1: none. */
void event_fd_set(okv *handle, int fd);
/* Adds the descriptor to epoll, unless it is there already. OKV_ENOMEM, OKV_EIO: okv_arm() tries
 * again. */
int event_fd_watch(struct event_fd *event_fd);

#endif
