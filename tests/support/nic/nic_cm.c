/* The connection manager: ids, addresses, requests and their answers. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "tests/support/nic/nic_state.h"
#include "tests/support/nic/nic_verbs.h"

/* Private data of a request with RDMA_PS_TCP, of an answer and of a rejection: what the peer gets,
 * filled with zeros. */
#define REQUEST_DATA 56
#define ANSWER_DATA 196
#define REJECT_DATA 148
#define REJECT_NO_LISTENER 8
#define REJECT_STALE 10
#define REJECT_BY_CONSUMER 28

static int fail(int errnum)
{
    errno = errnum;
    return -1;
}

static struct nic_id *id_new(struct rdma_event_channel *channel, void *context)
{
    struct nic_id *id = nic_alloc(sizeof *id);

    id->base.channel = channel;
    id->base.context = context;
    id->base.ps = RDMA_PS_TCP;
    LIST_INSERT_HEAD(&nic.ids, id, in_all);
    nic.open_objects++;
    return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
                   enum rdma_port_space space)
{
    if (space != RDMA_PS_TCP)
        return fail(ENOSYS);
    pthread_mutex_lock(&nic.lock);
    *out = &id_new(channel, context)->base;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

/* ---- addresses ---- */

static struct sockaddr_in *source(struct nic_id *id)
{
    return &id->base.route.addr.src_sin;
}

static struct sockaddr_in *target(struct nic_id *id)
{
    return &id->base.route.addr.dst_sin;
}

static bool is_any(const struct sockaddr_in *address)
{
    return address->sin_addr.s_addr == htonl(INADDR_ANY);
}

static void attach(struct nic_id *id, struct nic_device *device)
{
    nic_hold(device);
    id->device = device;
    id->base.verbs = nic_context(device);
    id->base.port_num = 1;
    id->base.route.addr.addr.ibaddr.sgid = nic_gid_of(source(id)->sin_addr);
}

static void choose_port(struct nic_id *id)
{
    if (source(id)->sin_port == 0)
        source(id)->sin_port = htons(nic.next_port++);
}

static bool is_taken(const struct nic_id *id, const struct sockaddr_in *address)
{
    struct nic_id *other;

    LIST_FOREACH(other, &nic.ids, in_all)
    {
        bool overlaps = is_any(source(other)) || is_any(address) ||
                        source(other)->sin_addr.s_addr == address->sin_addr.s_addr;
        if (other != id && address->sin_port != 0 && other->state == NIC_ID_LISTENING && overlaps &&
            source(other)->sin_port == address->sin_port)
            return true;
    }
    return false;
}

static int bind_to(struct nic_id *id, const struct sockaddr *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET};

    /* Of IPv6 addresses there is the wildcard. */
    if (address->sa_family == AF_INET)
        memcpy(&in, address, sizeof in);
    else
        in.sin_port = ((const struct sockaddr_in6 *)(const void *)address)->sin6_port;
    struct nic_device *device = nic_device_at(in.sin_addr);
    if (!is_any(&in) && !device)
        return fail(ENODEV);
    if (is_taken(id, &in))
        return fail(EADDRINUSE);
    *source(id) = in;
    choose_port(id);
    if (device)
        attach(id, device);
    id->state = NIC_ID_BOUND;
    return 0;
}

int rdma_bind_addr(struct rdma_cm_id *base, struct sockaddr *address)
{
    pthread_mutex_lock(&nic.lock);
    int rc = bind_to((struct nic_id *)base, address);
    pthread_mutex_unlock(&nic.lock);
    return rc;
}

int rdma_listen(struct rdma_cm_id *base, int backlog)
{
    (void)backlog;
    pthread_mutex_lock(&nic.lock);
    ((struct nic_id *)base)->state = NIC_ID_LISTENING;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return id->route.addr.src_sin.sin_port;
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return id->route.addr.dst_sin.sin_port;
}

static struct nic_device *any_device(void)
{
    for (unsigned i = 0; i < nic.device_count; i++)
        if (!nic.devices[i]->is_gone && nic.devices[i]->address_count > 0)
            return nic.devices[i];
    return NULL;
}

