/* What okv doctor looks at. Each adds findings, and changes nothing on the host. */
#ifndef OKV_CLIENT_CLI_DOCTOR_CHECKS_H
#define OKV_CLIENT_CLI_DOCTOR_CHECKS_H

#include "client/cli/cli.h"
#include "client/cli/doctor/report.h"

/* Limits of this process, huge pages. `root` is in front of /proc and /sys: "" but for tests. */
void doctor_check_host(struct doctor_report *report, const char *root);
/* RDMA devices: ports, link layer, GIDs, MTU; or how to get one. */
void doctor_check_devices(struct doctor_report *report, const char *root);
/* Connects to cli->server, and puts, gets and deletes an item of its own there. */
void doctor_check_server(struct doctor_report *report, struct cli *cli);

#endif
