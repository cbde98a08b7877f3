/* The checks of okv doctor. Each adds findings and changes nothing on the host. `root` is put
 * before /proc and /sys: "", except in tests. */
#ifndef OKV_CLIENT_CLI_DOCTOR_CHECKS_H
#define OKV_CLIENT_CLI_DOCTOR_CHECKS_H

#include "client/cli/doctor/report.h"
#include "client/cli/run.h"
#include "shared/devices/limits.h"
#include "shared/devices/ports.h"

/* Limits of this process, huge pages, firewall, the guest for tests. `server` is the URI of the
 * server that this host is to use. */
void doctor_check_host(struct doctor_report *report, const char *root, const char *uri);
/* RDMA devices: limits, ports, link layer, GIDs and which one is chosen, MTU; or how to get one. */
void doctor_check_devices(struct doctor_report *report, const char *root);
/* The limits of a device. */
void doctor_add_limits(struct doctor_report *report, const char *device,
                       const struct okv_device_limits *limits);
/* The transport that the URI of a server uses on this host, and for rdma:// the device, port and
 * GID of the route. Sends no packets except to resolve a name. */
void doctor_check_route(struct doctor_report *report, const char *root, const char *server);
/* Connects to cli->server, and puts, gets and deletes an item of its own there. */
void doctor_check_server(struct doctor_report *report, struct cli *cli);
/* If the server of cli->server is in a cluster: etcd, the copies, and the clocks of all servers.
 * Returns true if it only has a copy, so that puts and gets go to another one. */
bool doctor_check_cluster(struct doctor_report *report, const struct cli *cli);
/* With --peer, after doctor_check_server(): compares the RDMA ports of both ends, and what gets
 * take with what such NICs should. */
void doctor_check_peer(struct doctor_report *report, const char *root, struct cli *cli);
/* Draws a key for an item that nobody else has. */
#define DOCTOR_KEY_SIZE 32
void doctor_draw_key(char out[DOCTOR_KEY_SIZE]);
/* Bytes of RDMA packets over an Ethernet interface with this MTU. */
unsigned doctor_packet_bytes(unsigned long long mtu);
/* IP over InfiniBand, where the GIDs of a port are no addresses: finds the port's network interface
 * that has `address`, or if that is NULL one that other hosts reach. False: none has; *out is then
 * any of its interfaces, or "". */
bool doctor_ipoib_find(const char *root, const struct okv_port *port, const char *address,
                       char out[IF_NAMESIZE]);

#endif
