/*
 * All sessions of a server, whichever worker has them. Any thread may call; a session is in the
 * registry from before its worker sees it until the worker has closed it.
 */
#ifndef OKV_SERVER_SESSION_REGISTRY_H
#define OKV_SERVER_SESSION_REGISTRY_H

#include <pthread.h>

#include "server/session/session.h"

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

/* Writes a line for each session of the database, which is called `name`, whose id is above
 * `after`, in the order of their ids, as many as fit: docs/protocol-admin.md section 2.5. Returns
 * the length. */
size_t okv_registry_list(struct okv_registry *registry, unsigned database, const char *name,
                         uint64_t after, char *out, size_t size);
/* Marks a session of the database; *worker is to end it. OKV_ENOTFOUND. */
int okv_registry_kill(struct okv_registry *registry, unsigned database, uint64_t id,
                      unsigned *worker);

/* The rights that a session has from now on; 0 ends it. */
typedef unsigned okv_session_rights(const struct okv_session *session, const void *user);
/* Sets the rights of all sessions. True when one of them is to end: its worker does that. */
bool okv_registry_set_rights(struct okv_registry *registry, okv_session_rights *rights,
                             const void *user);

#endif