/* Without a source the first device has the route. */
static int resolve(struct nic_id *id, const struct sockaddr *from, const struct sockaddr *to)
{
    struct nic_device *device = any_device();

    if (to->sa_family != AF_INET)
        return fail(EADDRNOTAVAIL);
    memcpy(target(id), to, sizeof *target(id));
    if (from) {
        memcpy(source(id), from, sizeof *source(id));
        device = nic_device_at(source(id)->sin_addr);
    } else if (device) {
        *source(id) = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = device->addresses[0]};
    }
    if (!device)
        return fail(ENODEV);
    if (!nic_device_at(target(id)->sin_addr)) {
        nic_event_add(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, NULL, 0);
        return 0;
    }
    source(id)->sin_port = 0;
    choose_port(id);
    attach(id, device);
    id->base.route.addr.addr.ibaddr.dgid = nic_gid_of(target(id)->sin_addr);
    id->state = NIC_ID_BOUND;
    nic_event_add(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
    return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *base, struct sockaddr *from, struct sockaddr *to,
                      int timeout_ms)
{
    (void)timeout_ms;
    pthread_mutex_lock(&nic.lock);
    int rc = resolve((struct nic_id *)base, from, to);
    pthread_mutex_unlock(&nic.lock);
    return rc;
}

static void set_route(struct nic_id *id, enum ibv_mtu mtu)
{
    id->path.sgid = id->base.route.addr.addr.ibaddr.sgid;
    id->path.dgid = id->base.route.addr.addr.ibaddr.dgid;
    id->path_mtu = mtu;
    id->base.route.path_rec = &id->path;
    id->base.route.num_paths = 1;
}

