/* Whose acknowledgements a primary needs, and what follows from those that it has. */
#ifndef OKV_SERVER_CLUSTER_LEASE_H
#define OKV_SERVER_CLUSTER_LEASE_H

#include "server/cluster/protocol.h"

/* NULL: it has no place in the table. */
struct okv_peer *okv_peer_find(struct okv_protocol *protocol, uint64_t server);
/* The same, but it gets a place if one is free or of a server that nobody wants. */
struct okv_peer *okv_peer_enter(struct okv_protocol *protocol, uint64_t server, uint64_t now_us);
/* Until when no required member serves; D from now for a primary alone. */
uint64_t okv_lease_end_us(const struct okv_protocol *protocol, uint64_t now_us);
/* Up to where the own log and all required members have it. */
uint64_t okv_lease_position(const struct okv_protocol *protocol);
/* How long a copy waits after its last acknowledgement: D (1 + 3 rho), rounded up. */
uint64_t okv_lease_wait_us(const struct okv_protocol_options *options);

/* Brings the status up to date, and tells if it changed. `valid_until_us` never falls while the
 * server is primary of an epoch. */
void okv_status_update(struct okv_protocol *protocol);
/* Tells clients the lease as it is by now. */
void okv_status_renew(struct okv_protocol *protocol, uint64_t now_us);

#endif
