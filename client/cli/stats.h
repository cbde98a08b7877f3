/* The server's statistics and answers, JSON, and percentiles of times. */
#ifndef OKV_CLIENT_CLI_STATS_H
#define OKV_CLIENT_CLI_STATS_H

#include <jansson.h>

#include "client/cli/run.h"

/* Fetches the statistics, or the answer to a command of okv_admin(), into *text to free(). Returns
 * the code. */
int cli_fetch_stat(okv *handle, const char *command, char **text);
/* Finds the number of `name` in statistics. False: there is no such line. */
bool cli_stat_number(const char *text, const char *name, int base, uint64_t *out);

/* A copy of a server's text for JSON, to free(): bytes that are no UTF-8 as \xHH. */
char *cli_json_text(const char *text);
/* Ids are names: as numbers most JSON readers would round them. */
json_t *cli_json_id(uint64_t id);
/* Prints `root`, of `what`, and takes it over. Returns CLI_DONE, or CLI_FAILED after printing why;
 * an error of standard output is left to cli_output_end(). */
int cli_print_json(const char *command, const char *what, json_t *root);

/* Sorts the samples; cli_percentile() needs them sorted and count above 0. */
void cli_samples_sort(uint64_t *samples, size_t count);
uint64_t cli_percentile(const uint64_t *samples, size_t count, double percent);

#endif
