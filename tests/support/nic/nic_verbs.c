/* Objects of libibverbs: devices, domains, memory, channels. */
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/support/nic/nic_queue.h"
#include "tests/support/nic/nic_state.h"
#include "tests/support/nic/nic_verbs.h"

/* ---- devices ---- */

struct ibv_device **ibv_get_device_list(int *count)
{
    pthread_mutex_lock(&nic.lock);
    struct ibv_device **list = nic_alloc((nic.device_count + 1) * sizeof *list);
    int found = 0;
    for (unsigned i = 0; list && i < nic.device_count; i++)
        if (!nic.devices[i]->is_gone)
            list[found++] = &nic.devices[i]->base;
    if (count)
        *count = found;
    pthread_mutex_unlock(&nic.lock);
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                      size_t size)
{
    const struct nic_device *device = nic_device_of(context);

    memset(attr, 0, size);
    if (port != 1)
        return EINVAL;
    attr->state = IBV_PORT_ACTIVE;
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = device->traits.active_mtu;
    attr->gid_tbl_len = 256;
    attr->max_msg_sz = 1u << 30;
    attr->link_layer = IBV_LINK_LAYER_ETHERNET;
    return 0;
}

/* ---- domains of threads ---- */

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    struct ibv_td *td = NULL;

    (void)attr;
    pthread_mutex_lock(&nic.lock);
    if (nic_device_of(context)->traits.has_no_thread_domains)
        errno = EOPNOTSUPP;
    else if (!nic_is_gone(context) && (td = nic_alloc(sizeof *td))) {
        td->context = context;
        nic.open_objects++;
    }
    pthread_mutex_unlock(&nic.lock);
    return td;
}

static int dealloc_td(struct ibv_td *td)
{
    pthread_mutex_lock(&nic.lock);
    nic_check_open(td->context);
    free(td);
    nic.open_objects--;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
                                          struct ibv_parent_domain_init_attr *attr)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);

    if (pd)
        pd->handle = attr->pd->handle;
    return pd;
}

static struct ibv_context *context_new(struct nic_device *device)
{
    struct verbs_context *made = nic_alloc(sizeof *made);

    device->base.transport_type = device->traits.transport;
    made->sz = sizeof *made;
    made->query_port = query_port;
    made->alloc_td = alloc_td;
    made->dealloc_td = dealloc_td;
    made->alloc_parent_domain = alloc_parent_domain;
    made->context = (struct ibv_context){
        .device = &device->base,
        .ops = {.poll_cq = nic_poll_cq,
                .req_notify_cq = nic_req_notify_cq,
                .post_send = nic_post_send,
                .post_recv = nic_post_recv},
        .cmd_fd = -1,
        .async_fd = eventfd(0, EFD_CLOEXEC),
        .num_comp_vectors = NIC_VECTORS,
        .abi_compat = __VERBS_ABI_IS_EXTENDED,
    };
    return &made->context;
}

void nic_context_free(struct ibv_context *context)
{
    if (!context)
        return;
    close(context->async_fd);
    free((char *)context - offsetof(struct verbs_context, context));
}

struct ibv_context *nic_context(struct nic_device *device)
{
    if (!device->context)
        device->context = context_new(device);
    return device->context;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    pthread_mutex_lock(&nic.lock);
    struct ibv_context *context = context_new((struct nic_device *)(void *)device);
    nic.open_objects++;
    pthread_mutex_unlock(&nic.lock);
    return context;
}

int ibv_close_device(struct ibv_context *context)
{
    pthread_mutex_lock(&nic.lock);
    nic_context_free(context);
    nic.open_objects--;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    pthread_mutex_lock(&nic.lock);
    int errnum = nic_is_gone(context) ? EIO : 0;
    *attr = nic_device_of(context)->traits.attr;
    pthread_mutex_unlock(&nic.lock);
    return errnum;
}

static union ibv_gid gid_of(struct in_addr address)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

    memcpy(&gid.raw[12], &address, sizeof address);
    return gid;
}

union ibv_gid nic_gid_of(struct in_addr address)
{
    return gid_of(address);
}

static unsigned gid_count(const struct nic_device *device)
{
    return device->traits.foreign_gids + device->address_count;
}

