/*
 * Discovery by a UD queue pair of an RDMA device.
 *
 * One that listens is a full member of the group. One that asks is a send-only member: the queries
 * of others would fill its receive queue.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/discovery/discovery.h"

#define RECVS 64
#define SENDS 16
#define GRH 40    /* bytes in front of every received datagram */
#define SLOT 4160 /* of the largest datagram: rxe jams a receive that one did not fit */
#define JOIN_MS 1000
#define GROUP_QP 0xffffff
#define QP_FIRST 2 /* those below are of the subnet's management */

_Static_assert(SLOT >= GRH + 4096, "the largest MTU");

struct ud_port {
    struct okv_discovery_port base; /* base.fd: an epoll set of the two channels */
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *completions;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *slots;            /* RECVS of SLOT bytes for receives, SENDS for sends */
    struct sockaddr_in joined; /* the group, or all zeros */
    struct ibv_ah_attr attr;   /* of the group */
    struct ibv_ah *group;      /* NULL until it was joined */
    struct ibv_ah *ahs[SENDS]; /* of the answers under way */
    uint32_t busy;             /* a bit for each send under way */
    bool is_infiniband;
    bool holds;           /* the slot of `latest` is not posted */
    struct ibv_wc latest; /* of the latest datagram */
};
_Static_assert(SENDS < 32, "busy has a bit for each send");

static uint8_t *slot_of(struct ud_port *ud, unsigned index)
{
    return ud->slots + (size_t)index * SLOT;
}

static int post_recv(struct ud_port *ud, unsigned index)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)slot_of(ud, index), .length = SLOT, .lkey = ud->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1};

    errno = ibv_post_recv(ud->id->qp, &wr, &bad);
    return errno ? OKV_EIO : 0;
}

static bool is_busy(const struct ud_port *ud)
{
    return ud->busy == (1u << SENDS) - 1;
}

/* Sends a datagram; one send is free. `ah` is destroyed with its send, unless it is the group's. */
static int post_send(struct ud_port *ud, const struct okv_wire_discovery *datagram,
                     struct ibv_ah *ah, uint32_t qp)
{
    unsigned index = (unsigned)__builtin_ctz(~ud->busy);
    uint8_t *slot = slot_of(ud, RECVS + index);
    struct ibv_sge sge = {
        .addr = (uintptr_t)slot, .length = sizeof *datagram, .lkey = ud->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {
            .wr_id = RECVS + index,
            .sg_list = &sge,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.ud = {.ah = ah, .remote_qpn = qp, .remote_qkey = RDMA_UDP_QKEY},
        };
    memcpy(slot, datagram, sizeof *datagram);
    int errnum = ibv_post_send(ud->id->qp, &wr, &bad);
    if (ah != ud->group && errnum)
        ibv_destroy_ah(ah);
    if (errnum)
        return OKV_EIO;
    ud->busy |= 1u << index;
    ud->ahs[index] = ah == ud->group ? NULL : ah;
    return 0;
}

static int ud_ask(struct okv_discovery_port *port, const struct okv_wire_discovery *query)
{
    struct ud_port *ud = (struct ud_port *)port;

    return is_busy(ud) ? 0 : post_send(ud, query, ud->group, GROUP_QP);
}

/* The sender's address, or NULL if it has none that may be answered. On RoCE
 * ibv_create_ah_from_wc() refuses a datagram that came to a group, so the address is made from the
 * IPv4 header, which is the last 20 bytes in the place of the GRH. */
static struct ibv_ah *sender_of(struct ud_port *ud)
{
    uint8_t *grh = slot_of(ud, (unsigned)ud->latest.wr_id);
    const uint8_t *ip = grh + GRH - 20;
    const uint8_t *source = ip + 12;
    struct ibv_ah_attr attr = ud->attr;

