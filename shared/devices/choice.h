/*
 * Finds the address that selects a device, a port or a GID. The RDMA connection manager takes
 * addresses, not devices: binding to the address of a GID selects that GID.
 *
 * Of the usable GIDs of a port the first of these is chosen: one with an IPv4 address, one with a
 * global IPv6 address, a link-local one; of equals the one with the lowest index. A GID is usable
 * when its port is active, is Ethernet (RoCE), its address is one of this network namespace, and
 * the connection manager takes this GID for its address: where the same address has a GID of RoCE
 * v2, the one of RoCE v1 is never taken.
 */
#ifndef OKV_SHARED_DEVICES_CHOICE_H
#define OKV_SHARED_DEVICES_CHOICE_H

#include "shared/devices/ports.h"

#define OKV_CHOICE_SIZE (INET6_ADDRSTRLEN + IF_NAMESIZE)

/* The address of a GID: "10.0.0.1", "fd00::1", "fe80::1%eth0". */
void okv_gid_address(const struct okv_gid *gid, char out[OKV_CHOICE_SIZE]);

/* The GID that is chosen among those of `family`, AF_INET or AF_INET6, or of both (AF_UNSPEC);
 * NULL: none is usable. */
const struct okv_gid *okv_port_best_gid(const struct okv_port *port, int family);

/* The GID that the connection manager takes for this address; NULL: the port has none. */
const struct okv_gid *okv_port_gid_of(const struct okv_port *port, const char *address);

/* Why no GID of the port is usable: a part of a sentence, static. NULL: one is. */
const char *okv_port_flaw(const struct okv_port *port);

/* The address that selects the device, port and gid of `uri`, which names a device. `address`: the
 * address that it has to be, or "". OKV_EADDRESS when there is none; `diag` says why and lists what
 * exists. */
int okv_device_choose(const struct okv_ports *ports, const struct okv_uri *uri, int family,
                      const char *address, char out[OKV_CHOICE_SIZE], struct okv_diag *diag);

#endif
