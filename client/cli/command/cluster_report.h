/* What a server of a cluster says of it. For the commands of okv that ask. */
#ifndef OKV_CLIENT_CLI_COMMAND_CLUSTER_REPORT_H
#define OKV_CLIENT_CLI_COMMAND_CLUSTER_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/cli/run.h"

/* Prints that `okv cluster WORD` failed, and what to do. Returns the exit status. */
int cli_cluster_fail(struct cli *cli, const char *word, int rc);
/* Reads the report (docs/protocol-admin.md), to json_decref(). Returns 0 or an error code of
 * libokv; OKV_EUNSUPPORTED: the server is in no cluster. */
int cli_cluster_read(struct cli *cli, json_t **out);

/* A member of the report: "", 0 or false if there is none. */
const char *cli_cluster_text(const json_t *object, const char *name);
int64_t cli_cluster_number(const json_t *object, const char *name);
bool cli_cluster_is(const json_t *object, const char *name);

/* NULL: no server runs that has this id. */
const json_t *cli_cluster_server(const json_t *report, const char *id);
/* Its first address, or the id if it does not run. */
const char *cli_cluster_place(const json_t *report, const char *id);
/* NULL: there is no such database. */
const json_t *cli_cluster_database(const json_t *report, const char *name);
/* The database that a command is about when it names none: that of --database or of the URI, else
 * "default". */
#define CLI_DATABASE_SIZE 32
const char *cli_cluster_database_name(const struct cli *cli, char out[CLI_DATABASE_SIZE]);

/* A handle that observes, by the first address of the server that works; NULL: none does, and `why`
 * says so of the last one. `*uri` is that address. */
okv *cli_cluster_open(const struct cli *cli, const json_t *server, const char **uri,
                      char why[CLI_WHY_TEXT]);
/* Has cli->handle, which observes, lead to the primary of a database, if that is known. */
void cli_cluster_follow(struct cli *cli, const char *database);

/* Prints the report as text. */
void cli_cluster_print(const json_t *report);
#define CLI_CLUSTER_LOOK_MS 50
#define CLI_CLUSTER_SYNC_TEXT 2048
/* Prints to standard error how many copies are in sync, unless that is as `seen`, which begins as
 * "". True: all copies that have a server are. */
bool cli_cluster_print_sync(const json_t *report, char seen[CLI_CLUSTER_SYNC_TEXT]);

#endif
