#include "shared/transport/verbs/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/binding.h"
#include "shared/transport/verbs/conn.h"
#include "shared/transport/verbs/device.h"
#include "shared/transport/verbs/handover.h"
#include "shared/transport/verbs/mr.h"
#include "shared/transport/verbs/post.h"
#include "shared/transport/verbs/qp.h"

/* Events of the connection manager that one call of next_request handles, so that a peer that
 * causes many cannot keep the listener's thread busy. */
#define EVENTS_PER_CALL 64

static int diagnose_bind(int errnum, const struct okv_uri *uri, struct okv_diag *diag)
{
    char names[96];

    if (errnum != ENODEV)
        return okv_bind_failed(errnum, uri->host, uri->port, diag);
    okv_verbs_device_names(names, sizeof names);
    return okv_diag_set(diag, OKV_EADDRESS,
                        "the address %s belongs to no RDMA device (there are: %s): listen on an "
                        "address of a network device that 'rdma link' names",
                        uri->host, names);
}

static int bind_any(struct verbs_listener *l, const struct okv_uri *uri, struct okv_diag *diag)
{
    uint16_t port = htons((uint16_t)strtoul(uri->port, NULL, 10));
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = port};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = port};

    /* The IPv6 wildcard accepts IPv4 too. A kernel without IPv6 has only the IPv4 one. */
    if (rdma_bind_addr(l->id, (struct sockaddr *)&in6) == 0)
        return 0;
    if (errno != EADDRINUSE && rdma_bind_addr(l->id, (struct sockaddr *)&in) == 0)
        return 0;
    return diagnose_bind(errno, uri, diag);
}

static int bind_host(struct verbs_listener *l, const struct okv_uri *uri, struct okv_diag *diag)
{
    struct addrinfo *found;
    int errnum = EADDRNOTAVAIL;

    int rc = okv_resolve(uri->host, uri->port, 0, &found, diag);
    if (rc)
        return rc;
    for (struct addrinfo *ai = found; ai; ai = ai->ai_next) {
        /* The kernel would accept a loopback address and listen on some device's real address
         * instead, open to the network. */
        if (okv_verbs_is_loopback(ai->ai_addr)) {
            errnum = ENODEV;
        } else if (rdma_bind_addr(l->id, ai->ai_addr) == 0) {
            errnum = 0;
            break;
        } else {
            errnum = errno;
        }
    }
    freeaddrinfo(found);
    return errnum ? diagnose_bind(errnum, uri, diag) : 0;
}

/* An address determines its device. The wildcard works only when there is one device. */
static int choose_device(struct verbs_listener *l, struct okv_diag *diag)
{
    l->verbs = l->id->verbs;
    if (l->verbs)
        return 0;
    int count = 0;
    l->devices = rdma_get_devices(&count);
    if (l->devices && count == 1)
        l->verbs = l->devices[0];
    if (l->verbs)
        return 0;
    char names[128];
    if (okv_verbs_device_names(names, sizeof names) == 0)
        return okv_verbs_no_channel(ENODEV, diag);
    return okv_diag_set(diag, OKV_EADDRESS,
                        "'*' is ambiguous with several RDMA devices (%s): use one --listen with "
                        "an address for each",
                        names);
}

/* Describes the port and reads its limits. */
static void query_port(struct verbs_listener *l)
{
    struct ibv_gid_entry gid;
    struct ibv_port_attr attr;
    char address[80];
    uint8_t port = l->id->port_num ? l->id->port_num : 1;
    bool any = !l->id->verbs;
    bool known =
        okv_verbs_find_gid(l->verbs, port, any ? NULL : &l->id->route.addr.addr.ibaddr.sgid, &gid);

    bool answers = ibv_query_port(l->verbs, port, &attr) == 0;
    l->is_infiniband = answers && attr.link_layer == IBV_LINK_LAYER_INFINIBAND;
    l->rendezvous_piece = answers && attr.max_msg_sz > 0 && attr.max_msg_sz < VERBS_RENDEZVOUS_PIECE
                              ? attr.max_msg_sz
                              : VERBS_RENDEZVOUS_PIECE;
    okv_verbs_describe(l->verbs, port, known ? &gid : NULL,
                       answers ? attr.active_mtu : IBV_MTU_1024, l->base.how, sizeof l->base.how);

    okv_address_text(rdma_get_local_addr(l->id), address, sizeof address);
    unsigned number = ntohs(rdma_get_src_port(l->id));
    if (any && known) /* the device's GID holds an address that clients can use */
        snprintf(address, sizeof address, "%u.%u.%u.%u:%u", gid.gid.raw[12], gid.gid.raw[13],
                 gid.gid.raw[14], gid.gid.raw[15], number);
    else if (any && gethostname(address, sizeof address - 8) == 0)
        snprintf(address + strlen(address), 8, ":%u", number);
    snprintf(l->base.where, sizeof l->base.where, "rdma://%s", address);
}

