/* Where the server listens: --listen. */
#ifndef OKV_SERVER_CONFIG_LISTEN_H
#define OKV_SERVER_CONFIG_LISTEN_H

#include "server/config.h"

/* Adds one, or calls okv_config_error(). Returns whether other hosts may reach it. */
bool okv_config_listen_add(struct okv_config *config, const char *text,
                           struct okv_settings *settings);
/* When there is none. */
void okv_config_listen_by_default(struct okv_config *config);
/* `reachable` is one that other hosts may reach, or NULL. okv_config_error(): nobody has said that
 * all may use it, nor who. */
void okv_config_check_reach(struct okv_config *config, const char *reachable,
                            struct okv_settings *settings);

#endif
