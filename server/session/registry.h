/*
 * All sessions of a server, whichever worker has them. Any thread may call; a session is in the
 * registry from before its worker sees it until the worker has closed it.
 */
#ifndef OKV_SERVER_SESSION_REGISTRY_H
#define OKV_SERVER_SESSION_REGISTRY_H

#include <pthread.h>

#include "server/session/session.h"

struct okv_client_source;

struct okv_registry {
    pthread_mutex_t lock;
    struct okv_session_list all;
    struct okv_session_list half_open; /* those of `all` that are, or were when last looked at */
};

void okv_registry_init(struct okv_registry *registry);
/* It is empty. */
void okv_registry_fini(struct okv_registry *registry);
void okv_registry_add(struct okv_registry *registry, struct okv_session *session);
void okv_registry_remove(struct okv_registry *registry, struct okv_session *session);
/* Takes a session from the list of half-open ones. The caller holds the lock. */
void okv_registry_unwatch(struct okv_registry *registry, struct okv_session *session);

/* Sessions as clients of the server. */
extern const struct okv_client_source okv_session_clients;

#endif
