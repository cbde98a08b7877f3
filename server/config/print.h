/* okv-server --print-config. */
#ifndef OKV_SERVER_CONFIG_PRINT_H
#define OKV_SERVER_CONFIG_PRINT_H

#include <stdio.h>

#include "server/config/config.h"

/* Writes the option's value as a file has it, but a list with spaces between its values. "": the
 * server chooses. */
void okv_config_value(const struct okv_config *config, const struct okv_option *option, char *out,
                      size_t size);
/* Writes a file for --config with the same settings, each with its source. */
void okv_config_print(const struct okv_config *config, FILE *stream);

#endif
