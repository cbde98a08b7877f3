#include "shared/transport/verbs/device.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/fork_guard.h"
#include "shared/devices/limits.h"

#define CM_DEVICE "/dev/infiniband/rdma_cm"

int okv_verbs_device_names(char *out, size_t size)
{
    int count = 0;
    size_t used = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    if (size)
        out[0] = '\0';
    if (!list)
        return 0;
    for (int i = 0; i < count && used < size; i++) {
        int n =
            snprintf(out + used, size - used, "%s%s", i ? ", " : "", ibv_get_device_name(list[i]));
        used += n > 0 ? (size_t)n : 0;
    }
    ibv_free_device_list(list);
    return count;
}

int okv_verbs_no_channel(int errnum, struct okv_diag *diag)
{
    char names[96];
    if (okv_verbs_device_names(names, sizeof names) == 0)
        return okv_diag_set(diag, OKV_ENODEVICE,
                            "this machine has no RDMA device: load the driver of its adapter, or "
                            "add soft-RoCE with 'rdma link add rxe0 type rxe netdev NETDEV', or "
                            "use tcp://, or local:// on one host");
    if (access(CM_DEVICE, F_OK) != 0)
        return okv_diag_set(diag, OKV_ENODEVICE,
                            "the RDMA connection manager is missing (no %s, devices: %s): run "
                            "'modprobe rdma_ucm'",
                            CM_DEVICE, names);
    if (access(CM_DEVICE, R_OK | W_OK) != 0)
        return okv_diag_set(diag, OKV_EPERM,
                            "no permission to open %s: run as a user who may read and write it",
                            CM_DEVICE);
    return okv_diag_set(diag, errnum == ENOMEM ? OKV_ENOMEM : OKV_ENODEVICE,
                        "the RDMA connection manager cannot be opened (%s; devices: %s): check "
                        "'rdma link' and the kernel's log",
                        strerror(errnum), names);
}

int okv_verbs_fd_prepare(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return -1;
    return fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/*
 * The connection manager opens a device once and keeps its context. A child of fork() gets that
 * context from its parent and can make queue pairs of it, but not use them: the kernel refuses a
 * write to the device by a process that has other credentials than the one that opened it, even
 * equal ones, and so the doorbells of software devices do nothing (ib_safe_file_access). Those of
 * adapters are mapped, and the child would have only a copy of the lock that guards them.
 */
int okv_verbs_context(struct ibv_context *managed, struct ibv_context **out, struct okv_diag *diag)
{
    *out = managed;
    if (!okv_fork_guard_is_child())
        return 0;
    *out = ibv_open_device(managed->device);
    if (*out)
        return 0;
    return okv_diag_set(diag, OKV_ENODEVICE, "%s cannot be opened in a forked child: %s",
                        ibv_get_device_name(managed->device), strerror(errno));
}

int okv_verbs_channel(struct rdma_event_channel **out, struct okv_diag *diag)
{
    okv_fork_guard_start();
    struct rdma_event_channel *channel = rdma_create_event_channel();
    if (!channel)
        return okv_verbs_no_channel(errno, diag);
    if (okv_verbs_fd_prepare(channel->fd)) {
        int errnum = errno;
        rdma_destroy_event_channel(channel);
        return okv_diag_set(diag, OKV_EIO, "the CM event channel cannot be set up: %s",
                            strerror(errnum));
    }
    *out = channel;
    return 0;
}

int okv_verbs_check_device(struct ibv_context *verbs, struct ibv_device_attr *attr,
                           struct okv_diag *diag)
{
    const char *name = ibv_get_device_name(verbs->device);
    if (verbs->device->transport_type == IBV_TRANSPORT_IWARP)
        return okv_diag_set(diag, OKV_EUNSUPPORTED, "%s speaks iWARP, which okv does not: %s", name,
                            okv_iwarp_cure("", name));
    int errnum = ibv_query_device(verbs, attr);
    if (errnum)
        return okv_diag_set(diag, OKV_EIO, "%s does not answer a query: %s", name,
                            strerror(errnum));
    if (attr->max_qp_rd_atom <= 0 || attr->max_qp_init_rd_atom <= 0)
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "%s has no RDMA READ, which okv needs: use another RDMA device", name);
    return 0;
}

