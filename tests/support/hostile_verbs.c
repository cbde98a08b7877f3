#include "tests/support/hostile_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <time.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/uri.h"
#include "tests/support/hostile_client.h"
#include "tests/support/pace.h"

/* A test that waits longer hangs: it is no measure of anything. */
/* Most devices take this to mean that a receiver that is not ready is waited for without end. */
#define RNR_FOR_EVER 7

static struct rdma_cm_event *next_event(struct attacker *attacker, const char *what)
{
    struct pollfd pollfd = {.fd = attacker->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    if (poll(&pollfd, 1, PACE_GUARD_MS) <= 0)
        fail_msg("%s: no event of the connection manager came", what);
    assert_int_equal(rdma_get_cm_event(attacker->channel, &event), 0);
    return event;
}

static void expect_event(struct attacker *attacker, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event = next_event(attacker, rdma_event_str(type));

    if (event->event != type)
        fail_msg("%s (%d) instead of %s", rdma_event_str(event->event), event->status,
                 rdma_event_str(type));
    if (type == RDMA_CM_EVENT_ESTABLISHED)
        assert_int_equal(okv_welcome_decode(event->param.conn.private_data,
                                            event->param.conn.private_data_len, &attacker->table),
                         0);
    rdma_ack_cm_event(event);
}

static struct addrinfo *look_up(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    assert_int_equal(getaddrinfo(host, port, &hints, &found), 0);
    return found;
}

static void find_server(struct attacker *attacker, const char *text)
{
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse(text, &uri, NULL), 0);
    struct addrinfo *to = look_up(uri.host, uri.port);
    struct addrinfo *from = uri.source[0] ? look_up(uri.source, NULL) : NULL;
    assert_int_equal(
        rdma_resolve_addr(attacker->id, from ? from->ai_addr : NULL, to->ai_addr, PACE_GUARD_MS),
        0);
    expect_event(attacker, RDMA_CM_EVENT_ADDR_RESOLVED);
    freeaddrinfo(to);
    if (from)
        freeaddrinfo(from);
    assert_int_equal(rdma_resolve_route(attacker->id, PACE_GUARD_MS), 0);
    expect_event(attacker, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void create_queue_pair(struct attacker *attacker)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap = {.max_send_wr = ATTACKER_SENDS,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1},
    };