    if (ud->is_infiniband)
        return ibv_create_ah_from_wc(ud->pd, &ud->latest, (struct ibv_grh *)(void *)grh,
                                     ud->attr.port_num);
    /* Never to a group or to all hosts: one query would have many answers. */
    if (ip[0] != 0x45 || source[0] == 0 || source[0] == IN_LOOPBACKNET || source[0] >= 0xe0)
        return NULL;
    memset(&attr.grh.dgid, 0, sizeof attr.grh.dgid);
    memset(&attr.grh.dgid.raw[10], 0xff, 2);
    memcpy(&attr.grh.dgid.raw[12], source, 4);
    return ibv_create_ah(ud->pd, &attr);
}

static int ud_answer(struct okv_discovery_port *port, const struct okv_wire_discovery *answer)
{
    struct ud_port *ud = (struct ud_port *)port;
    struct ibv_ah *ah;

    if (!ud->holds || ud->latest.src_qp < QP_FIRST || ud->latest.src_qp == GROUP_QP || is_busy(ud))
        return 0;
    ah = sender_of(ud);
    return ah ? post_send(ud, answer, ah, ud->latest.src_qp) : 0;
}

static void send_completed(struct ud_port *ud, unsigned index)
{
    if (ud->ahs[index])
        ibv_destroy_ah(ud->ahs[index]);
    ud->ahs[index] = NULL;
    ud->busy &= ~(1u << index);
}

/* Returns 1 with a received datagram in `latest`, 0 when the queue is empty, or OKV_EIO. */
static int next_completion(struct ud_port *ud)
{
    for (;;) {
        struct ibv_wc wc;
        int count = ibv_poll_cq(ud->cq, 1, &wc);
        if (count == 0)
            return 0;
        if (count < 0 || wc.status != IBV_WC_SUCCESS)
            return OKV_EIO;
        if (wc.wr_id >= RECVS) {
            send_completed(ud, (unsigned)wc.wr_id - RECVS);
            continue;
        }
        ud->latest = wc;
        ud->holds = true;
        return 1;
    }
}

/* The queue was empty: the next completion makes `fd` readable. OKV_EIO for an event that ends the
 * membership. */
static int arm(struct ud_port *ud)
{
    struct rdma_cm_event *event;
    struct ibv_cq *cq;
    void *context;
    int rc = 0;

    while (rdma_get_cm_event(ud->channel, &event) == 0) {
        if (event->event != RDMA_CM_EVENT_ADDR_CHANGE)
            rc = OKV_EIO;
        rdma_ack_cm_event(event);
    }
    if (ibv_get_cq_event(ud->completions, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
    return rc || ibv_req_notify_cq(ud->cq, 0) ? OKV_EIO : 0;
}

static int ud_receive(struct okv_discovery_port *port, const uint8_t **datagram, size_t *length)
{
    struct ud_port *ud = (struct ud_port *)port;
    int rc;

    if (ud->holds && post_recv(ud, (unsigned)ud->latest.wr_id))
        return OKV_EIO;
    ud->holds = false;
    rc = next_completion(ud);
    if (rc == 0) {
        rc = arm(ud);
        if (rc == 0)
            rc = next_completion(ud);
    }
    if (rc != 1)
        return rc;
    *length = ud->latest.byte_len < GRH ? 0 : ud->latest.byte_len - GRH;
    *datagram = slot_of(ud, (unsigned)ud->latest.wr_id) + GRH;
    return 1;
}

/* Closes a port, also one that is not complete. */
static void ud_close(struct okv_discovery_port *port)
{
    struct ud_port *ud = (struct ud_port *)port;

    /* The kernel keeps a queue pair that is in a group, and all that it uses. */
    if (ud->joined.sin_family)
        rdma_leave_multicast(ud->id, (struct sockaddr *)&ud->joined);
    if (ud->id && ud->id->qp)
        rdma_destroy_qp(ud->id);
    for (unsigned i = 0; i < SENDS; i++)
        send_completed(ud, i);
    if (ud->group)
        ibv_destroy_ah(ud->group);
    if (ud->mr)
        ibv_dereg_mr(ud->mr);
    if (ud->cq)
        ibv_destroy_cq(ud->cq);
    if (ud->completions)
        ibv_destroy_comp_channel(ud->completions);
    if (ud->pd)
        ibv_dealloc_pd(ud->pd);
    if (ud->id)
        rdma_destroy_id(ud->id);
    if (ud->channel)
        rdma_destroy_event_channel(ud->channel);
    if (ud->base.fd >= 0)
        close(ud->base.fd);
    free(ud->slots);
    free(ud);
}

static int watch(struct ud_port *ud, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
        return -1;
    return epoll_ctl(ud->base.fd, EPOLL_CTL_ADD, fd, &event);
}

/* Binds an id to the device that has the address. -1 with errno. */
static int bind_device(struct ud_port *ud, struct in_addr address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = address};
    struct ibv_port_attr attr;

    ud->base.fd = epoll_create1(EPOLL_CLOEXEC);
    ud->channel = rdma_create_event_channel();
    if (!ud->channel)
        errno = ENODEV;
    if (ud->base.fd < 0 || !ud->channel || watch(ud, ud->channel->fd))
        return -1;
    if (rdma_create_id(ud->channel, &ud->id, NULL, RDMA_PS_UDP)) {
        ud->id = NULL;
        return -1;
    }
    if (rdma_bind_addr(ud->id, (struct sockaddr *)&to))
        return -1;
    if (!ud->id->verbs) {
        errno = ENODEV;
        return -1;
    }
    errno = ibv_query_port(ud->id->verbs, ud->id->port_num, &attr);
    ud->is_infiniband = attr.link_layer == IBV_LINK_LAYER_INFINIBAND;
    return errno ? -1 : 0;
}

/* Makes the queue pair and posts its receives. -1 with errno. */
static int make_queues(struct ud_port *ud)
{
    const size_t bytes = (size_t)(RECVS + SENDS) * SLOT;
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = SENDS, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1},
    };