int okv_verbs_check_named(struct ibv_context *verbs, const struct okv_uri *uri,
                          struct okv_diag *diag)
{
    const char *name = ibv_get_device_name(verbs->device);

    if (!uri->device[0] || strcmp(uri->device, name) == 0)
        return 0;
    return okv_diag_set(diag, OKV_EADDRESS,
                        "the connection manager takes %s for the address of %s, which both have: "
                        "name %s, or give %s an address of its own",
                        name, uri->device, name, uri->device);
}

static const char *gid_type_name(uint32_t type)
{
    switch (type) {
    case IBV_GID_TYPE_ROCE_V1:
        return "RoCE v1";
    case IBV_GID_TYPE_ROCE_V2:
        return "RoCE v2";
    default:
        return "IB";
    }
}

void okv_verbs_describe(struct ibv_context *verbs, uint8_t port, const struct ibv_gid_entry *gid,
                        enum ibv_mtu mtu, char *out, size_t size)
{
    struct ibv_port_attr attr;
    char address[INET6_ADDRSTRLEN] = "";
    char gid_text[96] = "no GID";
    const char *layer = "unknown link";

    if (ibv_query_port(verbs, port, &attr) == 0)
        layer = attr.link_layer == IBV_LINK_LAYER_ETHERNET ? "ethernet" : "infiniband";
    if (gid) {
        inet_ntop(AF_INET6, gid->gid.raw, address, sizeof address);
        snprintf(gid_text, sizeof gid_text, "GID %u %s (%s)", gid->gid_index, address,
                 gid_type_name(gid->gid_type));
    }
    snprintf(out, size, "%s port %u, %s, path MTU %u, %s", ibv_get_device_name(verbs->device), port,
             gid_text, 128u << mtu, layer);
}

int okv_verbs_set_tos(struct rdma_cm_id *id, const struct okv_uri *uri)
{
    uint8_t tos = uri->tos;

    if (!uri->has_tos)
        return 0;
    return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos) ? errno : 0;
}

static bool is_ipv4_gid(const union ibv_gid *gid)
{
    return IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)gid->raw);
}

/* Entries of the tables of all ports. */
static size_t gid_table_size(struct ibv_context *verbs)
{
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    size_t size = 1;

    if (ibv_query_device(verbs, &device))
        return size;
    for (unsigned i = 1; i <= device.phys_port_cnt; i++)
        if (ibv_query_port(verbs, (uint8_t)i, &port) == 0 && port.gid_tbl_len > 0)
            size += (size_t)port.gid_tbl_len;
    return size;
}

bool okv_verbs_find_gid(struct ibv_context *verbs, uint8_t port, const union ibv_gid *gid,
                        struct ibv_gid_entry *out)
{
    size_t size = gid_table_size(verbs);
    struct ibv_gid_entry *entries = calloc(size, sizeof *entries);
    ssize_t count = entries ? ibv_query_gid_table(verbs, entries, size, 0) : 0;
    const struct ibv_gid_entry *found = NULL;

    for (ssize_t i = 0; i < count; i++) {
        const struct ibv_gid_entry *e = &entries[i];
        if (port && e->port_num != port)
            continue;
        if (gid ? memcmp(e->gid.raw, gid->raw, sizeof gid->raw) != 0 : !is_ipv4_gid(&e->gid))
            continue;
        if (!found ||
            (found->gid_type != IBV_GID_TYPE_ROCE_V2 && e->gid_type == IBV_GID_TYPE_ROCE_V2))
            found = e;
    }
    if (found)
        *out = *found;
    free(entries);
    return found != NULL;
}

bool okv_verbs_is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}
