/* The descriptor of okv_fd(). */
#ifndef OKV_CLIENT_ENGINE_EVENT_FD_H
#define OKV_CLIENT_ENGINE_EVENT_FD_H

#include "client/handle.h"

int event_fd_create(okv *handle);
void event_fd_destroy(okv *handle);
/* The descriptor of the connection, or of the attempt, is this one; -1: there is none. */
void event_fd_set(okv *handle, int fd);
/* After a turn in which nothing happened, if `idle`: whoever sleeps on an armed descriptor from
 * here on is woken for what there is to do, and for nothing else. */
void event_fd_follow(okv *handle, bool idle);

#endif
