/* Logs in the directory of --data whose databases are not served. */
#ifndef OKV_SERVER_MAIN_UNNAMED_LOGS_H
#define OKV_SERVER_MAIN_UNNAMED_LOGS_H

#include "server/core/server.h"

/* False: there are some, and --database was not given, so that an empty database would take their
 * place. Standard error then has the options to give. */
bool okv_unnamed_logs_check(const struct okv_config *config);
/* Logs a line for each of them, and counts them in the statistics. */
void okv_unnamed_logs_report(struct okv_server *server);

#endif