/* Registers a region in a domain of its own. Peers may read it and not write it. Local writes are
 * for rendezvous reads, which the device writes into it. */
static int open_region(struct verbs_listener *l, const struct okv_region *memory,
                       uint64_t max_mr_size, struct okv_diag *diag)
{
    struct verbs_region *region = &l->regions[l->region_count];

    if (memory->length > max_mr_size)
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "a database has %llu MiB, and %s registers at most %llu MiB as one "
                            "region: give it less --memory, or keep several databases",
                            (unsigned long long)memory->length >> 20,
                            ibv_get_device_name(l->verbs->device),
                            (unsigned long long)max_mr_size >> 20);
    region->pd = ibv_alloc_pd(l->verbs);
    if (!region->pd)
        return okv_diag_set(diag, okv_error_from_errno(errno), "%s gives no protection domain: %s",
                            ibv_get_device_name(l->verbs->device), strerror(errno));
    int rc = okv_verbs_register(region->pd, memory->base, memory->length,
                                IBV_ACCESS_REMOTE_READ | VERBS_WRITTEN_HERE, 0, &region->mr, diag);
    if (rc) {
        ibv_dealloc_pd(region->pd);
        return rc;
    }
    l->base.rkeys[l->region_count++] = region->mr->rkey;
    return 0;
}

static void close_regions(struct verbs_listener *l)
{
    while (l->region_count > 0) {
        const struct verbs_region *region = &l->regions[--l->region_count];
        ibv_dereg_mr(region->mr);
        ibv_dealloc_pd(region->pd);
    }
}

/* Last: librdmacm closes a device that is gone with the last id or list that refers to it, whatever
 * else is open. */
static void close_id(struct verbs_listener *l)
{
    rdma_destroy_id(l->id);
    if (l->devices)
        rdma_free_devices(l->devices);
}

static int listen_on(struct verbs_listener *l, const struct okv_uri *uri,
                     const struct okv_region *regions, unsigned count, struct okv_diag *diag)
{
    struct ibv_device_attr attr;
    bool any = strcmp(uri->host, "*") == 0;
    int rc = any ? bind_any(l, uri, diag) : bind_host(l, uri, diag);
    if (rc == 0)
        rc = choose_device(l, diag);
    if (rc == 0)
        rc = okv_verbs_check_named(l->verbs, uri, diag);
    if (rc == 0)
        rc = okv_verbs_check_device(l->verbs, &attr, diag);
    for (unsigned i = 0; rc == 0 && i < count; i++)
        rc = open_region(l, &regions[i], attr.max_mr_size, diag);
    if (rc)
        return rc;
    l->max_reads_in = verbs_at_most(attr.max_qp_rd_atom, 254);
    l->rendezvous_depth = verbs_at_most(attr.max_qp_init_rd_atom, VERBS_RENDEZVOUS_DEPTH);
    query_port(l);
    if (rdma_listen(l->id, 0)) /* 0: the system's limit, net.rdma_ucm.max_backlog */
        rc = diagnose_bind(errno, uri, diag);
    return rc;
}

int okv_verbs_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                     struct okv_listener **out, struct okv_diag *diag)
{
    struct verbs_listener *l = calloc(1, sizeof *l);
    if (!l)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a listener");
    int rc = okv_verbs_channel(&l->channel, diag);
    if (rc)
        goto free_listener;
    if (rdma_create_id(l->channel, &l->id, NULL, RDMA_PS_TCP)) {
        rc = okv_diag_set(diag, OKV_EIO, "the RDMA connection manager gives no id: %s",
                          strerror(errno));
        goto destroy_channel;
    }
    rc = listen_on(l, uri, regions, count, diag);
    if (rc)
        goto close_regions;
    l->base.ops = &okv_transport_verbs;
    l->base.fd = l->channel->fd;
    *out = &l->base;
    return 0;

close_regions:
    close_regions(l);
    close_id(l);
destroy_channel:
    rdma_destroy_event_channel(l->channel);
free_listener:
    free(l);
    return rc;
}

