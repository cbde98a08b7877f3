/* What okv doctor looks at. Each adds findings, and changes nothing on the host. */
#ifndef OKV_CLIENT_CLI_DOCTOR_CHECKS_H
#define OKV_CLIENT_CLI_DOCTOR_CHECKS_H

#include "client/cli/cli.h"
#include "client/cli/doctor/report.h"
#include "shared/devices/limits.h"

/* The transports of this build, the providers of libfabric. */
void doctor_check_fabrics(struct doctor_report *report);
/* Limits of this process, huge pages, firewall, the guest for tests. `root` is in front of /proc
 * and /sys: "" but for tests. `server` is the URI of a server that this host is to use. */
void doctor_check_host(struct doctor_report *report, const char *root, const char *server);
/* RDMA devices: limits, ports, link layer, GIDs and which one is chosen, MTU; or how to get one. */
void doctor_check_devices(struct doctor_report *report, const char *root);
/* What the device can do. */
void doctor_add_limits(struct doctor_report *report, const char *device,
                       const struct okv_device_limits *limits);
/* What the URI of a server uses on this host: for rdma:// the device, port and GID that the route
 * leads to. Sends nothing but what finding the address of a name takes. */
void doctor_check_route(struct doctor_report *report, const char *root, const char *server);
/* Connects to cli->server, and puts, gets and deletes an item of its own there. */
void doctor_check_server(struct doctor_report *report, struct cli *cli);

#endif
