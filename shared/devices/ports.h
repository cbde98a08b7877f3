/*
 * The RDMA ports of this machine and their GIDs, as sysfs shows them (Linux,
 * Documentation/ABI/stable/sysfs-class-infiniband). Reading it takes no rights and opens no device.
 * It shows GIDs of all network namespaces: a container may see those of its host.
 */
#ifndef OKV_SHARED_DEVICES_PORTS_H
#define OKV_SHARED_DEVICES_PORTS_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "shared/base/diag.h"
#include "shared/base/uri.h"

/* An entry of a GID table that is in use. */
struct okv_gid {
    struct in6_addr raw;
    unsigned index;
    bool is_v2;                  /* RoCE v2; else RoCE v1, or InfiniBand */
    bool is_here;                /* its address is one of this network namespace */
    char interface[IF_NAMESIZE]; /* the network device that it stands for; "": none */
    char type[24];               /* as sysfs has it: "RoCE v2" */
};

struct okv_port {
    char device[OKV_DEVICE_SIZE];
    unsigned number;
    bool is_ethernet;
    bool is_active;
    char state[32]; /* as sysfs has it: "4: ACTIVE" */
    char layer[32]; /* "Ethernet", "InfiniBand" */
    char rate[64];  /* "100 Gb/sec (4X EDR)" */
    struct okv_gid *gids;
    unsigned gid_count;
};

struct okv_ports {
    struct okv_port *list; /* by device, then by number */
    unsigned count;
};

/* Reads the ports of all devices. Without a device the list is empty. `root` precedes /sys; it is
 * "" except in tests. Returns 0; or OKV_ENOMEM or
 * OKV_EIO, with nothing to free. */
int okv_ports_read(const char *root, struct okv_ports *out, struct okv_diag *diag);
void okv_ports_fini(struct okv_ports *ports);

#endif
