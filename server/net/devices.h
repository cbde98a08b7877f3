/*
 * Which devices the server listens on. An rdma listener has one device. "*" stands for one listener
 * on each usable port, at its best address (shared/devices/choice.h); so does a URI that names a
 * device, on that one.
 */
#ifndef OKV_SERVER_NET_DEVICES_H
#define OKV_SERVER_NET_DEVICES_H

#include "server/config/config.h"
#include "server/core/log.h"
#include "shared/base/diag.h"

/* Puts the addresses of devices into config->listen, and logs which ports it leaves out and why. A
 * "*" stays on a machine with one device or none: the transport takes it for all addresses of that.
 * OKV_EADDRESS: a device that is named, or with "*" each, is not usable, or there are more than
 * OKV_LISTENERS_MAX. OKV_ENOMEM. `root` is in front of /sys:
 * "" but for tests. */
int okv_listen_devices(struct okv_config *config, const char *root, struct okv_log *log,
                       struct okv_diag *diag);

#endif