static void fill_gid(const struct nic_device *device, unsigned index, struct ibv_gid_entry *entry)
{
    unsigned foreign = device->traits.foreign_gids;
    struct in_addr address = {htonl(0xc6336400u + index)}; /* 198.51.100.0/24 */

    if (index >= foreign)
        address = device->addresses[index - foreign];
    *entry = (struct ibv_gid_entry){.gid = gid_of(address),
                                    .gid_index = index,
                                    .port_num = 1,
                                    .gid_type = IBV_GID_TYPE_ROCE_V2};
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
    const struct nic_device *device = nic_device_of(context);
    int errnum = ENODATA;

    (void)flags, (void)size;
    pthread_mutex_lock(&nic.lock);
    if (port == 1 && index < gid_count(device)) {
        fill_gid(device, index, entry);
        errnum = 0;
    }
    pthread_mutex_unlock(&nic.lock);
    return errnum;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                             uint32_t flags, size_t size)
{
    const struct nic_device *device = nic_device_of(context);

    (void)flags, (void)size;
    pthread_mutex_lock(&nic.lock);
    ssize_t count = gid_count(device) <= max ? (ssize_t)gid_count(device) : -EINVAL;
    for (ssize_t i = 0; i < count; i++)
        fill_gid(device, (unsigned)i, &entries[i]);
    pthread_mutex_unlock(&nic.lock);
    return count;
}

/* ---- domains ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = NULL;

    pthread_mutex_lock(&nic.lock);
    if (!nic_is_gone(context) && (pd = nic_alloc(sizeof *pd))) {
        pd->context = context;
        pd->handle = ++nic.next_pd;
        nic.open_objects++;
    }
    pthread_mutex_unlock(&nic.lock);
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    pthread_mutex_lock(&nic.lock);
    nic_check_open(pd->context);
    free(pd);
    nic.open_objects--;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

/* ---- memory ---- */

/* Never one that was in use before. */
static uint32_t new_key(void)
{
    for (unsigned tries = 0; tries < NIC_MRS; tries++) {
        uint32_t key = ++nic.next_mr;
        if (!nic.mrs[key % NIC_MRS])
            return key;
    }
    nic_misused("too many registrations");
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                             unsigned access)
{
    struct nic_mr *mr = NULL;

    pthread_mutex_lock(&nic.lock);
    if (nic_refuses(NIC_REG_MR) || nic_is_gone(pd->context)) {
        /* errno is set */
    } else if (length > nic_device_of(pd->context)->traits.attr.max_mr_size) {
        errno = EINVAL;
    } else if ((mr = nic_alloc(sizeof *mr))) {
        uint32_t key = new_key();
        mr->base = (struct ibv_mr){.context = pd->context,
                                   .pd = pd,
                                   .addr = address,
                                   .length = length,
                                   .lkey = key,
                                   .rkey = key};
        mr->iova = iova;
        mr->access = access;
        nic.mrs[key % NIC_MRS] = mr;
        nic.open_objects++;
    }
    pthread_mutex_unlock(&nic.lock);
    return mr ? &mr->base : NULL;
}

struct ibv_mr *(ibv_reg_mr)(struct ibv_pd *pd, void *address, size_t length, int access)
{
    return reg_mr(pd, address, length, (uintptr_t)address, (unsigned)access);
}

struct ibv_mr *(ibv_reg_mr_iova)(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                 int access)
{
    return reg_mr(pd, address, length, iova, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                unsigned access)
{
    return reg_mr(pd, address, length, iova, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&nic.lock);
    nic_check_open(mr->context);
    nic.mrs[mr->lkey % NIC_MRS] = NULL;
    free(mr);
    nic.open_objects--;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

/* ---- channels of completions ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct nic_comp_channel *channel = NULL;

    pthread_mutex_lock(&nic.lock);
    if (!nic_is_gone(context) && (channel = nic_alloc(sizeof *channel))) {
        channel->base.context = context;
        channel->base.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
        nic.open_objects++;
    }
    pthread_mutex_unlock(&nic.lock);
    return channel ? &channel->base : NULL;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    pthread_mutex_lock(&nic.lock);
    nic_check_open(channel->context);
    if (((struct nic_comp_channel *)channel)->cq)
        nic_misused("a channel is destroyed before its completion queues");
    close(channel->fd);
    free(channel);
    nic.open_objects--;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

/* ---- for people ---- */

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    return status == IBV_WC_SUCCESS ? "success" : "an emulated failure";
}

/* ---- what these devices lack: datagrams ---- */

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    (void)pd, (void)attr;
    errno = ENOSYS;
    return NULL;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                     uint8_t port)
{
    (void)pd, (void)wc, (void)grh, (void)port;
    errno = ENOSYS;
    return NULL;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    (void)ah;
    return ENOSYS;
}