    attacker->pd = ibv_alloc_pd(attacker->id->verbs);
    assert_non_null(attacker->pd);
    attacker->cq = ibv_create_cq(attacker->id->verbs, ATTACKER_SENDS + 1, NULL, NULL, 0);
    assert_non_null(attacker->cq);
    attr.send_cq = attr.recv_cq = attacker->cq;
    assert_int_equal(rdma_create_qp(attacker->id, attacker->pd, &attr), 0);
    attacker->bytes = calloc(1, ATTACKER_BYTES);
    assert_non_null(attacker->bytes);
    attacker->mr =
        ibv_reg_mr(attacker->pd, attacker->bytes, ATTACKER_BYTES, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(attacker->mr);
}

static void find(struct attacker *attacker, const struct server_process *server)
{
    *attacker = (struct attacker){.channel = rdma_create_event_channel()};
    assert_non_null(attacker->channel);
    assert_int_equal(rdma_create_id(attacker->channel, &attacker->id, NULL, RDMA_PS_TCP), 0);
    find_server(attacker, server->uri);
}

/* Says a good hello; `reads` is what the server may have outstanding. */
static void ask(struct attacker *attacker, const struct server_process *server, uint8_t reads)
{
    struct okv_wire_hello hello;
    struct rdma_conn_param param = {
        .private_data = &hello,
        .private_data_len = sizeof hello,
        .responder_resources = reads,
        .initiator_depth = 4,
        .retry_count = 6,
        .rnr_retry_count = RNR_FOR_EVER,
    };

    find(attacker, server);
    create_queue_pair(attacker);
    hostile_hello(&hello);
    assert_int_equal(rdma_connect(attacker->id, &param), 0);
}

void attacker_join(struct attacker *attacker, const struct server_process *server)
{
    ask(attacker, server, 1);
    expect_event(attacker, RDMA_CM_EVENT_ESTABLISHED);
}

bool attacker_may_join(struct attacker *attacker, const struct server_process *server)
{
    ask(attacker, server, 1);
    struct rdma_cm_event *event = next_event(attacker, "an answer");
    bool joined = event->event == RDMA_CM_EVENT_ESTABLISHED;
    rdma_ack_cm_event(event);
    return joined;
}

bool attacker_join_half(struct attacker *attacker, const struct server_process *server,
                        uint32_t qp_num)
{
    struct okv_wire_hello hello;
    struct rdma_conn_param param = {
        .private_data = &hello,
        .private_data_len = sizeof hello,
        .responder_resources = 1,
        .initiator_depth = 1,
        .qp_num = qp_num,
    };

    find(attacker, server);
    hostile_hello(&hello);
    assert_int_equal(rdma_connect(attacker->id, &param), 0);
    struct rdma_cm_event *event = next_event(attacker, "an answer");
    bool is_accepted = event->event == RDMA_CM_EVENT_CONNECT_RESPONSE;
    rdma_ack_cm_event(event);
    return is_accepted;
}

bool attacker_waits(struct attacker *attacker, int ms)
{
    struct pollfd pollfd = {.fd = attacker->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    if (poll(&pollfd, 1, ms) <= 0 || rdma_get_cm_event(attacker->channel, &event))
        return false;
    rdma_ack_cm_event(event);
    return true;
}

void attacker_join_unpulled(struct attacker *attacker, const struct server_process *server)
{
    ask(attacker, server, 0);
    expect_event(attacker, RDMA_CM_EVENT_REJECTED);
}

void attacker_break(struct attacker *attacker)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    assert_int_equal(ibv_modify_qp(attacker->id->qp, &attr, IBV_QP_STATE), 0);
}

void attacker_leave(struct attacker *attacker)
{
    rdma_disconnect(attacker->id);
    if (attacker->id->qp) {
        rdma_destroy_qp(attacker->id);
        ibv_dereg_mr(attacker->mr);
        ibv_destroy_cq(attacker->cq);
        ibv_dealloc_pd(attacker->pd);
    }
    rdma_destroy_id(attacker->id);
    rdma_destroy_event_channel(attacker->channel);
    free(attacker->bytes);
}

void attacker_post(struct attacker *attacker, const struct attack *attack)
{
    uint64_t address = attacker->table.region_address + attack->offset;
    struct ibv_sge sge = {
        .addr = (uintptr_t)attacker->bytes,
        .length = attack->length,
        .lkey = attacker->mr->lkey,
    };
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = attack->length > 0,
        .opcode = attack->opcode,
        .imm_data = htonl(attack->immediate),
    };
    struct ibv_send_wr *bad;

    if (attack->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
        attack->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = address;
        wr.wr.atomic.rkey = attack->rkey;
        wr.wr.atomic.compare_add = 1;
        wr.wr.atomic.swap = UINT64_MAX;
    } else {
        wr.wr.rdma.remote_addr = address;
        wr.wr.rdma.rkey = attack->rkey;
    }
    assert_int_equal(ibv_post_send(attacker->id->qp, &wr, &bad), 0);
}

enum ibv_wc_status attacker_try(struct attacker *attacker, const struct attack *attack)
{
    uint64_t deadline = pace_guard_end();
    struct ibv_wc wc;
    int got;

    attacker_post(attacker, attack);
    while ((got = ibv_poll_cq(attacker->cq, 1, &wc)) == 0) {
        if (okv_clock_ns() > deadline)
            fail_msg("no completion came");
        nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    assert_int_equal(got, 1);
    return wc.status;
}

unsigned attacker_drain(struct attacker *attacker, unsigned *good)
{
    struct ibv_wc wc;
    unsigned count = 0;

    for (*good = 0; ibv_poll_cq(attacker->cq, 1, &wc) == 1; count++)
        *good += wc.status == IBV_WC_SUCCESS;
    return count;
}

void attacker_expect_end(struct attacker *attacker, const char *what)
{
    struct rdma_cm_event *event = next_event(attacker, what);

    /* Rejected: the server ended it before it had heard that the answer arrived. */
    if (event->event != RDMA_CM_EVENT_DISCONNECTED && event->event != RDMA_CM_EVENT_REJECTED)
        fail_msg("%s: %s instead of an end", what, rdma_event_str(event->event));
    rdma_ack_cm_event(event);
}
