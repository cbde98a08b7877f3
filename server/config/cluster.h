/* The cluster that the server belongs to: --cluster, and the options that go with it. */
#ifndef OKV_SERVER_CONFIG_CLUSTER_H
#define OKV_SERVER_CONFIG_CLUSTER_H

#include "server/config/config.h"

/* Readers of --etcd and of --advertise. OKV_EINVAL. */
int okv_config_etcd(const struct okv_option *option, const char *text, void *fields,
                    struct okv_diag *why);
int okv_config_advertise(const struct okv_option *option, const char *text, void *fields,
                         struct okv_diag *why);
/* okv_config_error() when what is given does not belong together. */
void okv_config_check_cluster(const struct okv_config *config, struct okv_settings *settings);

#endif