    ud->slots = aligned_alloc(4096, bytes);
    ud->pd = ibv_alloc_pd(ud->id->verbs);
    ud->completions = ibv_create_comp_channel(ud->id->verbs);
    if (!ud->slots || !ud->pd || !ud->completions || watch(ud, ud->completions->fd))
        return -1;
    memset(ud->slots, 0, bytes);
    ud->mr = ibv_reg_mr(ud->pd, ud->slots, bytes, IBV_ACCESS_LOCAL_WRITE);
    ud->cq = ibv_create_cq(ud->id->verbs, RECVS + SENDS, NULL, ud->completions, 0);
    if (!ud->mr || !ud->cq)
        return -1;
    attr.send_cq = attr.recv_cq = ud->cq;
    if (rdma_create_qp(ud->id, ud->pd, &attr))
        return -1;
    for (unsigned i = 0; i < RECVS; i++)
        if (post_recv(ud, i))
            return -1;
    errno = ibv_req_notify_cq(ud->cq, 0);
    return errno ? -1 : 0;
}

/* Waits for the event that ends a join. -1 with errno. */
static int await_membership(struct ud_port *ud)
{
    struct pollfd fd = {.fd = ud->channel->fd, .events = POLLIN};
    uint64_t deadline = okv_clock_ns() + JOIN_MS * UINT64_C(1000000);
    struct rdma_cm_event *event;

    while (rdma_get_cm_event(ud->channel, &event)) {
        if (errno != EAGAIN && errno != EINTR)
            return -1;
        int left = okv_clock_ms_until(deadline);
        if (left == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
        poll(&fd, 1, left);
    }
    bool joined = event->event == RDMA_CM_EVENT_MULTICAST_JOIN && event->status == 0;
    if (joined)
        ud->attr = event->param.ud.ah_attr;
    rdma_ack_cm_event(event);
    errno = joined ? 0 : EIO;
    return joined ? 0 : -1;
}

static int join(struct ud_port *ud, const struct okv_discovery_place *place)
{
    struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr = place->group};
    struct rdma_cm_join_mc_attr_ex attr = {
        .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
        .join_flags =
            place->listens ? RDMA_MC_JOIN_FLAG_FULLMEMBER : RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
        .addr = (struct sockaddr *)&group,
    };

    if (rdma_join_multicast_ex(ud->id, &attr, NULL))
        return -1;
    ud->joined = group;
    if (await_membership(ud))
        return -1;
    ud->attr.grh.hop_limit = 1; /* queries stay on the link; answers have their route's */
    ud->group = ibv_create_ah(ud->pd, &ud->attr);
    return ud->group ? 0 : -1;
}

int okv_discovery_ud_open(const struct okv_discovery_place *place, struct okv_discovery_port **out,
                          struct okv_diag *diag)
{
    static const struct okv_discovery_port_ops ops = {
        .ask = ud_ask, .receive = ud_receive, .answer = ud_answer, .close = ud_close};
    char address[INET_ADDRSTRLEN], group[INET_ADDRSTRLEN];
    struct ud_port *ud = calloc(1, sizeof *ud);

    if (!ud)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for discovery");
    ud->base.ops = &ops;
    if (bind_device(ud, place->interface) == 0 && make_queues(ud) == 0 && join(ud, place) == 0) {
        *out = &ud->base;
        return 0;
    }
    int errnum = errno;
    ud_close(&ud->base);
    inet_ntop(AF_INET, &place->interface, address, sizeof address);
    inet_ntop(AF_INET, &place->group, group, sizeof group);
    return okv_diag_set(diag, okv_error_from_errno(errnum),
                        "the RDMA device of %s cannot join the multicast group %s: %s", address,
                        group, strerror(errnum));
}
