/*
 * The RDMA ports of one end of a connection, described to the other: a line of text for each active
 * port, names and values in turn, separated by single spaces, in printable ASCII:
 *
 *   port mlx5_0/1 address 10.0.0.1 gid 3 rate_gbps 100 mtu 4200 pcie 16x8.0 numa_node 0
 *   firmware 16.35.2000 soft 0 out_of_sequence 0 packet_seq_err 0 local_ack_timeout_err 0
 *   rnr_nak_retry_err 0                                                   (one line)
 *
 * `port` comes first. An address, with the `gid` after it, comes once for each GID that the
 * connection manager uses here (choice.h), the best one first, up to OKV_FACTS_ADDRESSES. A value
 * that is not known is "-". `pcie` is the lanes and GT/s in use. `soft` is 1 for a device that no
 * card is behind, such as soft-RoCE. The last four are counters of the device since it started.
 */
#ifndef OKV_SHARED_DEVICES_FACTS_H
#define OKV_SHARED_DEVICES_FACTS_H

#include "shared/devices/choice.h"

#define OKV_FACTS_ADDRESSES 8
/* More than the longest line that okv writes, with its newline and a NUL. */
#define OKV_FACTS_LINE_SIZE 1312
#define OKV_FACTS_UNKNOWN UINT64_MAX

/* Of losses and what they lead to (docs/first-nic.md section 5), named as in hw_counters/. */
enum okv_facts_counter {
    OKV_FACTS_OUT_OF_SEQUENCE,
    OKV_FACTS_PACKET_SEQ_ERR,
    OKV_FACTS_LOCAL_ACK_TIMEOUT_ERR,
    OKV_FACTS_RNR_NAK_RETRY_ERR,
    OKV_FACTS_COUNTERS
};
extern const char *const okv_facts_counter_names[OKV_FACTS_COUNTERS];

struct okv_facts_address {
    char text[OKV_CHOICE_SIZE];
    uint64_t gid; /* its index; OKV_FACTS_UNKNOWN */
};

struct okv_port_facts {
    char port[OKV_DEVICE_SIZE + 8]; /* DEVICE/NUMBER */
    struct okv_facts_address addresses[OKV_FACTS_ADDRESSES];
    unsigned address_count;
    char pcie[16], firmware[32];   /* "": unknown */
    uint64_t rate_gbps, mtu, numa; /* OKV_FACTS_UNKNOWN */
    bool is_soft;
    uint64_t counters[OKV_FACTS_COUNTERS]; /* OKV_FACTS_UNKNOWN */
};

/* Reads up to `room` active ports of this host, by device and number. `root` precedes /sys; it is
 * "" except in tests. Returns their number; or OKV_ENOMEM or OKV_EIO. Takes milliseconds: a GID
 * table has hundreds of files, and some devices ask their firmware for counters. */
int okv_facts_read(const char *root, struct okv_port_facts *out, unsigned room);

/* Writes the line of a port, with a newline and a NUL. Returns its length without the NUL. */
unsigned okv_facts_write(const struct okv_port_facts *facts, char line[OKV_FACTS_LINE_SIZE]);

/* Reads a line of `length` bytes, without its newline, that anybody may have written. Names that it
 * does not know are passed over, so that lines can have more in the future. False: it is malformed;
 * *out is then unspecified. */
bool okv_facts_parse(const char *line, size_t length, struct okv_port_facts *out);

/* Whether the port has this address, with its zone or without. */
bool okv_facts_has_address(const struct okv_port_facts *facts, const char *address);

#endif
