/* SIGHUP: reads the configuration file again and applies the options with OKV_OPTION_RELOADABLE. */
#ifndef OKV_SERVER_MAIN_RELOAD_H
#define OKV_SERVER_MAIN_RELOAD_H

#include "server/core/server.h"

/* Logs a line for each option that changed and for each whose change needs a restart. A file with a
 * mistake changes nothing. On main's thread, while the server serves. */
void okv_reload(struct okv_server *server);

#endif
