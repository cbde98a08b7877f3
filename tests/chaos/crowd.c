#include "tests/chaos/crowd.h"

#include <infiniband/verbs.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "shared/base/clock.h"
#include "shared/base/uri.h"
#include "shared/format/wire.h"
#include "tests/chaos/battery.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"

#define RESOLVE_MS PACE_GUARD_MS
/* So many that have not been answered at a time; a storm waits for none. */
#define WINDOW 64
/* No queue pair of the client's: what is sent there is never acknowledged. */
#define NOBODYS_QPN 0xe00000u

enum kind { HALF_OPEN, SILENT, STORM };

struct crowd {
    enum kind kind;
    struct addrinfo *to, *from;
    struct rdma_event_channel *channel;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    uint64_t random;
    unsigned count;
    struct crowd_result result;
};

static unsigned ended(const struct crowd *crowd)
{
    return crowd->result.answered + crowd->result.refused + crowd->result.failed;
}

static bool ask(struct crowd *crowd)
{
    struct rdma_cm_id *id;

    crowd->result.asked++;
    return rdma_create_id(crowd->channel, &id, NULL, RDMA_PS_TCP) == 0 &&
           rdma_resolve_addr(id, crowd->from ? crowd->from->ai_addr : NULL, crowd->to->ai_addr,
                             RESOLVE_MS) == 0;
}

static bool queue_pair_create(struct crowd *crowd, struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };

    if (!crowd->pd) {
        crowd->pd = ibv_alloc_pd(id->verbs);
        crowd->cq = ibv_create_cq(id->verbs, 1, NULL, NULL, 0);
    }
    attr.send_cq = attr.recv_cq = crowd->cq;
    return crowd->pd && crowd->cq && rdma_create_qp(id, crowd->pd, &attr) == 0;
}

static bool connect_id(struct crowd *crowd, struct rdma_cm_id *id)
{
    struct okv_hello hello = {.slot_size = OKV_SLOT_SIZE_DEFAULT,
                              .credits = 4,
                              .database = okv_database_id(OKV_DATABASE_DEFAULT)};
    struct okv_wire_hello bytes;
    struct rdma_conn_param param = {
        .private_data = &bytes,
        .private_data_len = sizeof bytes,
        .responder_resources = 1,
        .initiator_depth = 1,
        .retry_count = 6,
        .rnr_retry_count = 7,
        .qp_num = NOBODYS_QPN + crowd->result.asked,
    };

    for (size_t i = 0; i < sizeof hello.client_id; i++)
        hello.client_id[i] = (uint8_t)random_next(&crowd->random);
    okv_hello_encode(&hello, &bytes);
    if (crowd->kind != HALF_OPEN && !queue_pair_create(crowd, id))
        return false;
    return rdma_connect(id, &param) == 0;
}

static void leave(struct rdma_cm_id *id)
{
    rdma_disconnect(id);
    if (id->qp)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
}

/* The first answer counts: a connection that was let in may be ended before it is confirmed. */
static void count_once(struct rdma_cm_id *id, unsigned *count)
{
    *count += id->context == NULL;
    id->context = id;
}

static void on_event(struct crowd *crowd, struct rdma_cm_id *id, enum rdma_cm_event_type type)
{
    switch (type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        crowd->result.failed += rdma_resolve_route(id, RESOLVE_MS) != 0;
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        crowd->result.failed += !connect_id(crowd, id);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE: /* would be confirmed by rdma_accept */
        count_once(id, &crowd->result.answered);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        count_once(id, &crowd->result.answered);
        if (crowd->kind == STORM)
            leave(id);
        break;
    case RDMA_CM_EVENT_REJECTED:
        count_once(id, &crowd->result.refused);
        if (id->qp)
            rdma_destroy_qp(id);
        rdma_destroy_id(id);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        count_once(id, &crowd->result.failed);
        break;
    default:
        break;
    }
}

/* Takes events until there is none for so long. */
static void take_events(struct crowd *crowd, int wait_ms)
{
    struct pollfd pollfd = {.fd = crowd->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;

    while (poll(&pollfd, 1, wait_ms) > 0 && rdma_get_cm_event(crowd->channel, &event) == 0) {
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type type = event->event;
        rdma_ack_cm_event(event);
        on_event(crowd, id, type);
        wait_ms = 0;
    }
}

static void ask_all(struct crowd *crowd)
{
    uint64_t begin = okv_clock_ns(), last = begin;
    unsigned window = crowd->kind == STORM ? crowd->count : WINDOW;

    while (ended(crowd) < crowd->count && okv_clock_ns() < last + PACE_GUARD_NS) {
        unsigned before = ended(crowd);
        bool more =
            crowd->result.asked < crowd->count && crowd->result.asked - ended(crowd) < window;
        if (more && !ask(crowd))
            crowd->result.failed++;
        take_events(crowd, more ? 0 : 50);
        if (ended(crowd) != before)
            last = okv_clock_ns();
    }
    crowd->result.failed += crowd->count - ended(crowd);
    crowd->result.seconds = (double)(okv_clock_ns() - begin) / 1e9;
}

static struct addrinfo *look_up(const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    return getaddrinfo(host, port, &hints, &found) == 0 ? found : NULL;
}

static bool crowd_init(struct crowd *crowd, char **argv)
{
    struct okv_uri uri;
    struct okv_diag diag;

    *crowd = (struct crowd){
        .kind = strcmp(argv[1], "half-open") == 0 ? HALF_OPEN
                : strcmp(argv[1], "storm") == 0   ? STORM
                                                  : SILENT,
        .channel = rdma_create_event_channel(),
        .random = okv_clock_ns(),
        .count = (unsigned)strtoul(argv[3], NULL, 10),
    };
    if (okv_uri_parse(argv[2], &uri, &diag))
        return false;
    crowd->to = look_up(uri.host, uri.port);
    crowd->from = uri.source[0] ? look_up(uri.source, NULL) : NULL;
    return crowd->channel && crowd->to;
}

int main(int argc, char **argv)
{
    struct crowd crowd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 5 || !crowd_init(&crowd, argv))
        return 2;
    ask_all(&crowd);
    printf("asked %u answered %u refused %u failed %u in %.2f s\n", crowd.result.asked,
           crowd.result.answered, crowd.result.refused, crowd.result.failed, crowd.result.seconds);
    fflush(stdout);
    uint64_t end = okv_clock_ns() + (uint64_t)(strtod(argv[4], NULL) * 1e9);
    while (okv_clock_ns() < end)
        take_events(&crowd, 100);
    freeaddrinfo(crowd.to);
    if (crowd.from)
        freeaddrinfo(crowd.from);
    return 0;
}
