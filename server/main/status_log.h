/* What the server says of itself, in its log and on standard output. */
#ifndef OKV_SERVER_MAIN_STATUS_LOG_H
#define OKV_SERVER_MAIN_STATUS_LOG_H

#include "server/core/server.h"

/* Logs that the server starts: its version and limits. */
void okv_status_log_begin(struct okv_server *server);
/* Logs what recovery found in the log of a durable database. */
void okv_status_log_found(struct okv_server *server, const struct okv_database *database);
/* At the start: warns that the database has no log, so that its items end with the server. */
void okv_status_log_memory_only(struct okv_server *server, const struct okv_database *database);
/* At the end: warns how many items are lost, if the database has no log and is not empty. */
void okv_status_log_lost(struct okv_server *server, struct okv_database *database);
/* Warns of each listener whose device has room for fewer clients than --max-clients. */
void okv_status_log_little_room(struct okv_server *server);
/* Logs that the server is ready: its listeners, and `ready URI...` on standard output. */
void okv_status_log_ready(struct okv_server *server);
/* Logs a line for the server, and one for each database. */
void okv_status_log_status(struct okv_server *server);

#endif
