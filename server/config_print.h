/* okv-server --print-config. */
#ifndef OKV_SERVER_CONFIG_PRINT_H
#define OKV_SERVER_CONFIG_PRINT_H

#include <stdio.h>

#include "server/config.h"

/* What the option is: as a file has it, but a list with spaces between, and what the server chooses
 * itself as "". */
void okv_config_value(const struct okv_config *config, const struct argp_option *option, char *out,
                      size_t size);
/* Writes a file for --config that says the same, with where each line is from. */
void okv_config_print(const struct okv_config *config, FILE *stream);

#endif
