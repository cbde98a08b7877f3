/*
 * SIGHUP: the configuration file is read again, and what can change while the server runs does
 * (okv_option_is_reloadable()).
 */
#ifndef OKV_SERVER_RELOAD_H
#define OKV_SERVER_RELOAD_H

#include "server/server.h"

/* Logs a line for each option that changed, and for each whose change needs a restart. A file with
 * a mistake changes nothing. Main's thread, while the server serves. */
void okv_reload(struct okv_server *server);

#endif
