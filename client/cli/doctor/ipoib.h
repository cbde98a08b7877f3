/* IP over InfiniBand: the network interfaces of a port whose GIDs are no addresses. */
#ifndef OKV_CLIENT_CLI_DOCTOR_IPOIB_H
#define OKV_CLIENT_CLI_DOCTOR_IPOIB_H

#include <stdbool.h>

#include "shared/devices/ports.h"

/* Finds the port's interface that has `address`, or one that other hosts reach if that is NULL.
 * False: none has; *out is then any of its interfaces, or "". `root` is in front of /sys. */
bool doctor_ipoib_find(const char *root, const struct okv_port *port, const char *address,
                       char out[IF_NAMESIZE]);

#endif
