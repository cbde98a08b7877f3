/* The options of okv-server(1), in one table: docs/how-to-add.md. */
#ifndef OKV_SERVER_CONFIG_OPTION_TABLE_H
#define OKV_SERVER_CONFIG_OPTION_TABLE_H

#include "shared/base/options.h"

#define OKV_SERVER_NAME_DEFAULT "okv"

/* In --help, and of all options that need --cluster. */
#define OKV_OPTION_GROUP_CLUSTER 4

extern const char okv_config_about[];
/* Their fields are those of struct okv_config. */
extern const struct okv_option okv_config_options[];

#endif