int rdma_resolve_route(struct rdma_cm_id *base, int timeout_ms)
{
    struct nic_id *id = (struct nic_id *)base;

    (void)timeout_ms;
    pthread_mutex_lock(&nic.lock);
    set_route(id, id->device->traits.active_mtu);
    nic_event_add(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

int rdma_set_option(struct rdma_cm_id *base, int level, int name, void *value, size_t length)
{
    if (level != RDMA_OPTION_ID || name != RDMA_OPTION_ID_TOS || length != 1)
        return fail(ENOSYS);
    pthread_mutex_lock(&nic.lock);
    ((struct nic_id *)base)->tos = *(uint8_t *)value;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

/* ---- requests ---- */

static bool is_held(const struct nic_device *device, uint32_t qp_num)
{
    for (unsigned i = 0; i < NIC_HELD; i++)
        if (nic.held[i].device == device && nic.held[i].qp_num == qp_num &&
            okv_clock_ns() < nic.held[i].until_ns)
            return true;
    return false;
}

static void hold(struct nic_id *id)
{
    if (nic.hold_ns == 0 || !id->own_qp)
        return;
    nic.held[nic.held_next++ % NIC_HELD] =
        (struct nic_held){id->device, id->own_qp, okv_clock_ns() + nic.hold_ns};
}

static struct nic_id *listener_at(const struct sockaddr_in *address)
{
    struct nic_id *id;

    LIST_FOREACH(id, &nic.ids, in_all)
    {
        if (id->state == NIC_ID_LISTENING && source(id)->sin_port == address->sin_port &&
            (is_any(source(id)) || source(id)->sin_addr.s_addr == address->sin_addr.s_addr) &&
            (!id->device || id->device == nic_device_at(address->sin_addr)))
            return id;
    }
    return NULL;
}

static void set_parameters(struct nic_event *event, const struct rdma_conn_param *given)
{
    struct rdma_conn_param *param = &event->base.param.conn;

    /* Each side sees its own resources and those that it may use. */
    param->responder_resources = given->initiator_depth;
    param->initiator_depth = given->responder_resources;
    param->flow_control = given->flow_control;
    param->retry_count = given->retry_count;
    param->rnr_retry_count = given->rnr_retry_count;
    param->qp_num = given->qp_num;
}

static void request(struct nic_id *client, struct nic_id *listener,
                    const struct rdma_conn_param *param)
{
    uint8_t data[REQUEST_DATA] = {0};
    struct nic_id *id = id_new(listener->base.channel, listener->base.context);

    if (param->private_data_len > REQUEST_DATA)
        nic_misused("too much private data");
    memcpy(data, param->private_data, param->private_data_len);
    *source(id) = *target(client);
    *target(id) = *source(client);
    attach(id, nic_device_at(target(client)->sin_addr));
    id->base.route.addr.addr.ibaddr.dgid = client->base.route.addr.addr.ibaddr.sgid;
    set_route(id, client->path_mtu);
    id->tos = client->tos; /* of the request's path */
    id->state = NIC_ID_REQUESTED;
    id->peer = client;
    id->peer_qp = param->qp_num;
    client->peer = id;
    struct nic_event *event =
        nic_event_add(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, data, sizeof data);
    event->base.listen_id = &listener->base;
    event->owner = listener;
    set_parameters(event, param);
}

int rdma_connect(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
    struct nic_id *id = (struct nic_id *)base;

    pthread_mutex_lock(&nic.lock);
    struct nic_id *listener = listener_at(target(id));
    id->own_qp = param->qp_num;
    id->state = NIC_ID_CONNECTING;
    if (!listener)
        nic_event_add(id, RDMA_CM_EVENT_REJECTED, REJECT_NO_LISTENER, NULL, 0);
    else if (is_held(id->device, param->qp_num))
        nic_event_add(id, RDMA_CM_EVENT_REJECTED, REJECT_STALE, NULL, 0);
    else
        request(id, listener, param);
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

int rdma_accept(struct rdma_cm_id *base, struct rdma_conn_param *param)
{
    struct nic_id *id = (struct nic_id *)base;
    uint8_t data[ANSWER_DATA] = {0};
    int rc = 0;

    pthread_mutex_lock(&nic.lock);
    if (nic_refuses(NIC_ACCEPT)) {
        rc = -1;
    } else if (id->state != NIC_ID_REQUESTED || !id->peer) {
        rc = fail(EINVAL);
    } else {
        if (param->private_data_len > ANSWER_DATA)
            nic_misused("too much private data");
        memcpy(data, param->private_data, param->private_data_len);
        id->own_qp = param->qp_num;
        id->peer->peer_qp = param->qp_num;
        id->state = id->peer->state = NIC_ID_ANSWERED;
        set_parameters(
            nic_event_add(id->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, data, sizeof data), param);
    }
    pthread_mutex_unlock(&nic.lock);
    return rc;
}

static void part(struct nic_id *id)
{
    if (id->peer)
        id->peer->peer = NULL;
    id->peer = NULL;
    id->state = NIC_ID_ENDED;
}

/* Of a request that was not answered. */
static void refuse(struct nic_id *id, const void *data, size_t length)
{
    uint8_t reason[REJECT_DATA] = {0};
    struct nic_id *client = id->peer;

    if (length > 0)
        memcpy(reason, data, length);
    part(id);
    if (client)
        nic_event_add(client, RDMA_CM_EVENT_REJECTED, REJECT_BY_CONSUMER, reason, sizeof reason);
}

int rdma_reject(struct rdma_cm_id *base, const void *data, uint8_t length)
{
    struct nic_id *id = (struct nic_id *)base;
    int rc = 0;

    pthread_mutex_lock(&nic.lock);
    if (id->state == NIC_ID_REQUESTED && length <= REJECT_DATA)
        refuse(id, data, length);
    else
        rc = fail(EINVAL);
    pthread_mutex_unlock(&nic.lock);
    return rc;
}

int rdma_establish(struct rdma_cm_id *base)
{
    struct nic_id *id = (struct nic_id *)base;
    int rc = 0;

    pthread_mutex_lock(&nic.lock);
    if (id->state != NIC_ID_ANSWERED || !id->peer) {
        rc = fail(EINVAL);
    } else {
        id->state = id->peer->state = NIC_ID_CONNECTED;
        nic_event_add(id->peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    }
    pthread_mutex_unlock(&nic.lock);
    return rc;
}

/* ---- ends ---- */

static void disconnect(struct nic_id *id)
{
    struct nic_id *peer = id->peer;

    hold(id);
    part(id);
    nic_event_add(id, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    if (!peer)
        return;
    hold(peer);
    peer->state = NIC_ID_ENDED;
    nic_event_add(peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
}

static bool is_connected(const struct nic_id *id)
{
    return id->state == NIC_ID_CONNECTED || id->state == NIC_ID_ANSWERED;
}

int rdma_disconnect(struct rdma_cm_id *base)
{
    struct nic_id *id = (struct nic_id *)base;
    int rc = 0;

    pthread_mutex_lock(&nic.lock);
    if (is_connected(id))
        disconnect(id);
    else
        rc = fail(EINVAL);
    pthread_mutex_unlock(&nic.lock);
    return rc;
}

static void id_free(struct nic_id *id)
{
    LIST_REMOVE(id, in_all);
    nic_events_end(id);
    if (id->device)
        nic_drop(id->device);
    free(id);
    nic.open_objects--;
}

void nic_request_forget(struct nic_id *id)
{
    refuse(id, NULL, 0);
    id_free(id);
}

int rdma_destroy_id(struct rdma_cm_id *base)
{
    struct nic_id *id = (struct nic_id *)base;

    pthread_mutex_lock(&nic.lock);
    if (id->state == NIC_ID_REQUESTED)
        refuse(id, NULL, 0);
    else if (is_connected(id))
        disconnect(id);
    else
        part(id);
    id_free(id);
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

void nic_cm_removed(struct nic_device *device)
{
    struct nic_id *id;

    LIST_FOREACH(id, &nic.ids, in_all)
    {
        if (id->device != device)
            continue;
        nic_event_add(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL, 0);
        if (id->state != NIC_ID_LISTENING)
            part(id);
    }
}

void nic_cm_moved(struct in_addr address)
{
    struct nic_id *id;

    LIST_FOREACH(id, &nic.ids, in_all)
    {
        if (id->device && source(id)->sin_addr.s_addr == address.s_addr)
            nic_event_add(id, RDMA_CM_EVENT_ADDR_CHANGE, 0, NULL, 0);
    }
}

/* ---- for queue pairs ---- */

int rdma_init_qp_attr(struct rdma_cm_id *base, struct ibv_qp_attr *attr, int *mask)
{
    struct nic_id *id = (struct nic_id *)base;

    *mask = IBV_QP_STATE;
    pthread_mutex_lock(&nic.lock);
    attr->path_mtu = id->path_mtu;
    attr->dest_qp_num = id->peer_qp;
    attr->ah_attr =
        (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.traffic_class = id->tos}};
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

/* ---- devices ---- */

struct ibv_context **rdma_get_devices(int *count)
{
    struct ibv_context **list = nic_alloc((NIC_DEVICES + 1) * sizeof *list);
    int found = 0;

    pthread_mutex_lock(&nic.lock);
    for (unsigned i = 0; list && i < nic.device_count; i++)
        if (!nic.devices[i]->is_gone)
            list[found++] = nic_context(nic.devices[i]);
    for (int i = 0; i < found; i++)
        nic_hold(nic_device_of(list[i]));
    pthread_mutex_unlock(&nic.lock);
    if (count)
        *count = found;
    return list;
}

void rdma_free_devices(struct ibv_context **list)
{
    pthread_mutex_lock(&nic.lock);
    for (struct ibv_context **context = list; *context; context++)
        nic_drop(nic_device_of(*context));
    pthread_mutex_unlock(&nic.lock);
    free(list);
}

/* ---- what these devices lack: datagrams ---- */

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    (void)id, (void)pd, (void)attr;
    return fail(ENOSYS);
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    (void)id;
}

int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
                           void *context)
{
    (void)id, (void)attr, (void)context;
    return fail(ENOSYS);
}

int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *address)
{
    (void)id, (void)address;
    return fail(ENOSYS);
}
