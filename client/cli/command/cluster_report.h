/* What a server of a cluster says of it. For the commands of okv that ask. */
#ifndef OKV_CLIENT_CLI_COMMAND_CLUSTER_REPORT_H
#define OKV_CLIENT_CLI_COMMAND_CLUSTER_REPORT_H

#include <jansson.h>
#include <stdbool.h>

#include "client/cli/run.h"

/* Prints that `okv cluster WORD` failed, and what to do. Returns the exit status. */
int cli_cluster_fail(struct cli *cli, const char *word, int rc);
/* Reads the report (docs/protocol-admin.md), to json_decref(). Returns 0 or an error code of
 * libokv; OKV_EUNSUPPORTED: the server is in no cluster. */
int cli_cluster_read(struct cli *cli, json_t **out);
/* The first address of a server, or its id if it does not run. */
const char *cli_cluster_server(const json_t *report, const char *id);
/* A handle to a server of the report, which observes, by the first of its addresses that works;
 * NULL: none does. */
okv *cli_cluster_open(const struct cli *cli, const json_t *server, const char **uri);
/* Has cli->handle, which observes, lead to the primary of a database, if that is known. */
void cli_cluster_follow(struct cli *cli, const char *database);
/* NULL: there is no such database. */
const json_t *cli_cluster_database(const json_t *report, const char *name);
/* Prints the report as text. */
void cli_cluster_print(const json_t *report);

#define CLI_CLUSTER_LOOK_MS 50
#define CLI_CLUSTER_SYNC_TEXT 2048
/* Prints to standard error how many copies are in sync, unless that is as `seen`, which begins as
 * "". True: all copies that have a server are. */
bool cli_cluster_print_sync(const json_t *report, char seen[CLI_CLUSTER_SYNC_TEXT]);

#endif
