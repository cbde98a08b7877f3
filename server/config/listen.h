/* Where the server listens: --listen. */
#ifndef OKV_SERVER_CONFIG_LISTEN_H
#define OKV_SERVER_CONFIG_LISTEN_H

#include "server/config/config.h"

/* Reader of --listen: adds a URI. OKV_EINVAL. */
int okv_config_listen_add(const struct okv_option *option, const char *text, void *fields,
                          struct okv_diag *why);
/* For a server without --listen. */
void okv_config_listen_by_default(struct okv_config *config);
/* okv_config_error(): other hosts may reach a listener, without --users and --open. */
void okv_config_check_reach(const struct okv_config *config, struct okv_settings *settings);

/* An address of this host alone. A name counts as another host: the name service may change its
 * address. */
bool okv_config_is_loopback(const char *host);
/* Whether two listeners cannot have both. */
bool okv_config_is_same_place(const struct okv_uri *one, const struct okv_uri *other);

#endif
