/* okv-server --print-config. */
#ifndef OKV_SERVER_CONFIG_PRINT_H
#define OKV_SERVER_CONFIG_PRINT_H

#include <stdio.h>

#include "server/config.h"

/* Writes a file for --config that says the same, with where each line is from. */
void okv_config_print(const struct okv_config *config, FILE *stream);

#endif
