/*
 * Finding servers by multicast: docs/discovery.md.
 *
 * A port is one interface's way to a group: a UD queue pair of an RDMA device, or a UDP socket. A
 * server listens on ports and answers queries. A client asks on ports and collects answers;
 * okv_discovery_search() does all of that.
 *
 * A port belongs to one thread. Only the open functions and okv_discovery_search() block. This
 * folder uses base/ and format/. It knows no transport, so that programs can compile it in.
 */
#ifndef OKV_SHARED_DISCOVERY_DISCOVERY_H
#define OKV_SHARED_DISCOVERY_DISCOVERY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/diag.h"
#include "shared/format/discovery.h"

#define OKV_DISCOVERY_GROUP "239.255.74.71" /* the default */
#define OKV_DISCOVERY_PORT 7471             /* of UDP */

struct okv_discovery_port;

struct okv_discovery_port_ops {
    /* Sends a query to the group. A datagram may be lost; OKV_EIO: the port has failed. */
    int (*ask)(struct okv_discovery_port *port, const struct okv_wire_discovery *query);
    /* Returns 1 with the next datagram, valid until the next call of any of these; 0 when there is
     * none (`fd` becomes readable when one arrives); OKV_EIO when the port has failed. */
    int (*receive)(struct okv_discovery_port *port, const uint8_t **datagram, size_t *length);
    /* Sends an answer to the sender of the latest datagram, or drops it. OKV_EIO as above. */
    int (*answer)(struct okv_discovery_port *port, const struct okv_wire_discovery *answer);
    void (*close)(struct okv_discovery_port *port);
};

struct okv_discovery_port {
    const struct okv_discovery_port_ops *ops;
    int fd;
};

struct okv_discovery_place {
    struct in_addr group;
    struct in_addr interface; /* an address of it */
    bool listens;             /* join the group to receive queries; else only send to it */
};

int okv_discovery_udp_open(const struct okv_discovery_place *place, struct okv_discovery_port **out,
                           struct okv_diag *diag);
/* Waits for the membership, a second at most. OKV_ENODEVICE: no RDMA device has the address, or
 * there is none. */
int okv_discovery_ud_open(const struct okv_discovery_place *place, struct okv_discovery_port **out,
                          struct okv_diag *diag);

#define OKV_DISCOVERY_FOUND_MAX 64

struct okv_discovery_found {
    unsigned count;                                               /* further servers are dropped */
    struct okv_discovery_answer servers[OKV_DISCOVERY_FOUND_MAX]; /* one for each boot id */
};

struct okv_discovery_search {
    const char *group;   /* "": the default */
    const char *name;    /* "": all servers */
    const char *source;  /* the address of the only interface to ask on; "": all interfaces */
    bool rdma, udp;      /* how to ask: UD queue pairs, UDP */
    uint32_t timeout_ms; /* from the first query to the end */
    /* When a server has answered, end after this time, which other servers have to answer, too;
     * 0: ask until the time-out. */
    uint32_t settle_ms;
};

/* Repeats the query until the end, and returns the servers that answered, if any. OKV_ENODEVICE:
 * there is no interface to ask on. OKV_EIO: all of them failed. */
int okv_discovery_search(const struct okv_discovery_search *search, struct okv_discovery_found *out,
                         struct okv_diag *diag);

#endif
