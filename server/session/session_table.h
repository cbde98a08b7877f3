/*
 * All sessions of a server, whichever worker has them. Any thread may call; a session is in the
 * table from before its worker sees it until the worker has closed it.
 */
#ifndef OKV_SERVER_SESSION_SESSION_TABLE_H
#define OKV_SERVER_SESSION_SESSION_TABLE_H

#include <pthread.h>

#include "server/session/session.h"

struct okv_client_source;

struct okv_session_table {
    pthread_mutex_t lock;
    struct okv_session_list all;
    struct okv_session_list half_open; /* those of `all` that are, or were when last looked at */
};

void okv_session_table_init(struct okv_session_table *table);
/* It is empty. */
void okv_session_table_fini(struct okv_session_table *table);
void okv_session_table_add(struct okv_session_table *table, struct okv_session *session);
void okv_session_table_remove(struct okv_session_table *table, struct okv_session *session);
/* Takes a session from the list of half-open ones. The caller holds the lock. */
void okv_session_table_unwatch(struct okv_session_table *table, struct okv_session *session);

/* Sessions as clients of the server. */
extern const struct okv_client_source okv_session_clients;

#endif
