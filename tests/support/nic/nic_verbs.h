#ifndef OKV_TESTS_NIC_VERBS_H
#define OKV_TESTS_NIC_VERBS_H

#include "tests/support/nic/nic_state.h"

/* The connection manager's context of a device. Under the lock. */
struct ibv_context *nic_context(struct nic_device *device);
/* Accepts NULL. */
void nic_context_free(struct ibv_context *context);
union ibv_gid nic_gid_of(struct in_addr address);

#endif
