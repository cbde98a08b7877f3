/* What the server says of itself, in its log and on standard output. */
#ifndef OKV_SERVER_MAIN_STATUS_LOG_H
#define OKV_SERVER_MAIN_STATUS_LOG_H

#include "server/core/server.h"

/* A start: its version and limits. */
void okv_status_log_begin(struct okv_server *server);
/* A durable database, once its log is read: what was found in it. */
void okv_status_log_found(struct okv_server *server, const struct okv_database *database);
/* One without a log, at the start; and at the end, if it has items. */
void okv_status_log_memory_only(struct okv_server *server, const struct okv_database *database);
void okv_status_log_lost(struct okv_server *server, struct okv_database *database);
/* A device may have room for fewer clients than --max-clients: that listener refuses the others. */
void okv_status_log_little_room(struct okv_server *server);
/* It serves: its listeners, and the line `ready URI...` on standard output. */
void okv_status_log_ready(struct okv_server *server);
/* A line for the server, and one for each database. */
void okv_status_log_status(struct okv_server *server);

#endif
