/* okv-server --check and --salvage: what looks at the files of databases that no server has. */
#ifndef OKV_SERVER_MAIN_OFFLINE_H
#define OKV_SERVER_MAIN_OFFLINE_H

#include "server/config/config.h"

/* Something is not whole. */
#define OKV_EXIT_DAMAGED 4

/* Does what config->check or config->salvage asks for, and prints what is there on standard output.
 * *is_whole: nothing is damaged. Returns 0 when everything was read, and written; otherwise
 * standard error has said why not. */
int okv_offline_run(const struct okv_config *config, bool *is_whole);

#endif
