/* The limit on open files: enough for as many clients as the server was configured for. */
#ifndef OKV_SERVER_MAIN_DESCRIPTORS_H
#define OKV_SERVER_MAIN_DESCRIPTORS_H

#include "server/config/config.h"
#include "shared/base/diag.h"

/* Raises the soft limit of the process to what the server may need, as far as the hard limit lets
 * it. OKV_EPERM: that is not enough, and config->max_clients is lower now if that helps. */
int okv_descriptors_raise(struct okv_config *config, struct okv_diag *diag);

#endif
