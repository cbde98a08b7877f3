/* RDMA devices: which one, how it is described to people, what it cannot do. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_DEVICE_H
#define OKV_SHARED_TRANSPORT_VERBS_DEVICE_H

#include "shared/transport/verbs/verbs.h"

/* Diagnoses why there is no event channel. Returns OKV_ENODEVICE, OKV_EPERM or OKV_ENOMEM. */
int okv_verbs_no_channel(int errnum, struct okv_diag *diag);
/* Makes `fd` non-blocking and close-on-exec; -1 with errno. */
int okv_verbs_fd_prepare(int fd);
/* Makes a non-blocking channel of CM events. */
int okv_verbs_channel(struct rdma_event_channel **out, struct okv_diag *diag);
/* The context for a client's objects: `managed`, which is the connection manager's, or in a forked
 * child a new one, which the caller closes. */
int okv_verbs_context(struct ibv_context *managed, struct ibv_context **out, struct okv_diag *diag);
/* Queries the device. OKV_EUNSUPPORTED for one that cannot do what the protocol needs. */
int okv_verbs_check_device(struct ibv_context *verbs, struct ibv_device_attr *attr,
                           struct okv_diag *diag);
/* OKV_EADDRESS: it is not the device that `uri` names. */
int okv_verbs_check_named(struct ibv_context *verbs, const struct okv_uri *uri,
                          struct okv_diag *diag);
/* Names all RDMA devices, separated by commas; returns their number. */
int okv_verbs_device_names(char *out, size_t size);
/* "rxe0 port 1, GID 1 ::ffff:10.9.9.1 (RoCE v2), path MTU 4096, ethernet" */
void okv_verbs_describe(struct ibv_context *verbs, uint8_t port, const struct ibv_gid_entry *gid,
                        enum ibv_mtu mtu, char *out, size_t size);
/* Finds the entry of the GID table that holds `gid`, RoCE v2 before others; with `gid` NULL the
 * first one made from an IPv4 address. */
bool okv_verbs_find_gid(struct ibv_context *verbs, uint8_t port, const union ibv_gid *gid,
                        struct ibv_gid_entry *out);
bool okv_verbs_is_loopback(const struct sockaddr *address);

/* Has packets of the id's connections carry the URI's traffic class; without one the system's
 * default (cma_roce_tos, configfs rdma_cm). Returns 0 or an errno. */
int okv_verbs_set_tos(struct rdma_cm_id *id, const struct okv_uri *uri);

#endif
