#include "tests/support/verbs_meeting.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/pace.h"

static const struct okv_message_limits limits = {MEETING_SLOT_SIZE, MEETING_CREDITS};
static const uint8_t greeting[20] = "good day";

static uint8_t *make_region(int *fd)
{
    *fd = memfd_create("okv-test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(*fd, MEETING_REGION), 0);
    void *region = mmap(NULL, MEETING_REGION, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    assert_ptr_not_equal(region, MAP_FAILED);
    return region;
}

void meeting_start(struct meeting *meeting)
{
    struct okv_diag diag = {""};

    memset(meeting, 0, sizeof *meeting);
    meeting->ops = &okv_transport_verbs;
    assert_int_equal(okv_uri_parse(getenv("OKV_TEST_LISTEN"), &meeting->listen_uri, &diag), 0);
    assert_int_equal(okv_uri_parse(getenv("OKV_TEST_URI"), &meeting->connect_uri, &diag), 0);
    meeting->region = make_region(&meeting->region_fd);
    meeting->other = make_region(&meeting->other_fd);
    const struct okv_region regions[] = {
        {meeting->region, MEETING_REGION, meeting->region_fd},
        {meeting->other, MEETING_REGION, meeting->other_fd},
    };
    if (meeting->ops->listen(&meeting->listen_uri, regions, 2, &meeting->listener, &diag) ||
        meeting->ops->endpoint_create(meeting->listener, &limits, MEETING_MAX_CONNS,
                                      &meeting->endpoint, &diag))
        fail_msg("%s", diag.text);
}

void meeting_stop(struct meeting *meeting)
{
    assert_null(meeting->server.conn);
    assert_null(meeting->client.conn);
    meeting->ops->endpoint_destroy(meeting->endpoint);
    meeting->ops->unlisten(meeting->listener);
    munmap(meeting->region, MEETING_REGION);
    munmap(meeting->other, MEETING_REGION);
    close(meeting->region_fd);
    close(meeting->other_fd);
}

uint64_t meeting_deadline(uint64_t ms)
{
    return okv_clock_ns() + ms * 1000000u;
}

void meeting_nap(uint64_t deadline_ns, const char *what)
{
    if (okv_clock_ns() > deadline_ns)
        fail_msg("this did not come: %s", what);
    nanosleep(&(struct timespec){0, 500000}, NULL);
}

static void answer(struct meeting *meeting, struct okv_request *request)
{
    const struct okv_accept accept = {.endpoint = meeting->endpoint,
                                      .user = meeting,
                                      .welcome = greeting,
                                      .length = sizeof greeting};

    meeting->accept_result = meeting->ops->accept(request, &accept);
    if (meeting->accept_result)
        meeting->ops->reject(request, greeting, sizeof greeting);
}

static void answer_requests(struct meeting *meeting)
{
    struct okv_request *request;
    int rc;

    while ((rc = meeting->ops->next_request(meeting->listener, &request)) > 0) {
        meeting->requests++;
        memcpy(meeting->address, request->address, sizeof meeting->address);
        if (meeting->quiet)
            meeting->ops->reject(request, NULL, 0);
        else
            answer(meeting, request);
    }
    assert_true(rc == 0 || rc == OKV_ENODEVICE);
}

/* True when the connection has closed. */
static bool poll_side(struct meeting_side *side, struct okv_endpoint *endpoint)
{
    struct okv_event events[8];
    bool closed = false;
    int count = endpoint->ops->poll(endpoint, events, 8);

    assert_true(count >= 0);
    for (int i = 0; i < count; i++) {
        const struct okv_event *event = &events[i];
        switch (event->type) {
        case OKV_EVENT_OPENED:
            assert_null(side->conn);
            side->conn = event->conn;
            side->opened++;
            break;
        case OKV_EVENT_READ:
            side->reads++;
            side->read_status = event->status;
            break;
        case OKV_EVENT_RENDEZVOUS_DONE:
            side->rendezvous_reads++;
            side->rendezvous_status = event->status;
            break;
        case OKV_EVENT_RECV:
            side->messages++;
            endpoint->ops->recv_release(endpoint, event);
            break;
        case OKV_EVENT_CLOSED:
            assert_ptr_equal(event->conn, side->conn);
            assert_int_equal(event->conn->unacknowledged, 0);
            side->closed++;
            side->close_status = event->status;
            closed = true;
            break;
        }
    }
    return closed;
}

void meeting_progress(struct meeting *meeting)
{
    if (!meeting->deaf)
        answer_requests(meeting);
    if (poll_side(&meeting->server, meeting->endpoint)) {
        meeting->ops->conn_destroy(meeting->server.conn);
        meeting->server.conn = NULL;
    }
    if (meeting->client.conn)
        poll_side(&meeting->client, meeting->client.conn->endpoint);
}

struct okv_connecting *meeting_begin(struct meeting *meeting, const struct okv_uri *uri,
                                     uint64_t deadline_ns)
{
    uint8_t hello[OKV_HELLO_MAX] = "hello";
    struct okv_uri copy = *uri;
    struct okv_connect_params params = {
        .hello = hello,
        .hello_length = sizeof hello,
        .limits = limits,
        .deadline_ns = deadline_ns,
    };
    struct okv_connecting *connecting;
    struct okv_diag diag = {""};

    if (meeting->ops->connect_start(&copy, &params, &connecting, &diag))
        fail_msg("%s", diag.text);
    memset(hello, 0xFF, sizeof hello); /* they were copied */
    memset(&copy, 0xFF, sizeof copy);
    return connecting;
}

void meeting_connect(struct meeting *meeting)
{
    uint64_t guard = pace_guard_end();
    struct okv_connecting *connecting = meeting_begin(meeting, &meeting->connect_uri, guard);
    struct okv_answer welcome;
    struct okv_diag diag = {""};
    struct okv_conn *conn;
    int rc;

    memset(&meeting->client, 0, sizeof meeting->client);
    memset(&meeting->server, 0, sizeof meeting->server);
    while ((rc = meeting->ops->connect_step(connecting, &welcome, &conn, &diag)) == OKV_EAGAIN) {
        meeting_progress(meeting);
        meeting_nap(guard, "connected");
    }
    if (rc)
        fail_msg("%s", diag.text);
    assert_memory_equal(welcome.bytes, greeting, sizeof greeting);
    meeting->client.conn = conn;
    assert_int_equal(meeting->ops->heartbeat(conn), 0);
    assert_int_equal(conn->unacknowledged, 0); /* there is nothing to READ yet */
    assert_int_equal(meeting->ops->set_remote(conn, 0, MEETING_REGION, meeting->listener->rkeys[0]),
                     0);
    MEETING_UNTIL(meeting, meeting_is_ready(meeting));
}

bool meeting_is_ready(const struct meeting *meeting)
{
    const struct verbs_conn *conn = (struct verbs_conn *)meeting->server.conn;

    return conn && atomic_load(&conn->ready);
}

void meeting_disconnect(struct meeting *meeting)
{
    if (meeting->client.conn)
        meeting->ops->conn_destroy(meeting->client.conn);
    meeting->client.conn = NULL;
    MEETING_UNTIL(meeting, !meeting->server.conn);
}

void meeting_send(struct okv_conn *conn, uint32_t length)
{
    uint8_t *buffer = conn->ops->send_buffer(conn);

    assert_non_null(buffer);
    memset(buffer, 0x5A, length);
    assert_int_equal(conn->ops->post_send(conn, length, 7), 0);
}

void meeting_settle(struct meeting *meeting)
{
    MEETING_UNTIL(meeting, meeting->server.conn->unacknowledged == 0 &&
                               meeting->client.conn->unacknowledged == 0);
}

/* The next event, which the caller acknowledges. */
static struct rdma_cm_event *knock_event(struct meeting *meeting, struct knock *knock)
{
    uint64_t guard = pace_guard_end();
    struct rdma_cm_event *event;

    while (rdma_get_cm_event(knock->channel, &event)) {
        assert_int_equal(errno, EAGAIN);
        meeting_progress(meeting);
        meeting_nap(guard, "event of the connection manager");
    }
    return event;
}

static enum rdma_cm_event_type knock_wait(struct meeting *meeting, struct knock *knock)
{
    struct rdma_cm_event *event = knock_event(meeting, knock);
    enum rdma_cm_event_type type = event->event;

    rdma_ack_cm_event(event);
    return type;
}

enum rdma_cm_event_type knock_on(struct meeting *meeting, struct knock *knock, uint8_t reads)
{
    const struct okv_uri *uri = &meeting->connect_uri;
    struct rdma_conn_param param = {
        .responder_resources = reads,
        .initiator_depth = 4,
        .retry_count = 6,
        .rnr_retry_count = 6,
        .qp_num = 0xABCDEF,
    };
    struct addrinfo *to, *from = NULL;

    memset(&meeting->server, 0, sizeof meeting->server);
    assert_int_equal(okv_verbs_channel(&knock->channel, NULL), 0);
    assert_int_equal(rdma_create_id(knock->channel, &knock->id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(okv_resolve(uri->host, uri->port, 0, &to, NULL), 0);
    if (uri->source[0])
        assert_int_equal(okv_resolve(uri->source, NULL, 0, &from, NULL), 0);
    assert_int_equal(
        rdma_resolve_addr(knock->id, from ? from->ai_addr : NULL, to->ai_addr, PACE_GUARD_MS), 0);
    assert_int_equal(knock_wait(meeting, knock), RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(rdma_resolve_route(knock->id, PACE_GUARD_MS), 0);
    assert_int_equal(knock_wait(meeting, knock), RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(rdma_connect(knock->id, &param), 0);
    freeaddrinfo(to);
    if (from)
        freeaddrinfo(from);
    return knock_wait(meeting, knock);
}

void knock_end(struct knock *knock)
{
    rdma_destroy_id(knock->id);
    rdma_destroy_event_channel(knock->channel);
}

void meeting_expect_answered_heartbeat(struct meeting *meeting, struct okv_conn *conn)
{
    uint64_t before = conn->acknowledged;

    assert_int_equal(conn->ops->heartbeat(conn), 0);
    assert_int_equal(conn->unacknowledged, 1);
    assert_int_equal(conn->ops->heartbeat(conn), 0); /* one is enough */
    assert_int_equal(conn->unacknowledged, 1);
    MEETING_UNTIL(meeting, conn->unacknowledged == 0);
    assert_int_equal(conn->acknowledged, before + 1);
}

void meeting_cut_network(bool cut)
{
    char command[160];

    snprintf(command, sizeof command,
             "for d in v0 v1; do tc qdisc %s dev $d root netem loss 100%% || exit 1; done",
             cut ? "add" : "del");
    assert_int_equal(system(command), 0);
}

static const char *device_of(const struct okv_conn *conn)
{
    return ibv_get_device_name(((const struct verbs_conn *)conn)->qp->context->device);
}

/* tests/guest/run names them: rxe0 is on v0, rxe1 on v1. */
static char network_of(const struct okv_conn *conn)
{
    return device_of(conn)[3];
}

void meeting_delay(const struct okv_conn *conn, unsigned ms)
{
    char command[160];

    snprintf(command, sizeof command, "tc qdisc add dev v%c root netem delay %ums",
             network_of(conn), ms);
    assert_int_equal(system(command), 0);
}

void meeting_no_delay(const struct okv_conn *conn)
{
    char command[160];

    snprintf(command, sizeof command, "tc qdisc del dev v%c root", network_of(conn));
    assert_int_equal(system(command), 0);
}

unsigned long meeting_repeats(const struct okv_conn *conn)
{
    unsigned long repeats;
    char path[160];

    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/1/hw_counters/duplicate_request",
             device_of(conn));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &repeats), 1);
    fclose(file);
    return repeats;
}