void okv_verbs_unlisten(struct okv_listener *listener)
{
    struct verbs_listener *l = (struct verbs_listener *)listener;
    if (!l)
        return;
    close_regions(l);
    close_id(l);
    rdma_destroy_event_channel(l->channel);
    free(l);
}

/* Where the answer goes. What rdma_get_peer_addr() tells is only the client's word. The GIDs of an
 * InfiniBand subnet begin alike, and no host chooses how its own ends. */
static void name_address(const struct verbs_listener *l, struct rdma_cm_id *id, char *out)
{
    struct sockaddr_in6 gid = {.sin6_family = AF_INET6};

    if (id->route.num_paths > 0)
        memcpy(&gid.sin6_addr, id->route.path_rec[0].dgid.raw, sizeof gid.sin6_addr);
    if (l->is_infiniband)
        okv_host_text((struct sockaddr *)&gid, out, OKV_HOST_TEXT);
    else
        okv_host_group_text((struct sockaddr *)&gid, out);
}

static struct verbs_request *make_request(struct verbs_listener *l,
                                          const struct rdma_cm_event *event)
{
    struct verbs_request *request = calloc(1, sizeof *request);
    if (!request)
        return NULL;
    size_t length = event->param.conn.private_data_len;
    if (event->param.conn.private_data)
        memcpy(request->hello, event->param.conn.private_data, length);
    request->id = event->id;
    request->responder_resources = event->param.conn.responder_resources;
    request->initiator_depth = event->param.conn.initiator_depth;
    request->base.listener = &l->base;
    request->base.hello = request->hello;
    request->base.hello_length = length < OKV_HELLO_MAX ? OKV_HELLO_MAX : length;
    okv_verbs_binding(event->id, false, event->param.conn.qp_num, &request->base.binding);
    okv_address_text(rdma_get_peer_addr(event->id), request->base.peer, sizeof request->base.peer);
    name_address(l, event->id, request->base.address);
    request->base.is_half_open = true;
    return request;
}

/* A request by another device reaches the wildcard, which has no device that could be removed: when
 * a device was away and is back it is another one. */
static void suspect_device(struct verbs_listener *l)
{
    struct ibv_device_attr attr;

    if (ibv_query_device(l->verbs, &attr))
        l->failure = OKV_ENODEVICE;
}

/* Handles and acknowledges one event. Returns the request, if it was one. */
static struct verbs_request *handle_event(struct verbs_listener *l, struct rdma_cm_event *event)
{
    struct verbs_request *request = NULL;
    struct rdma_cm_id *unwanted = NULL;

    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        if (event->id->verbs == l->verbs)
            request = make_request(l, event);
        else
            suspect_device(l);
        if (!request)
            unwanted = event->id;
    } else {
        struct verbs_conn *conn = event->id->context; /* NULL: the listener, or not accepted yet */
        if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
            l->failure = OKV_ENODEVICE;
        /* A bond has moved to another device, where connections arrive from now on. */
        if (event->event == RDMA_CM_EVENT_ADDR_CHANGE && event->id == l->id)
            l->failure = OKV_EADDRESS;
        if (conn && event->event == RDMA_CM_EVENT_ESTABLISHED)
            verbs_conn_is_ready(conn);
        if (conn && okv_verbs_is_gone_event(event->event))
            okv_verbs_handover_gone(conn);
    }
    rdma_ack_cm_event(event);
    if (unwanted) {
        rdma_reject(unwanted, NULL, 0);
        rdma_destroy_id(unwanted);
    }
    return request;
}

int okv_verbs_next_request(struct okv_listener *listener, struct okv_request **out)
{
    struct verbs_listener *l = (struct verbs_listener *)listener;

    for (unsigned i = 0; i < EVENTS_PER_CALL; i++) {
        struct rdma_cm_event *event;
        if (rdma_get_cm_event(l->channel, &event)) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN)
                return OKV_EIO;
            return l->failure;
        }
        struct verbs_request *request = handle_event(l, event);
        if (request) {
            *out = &request->base;
            return 1;
        }
    }
    return 0; /* the descriptor is readable as long as there are more */
}

void okv_verbs_reject(struct okv_request *request, const uint8_t *reason, size_t length)
{
    struct verbs_request *r = (struct verbs_request *)request;
    if (length > OKV_REJECT_MAX)
        length = OKV_REJECT_MAX;
    rdma_reject(r->id, reason, (uint8_t)length);
    rdma_destroy_id(r->id);
    free(r);
}

