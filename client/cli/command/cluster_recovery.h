/* What `okv cluster recover` says before it asks. */
#ifndef OKV_CLIENT_CLI_COMMAND_CLUSTER_RECOVERY_H
#define OKV_CLIENT_CLI_COMMAND_CLUSTER_RECOVERY_H

#include <jansson.h>
#include <stdbool.h>

#include "client/cli/run.h"

/* Prints to standard error what each server that runs has of the database. `report` is that of the
 * server that is asked. False, and a message: another one has more. */
bool cli_cluster_plan_recovery(const struct cli *cli, const json_t *report, const char *database);

#endif