/* Answers the request on a connection whose queue pair is ready. */
static int answer(struct verbs_request *r, struct verbs_conn *conn, uint8_t reads_in,
                  const struct okv_accept *accept)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    struct rdma_conn_param param = {
        .private_data = accept->welcome,
        .private_data_len = (uint8_t)accept->length,
        .responder_resources = reads_in,
        .initiator_depth = conn->rendezvous_depth,
        .flow_control = 1,
        .rnr_retry_count = VERBS_RETRY_COUNT,
        .qp_num = conn->qp_num,
    };
    /* Under the lock: a message of the client may reach the endpoint's thread before rdma_accept()
     * returns, and must then find the connection. */
    pthread_mutex_lock(&ep->arrivals.lock);
    conn->heartbeat_from_ns = okv_clock_ns() + VERBS_READY_NS;
    r->id->context = conn;
    conn->id = r->id;
    int errnum = rdma_accept(r->id, &param) ? errno : 0;
    if (errnum == 0) {
        okv_arrivals_add_locked(&ep->arrivals, &conn->base);
        okv_wakeup_signal(&ep->wakeup);
    }
    pthread_mutex_unlock(&ep->arrivals.lock);
    return errnum;
}

/* A port whose interface has a smaller MTU than the client's would refuse the queue pair, or drop
 * its first long packet. */
static bool fits_port(const struct verbs_listener *l, struct rdma_cm_id *id,
                      struct okv_accept_failure *failure)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    struct ibv_port_attr port;
    int mask;

    if (rdma_init_qp_attr(id, &attr, &mask) || ibv_query_port(l->verbs, id->port_num, &port) ||
        attr.path_mtu <= port.active_mtu)
        return true;
    failure->path_mtu = (uint16_t)(128u << attr.path_mtu);
    failure->port_mtu = (uint16_t)(128u << port.active_mtu);
    return false;
}

/* Returns 0 or an errno, with the step that failed. */
static int connect_back(struct verbs_request *r, struct verbs_conn *conn,
                        const struct okv_accept *accept, const char **step)
{
    struct verbs_listener *l = (struct verbs_listener *)r->base.listener;
    uint8_t reads_in = verbs_at_most(r->responder_resources, l->max_reads_in);

    conn->rendezvous_depth = verbs_at_most(r->initiator_depth, l->rendezvous_depth);
    *step = "initialising the queue pair";
    int errnum = okv_verbs_qp_to_init(conn, r->id, IBV_ACCESS_REMOTE_READ);
    if (errnum)
        return errnum;
    *step = "posting receive buffers";
    errnum = okv_verbs_post_slots(conn);
    if (errnum)
        return errnum;
    *step = "readying the queue pair";
    errnum = okv_verbs_qp_to_rts(conn, r->id, reads_in, conn->rendezvous_depth);
    if (errnum)
        return errnum;
    *step = "answering";
    return answer(r, conn, reads_in, accept);
}

int okv_verbs_accept(struct okv_request *request, const struct okv_accept *accept)
{
    struct verbs_request *r = (struct verbs_request *)request;
    struct verbs_listener *l = (struct verbs_listener *)request->listener;
    struct okv_accept_failure ignored, *failure = accept->failure ? accept->failure : &ignored;
    struct verbs_conn *conn;

    *failure = (struct okv_accept_failure){.step = NULL};
    if (accept->length > OKV_WELCOME_MAX)
        return OKV_EINVAL;
    if (r->initiator_depth == 0)
        return OKV_EUNSUPPORTED; /* a client that allows no rendezvous read */
    if (!fits_port(l, r->id, failure))
        return OKV_EADDRESS;
    errno = 0;
    int rc = okv_verbs_conn_new((struct verbs_endpoint *)accept->endpoint,
                                &l->regions[accept->region], &conn, NULL);
    if (rc) {
        failure->step = "making a queue pair and its buffers";
        failure->errnum = errno;
        return rc;
    }
    conn->base.user = accept->user;
    conn->is_half_open = accept->is_half_open;
    snprintf(conn->base.peer, sizeof conn->base.peer, "%s", request->peer);
    failure->errnum = connect_back(r, conn, accept, &failure->step);
    if (failure->errnum) {
        /* Usually the client has given up waiting. */
        rc = failure->errnum == ENOMEM ? OKV_ENOMEM : OKV_EDISCONNECTED;
        goto free_conn;
    }
    free(r);
    return 0;

free_conn:
    r->id->context = NULL;
    okv_verbs_conn_free(conn);
    return rc;
}
