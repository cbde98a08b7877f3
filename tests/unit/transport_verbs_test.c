/*
 * The transport over RDMA beyond the list that every transport passes: heartbeats to peers that are
 * dead, gone or slow; connecting step by step; one doorbell; exact counters. With the argument
 * "disposable" it also cuts the network and removes a device of this machine.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/connect_blocking.h"
#include "tests/support/pace.h"
#include "tests/support/transport_steps.h"
#include "tests/support/verbs_meeting.h"
#include "tests/unit/transport_verbs_list.h"

/* Longer than a device tries to reach another, and less than a server waits for a client. */
#define SLOW_MS 1000

static int setup(void **state)
{
    struct meeting *meeting = calloc(1, sizeof *meeting);

    meeting_start(meeting);
    *state = meeting;
    return 0;
}

static int teardown(void **state)
{
    meeting_stop(*state);
    free(*state);
    return 0;
}

/* ---- heartbeats ---- */

/* Heartbeats until the connection has closed; it must say why. */
static void expect_dead(struct meeting *meeting, struct meeting_side *side, int status)
{
    assert_int_equal(side->closed, 0);
    MEETING_UNTIL(meeting, side->closed || meeting->ops->heartbeat(side->conn));
    MEETING_UNTIL(meeting, side->closed);
    assert_int_equal(side->close_status, status);
}

static void set_state(struct okv_conn *conn, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    assert_int_equal(ibv_modify_qp(((struct verbs_conn *)conn)->qp, &attr, IBV_QP_STATE), 0);
}

TEST(either_side_heartbeats)
{
    struct meeting *meeting = *state;

    meeting_connect(meeting);
    for (int i = 0; i < 100; i++) {
        meeting_expect_answered_heartbeat(meeting, meeting->client.conn);
        meeting_expect_answered_heartbeat(meeting, meeting->server.conn);
    }
    meeting_disconnect(meeting);
}

TEST(a_zombie_answers_no_heartbeat_of_the_server)
{
    struct meeting *meeting = *state;

    meeting_connect(meeting);
    set_state(meeting->client.conn, IBV_QPS_RESET); /* nobody on its side is told */
    expect_dead(meeting, &meeting->server, OKV_ETIMEDOUT);
    meeting_disconnect(meeting);
}

TEST(a_zombie_answers_no_heartbeat_of_the_client)
{
    struct meeting *meeting = *state;

    meeting_connect(meeting);
    set_state(meeting->server.conn, IBV_QPS_RESET); /* nobody on its side is told */
    expect_dead(meeting, &meeting->client, OKV_ETIMEDOUT);
    assert_int_equal(meeting->ops->heartbeat(meeting->client.conn), OKV_EDISCONNECTED);
    meeting_disconnect(meeting);
}

TEST(a_broken_queue_pair_fails_its_own_heartbeat)
{
    struct meeting *meeting = *state;

    meeting_connect(meeting);
    set_state(meeting->server.conn, IBV_QPS_ERR);
    expect_dead(meeting, &meeting->server, OKV_EDISCONNECTED);
    meeting_disconnect(meeting);
}

/* The server's device refuses the READ and does not tell its process. */
TEST(a_refused_read_is_found_by_a_heartbeat)
{
    struct meeting *meeting = *state;
    struct okv_memory *memory;
    static uint8_t bytes[64];
    const struct okv_read *read;

    meeting_connect(meeting);
    struct okv_conn *conn = meeting->client.conn;
    meeting->ops->set_remote(conn, 0, 2 * MEETING_REGION, meeting->listener->rkeys[0]);
    assert_int_equal(meeting->ops->memory_register(conn->endpoint, bytes, sizeof bytes, &memory),
                     0);
    read = &(struct okv_read){MEETING_REGION, bytes, memory, sizeof bytes, 1};
    assert_int_equal(meeting->ops->post_read(conn, read, 1), 0);
    meeting->deaf = true; /* a client that does not disconnect */
    MEETING_UNTIL(meeting, meeting->client.reads == 1);
    assert_int_equal(meeting->client.read_status, OKV_EDISCONNECTED);
    expect_dead(meeting, &meeting->server, OKV_EDISCONNECTED);
    meeting->deaf = false;
    meeting->ops->memory_unregister(memory);
    meeting_disconnect(meeting);
}

TEST(a_client_that_never_confirms_is_ended)
{
    struct meeting *meeting = *state;
    struct knock knock;

    assert_int_equal(knock_on(meeting, &knock, 4), RDMA_CM_EVENT_CONNECT_RESPONSE);
    MEETING_UNTIL(meeting, meeting->server.conn);
    expect_dead(meeting, &meeting->server, OKV_ETIMEDOUT);
    knock_end(&knock);
}

TEST(a_client_that_changes_its_mind_is_ended)
{
    struct meeting *meeting = *state;
    struct knock knock;

    assert_int_equal(knock_on(meeting, &knock, 4), RDMA_CM_EVENT_CONNECT_RESPONSE);
    MEETING_UNTIL(meeting, meeting->server.conn);
    knock_end(&knock);
    MEETING_UNTIL(meeting, meeting->server.closed);
    assert_int_equal(meeting->server.close_status, OKV_EDISCONNECTED);
}

TEST(a_client_that_allows_no_rendezvous_is_refused)
{
    struct meeting *meeting = *state;
    struct knock knock;

    assert_int_equal(knock_on(meeting, &knock, 0), RDMA_CM_EVENT_REJECTED);
    assert_int_equal(meeting->accept_result, OKV_EUNSUPPORTED);
    knock_end(&knock);
    assert_int_equal(meeting->server.opened, 0);
}

/* ---- a client of its own process ---- */

static int run_client(void)
{
    struct okv_connect_params params = {
        .limits = {MEETING_SLOT_SIZE, MEETING_CREDITS},
        .deadline_ns = pace_guard_end(),
    };
    struct okv_uri uri;
    struct okv_answer welcome;
    struct okv_conn *conn;

    if (okv_uri_parse(getenv("OKV_TEST_URI"), &uri, NULL) ||
        connect_blocking(&okv_transport_verbs, &uri, &params, &welcome, &conn, NULL) ||
        write(STDOUT_FILENO, "+", 1) != 1)
        return 1;
    for (;;)
        pause();
}

/* Returns the id of a process that is connected. */
static pid_t start_client(struct meeting *meeting)
{
    uint64_t guard = pace_guard_end();
    int ends[2];
    char said;

    memset(&meeting->server, 0, sizeof meeting->server);
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", "transport_verbs_test", "client", (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    struct pollfd pipe_end = {.fd = ends[0], .events = POLLIN};
    while (poll(&pipe_end, 1, 0) == 0) {
        meeting_progress(meeting);
        meeting_nap(guard, "a client's process");
    }
    assert_int_equal(read(ends[0], &said, 1), 1);
    close(ends[0]);
    MEETING_UNTIL(meeting, meeting_is_ready(meeting));
    return pid;
}

TEST(a_stopped_process_answers_and_a_killed_one_does_not)
{
    struct meeting *meeting = *state;
    pid_t pid = start_client(meeting);
    int status;

    assert_int_equal(kill(pid, SIGSTOP), 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    for (int i = 0; i < 10; i++)
        meeting_expect_answered_heartbeat(meeting, meeting->server.conn);
    meeting->deaf = true; /* the connection manager's word is not needed */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    expect_dead(meeting, &meeting->server, OKV_ETIMEDOUT);
    meeting->deaf = false;
}

/* ---- connecting in steps ---- */

/* A step that lasts this long waited for its peer. One that waits for less returns with the result:
 * `waits` tells. */
#define STEP_NS (PACE_GUARD_NS / 2)

/* Of the latest step_to_the_end(). */
static unsigned waits, requests_sent;

/* Goes on until the result; no step may block. */
static int step_to_the_end(struct meeting *meeting, struct okv_connecting *connecting,
                           struct okv_diag *diag)
{
    const struct verbs_connecting *c = (struct verbs_connecting *)connecting;
    struct okv_answer welcome;
    struct okv_conn *conn;

    requests_sent = 0;
    for (waits = 0;; waits++) {
        uint64_t began = okv_clock_ns();
        int rc = meeting->ops->connect_step(connecting, &welcome, &conn, diag);
        if (okv_clock_ns() - began > STEP_NS)
            fail_msg("a step waited for its peer");
        if (rc != OKV_EAGAIN) {
            assert_false(welcome.rejected);
            return rc;
        }
        if (c->attempt.step == VERBS_STEP_ANSWER)
            requests_sent = c->attempts;
        struct pollfd fd = {.fd = connecting->fd, .events = POLLIN};
        assert_true(connecting->fd >= 0);
        poll(&fd, 1, okv_clock_ms_until(connecting->wake_ns));
    }
}

/* Long before its deadline. A machine that stands still has the result at the first step. */
TEST(a_silent_host_is_given_up_in_time)
{
    struct meeting *meeting = *state;
    struct okv_uri uri = meeting->connect_uri;
    struct okv_diag diag = {""};
    uint64_t end = pace_guard_end();

    strcpy(uri.host, "10.9.9.77");
    do {
        uint64_t began = okv_clock_ns(), deadline = meeting_deadline(2 * PACE_GUARD_MS);
        assert_true(began < end);
        struct okv_connecting *connecting = meeting_begin(meeting, &uri, deadline);
        if (okv_clock_ns() - began > STEP_NS)
            fail_msg("the start waited for its peer");
        assert_int_equal(step_to_the_end(meeting, connecting, &diag), OKV_ETIMEDOUT);
        assert_non_null(strstr(diag.text, "10.9.9.77"));
        assert_true(okv_clock_ns() < deadline);
    } while (waits == 0);
}

/* The server ignores its requests. The client sends a second one, since the first might be lost;
 * the deadline ends both. On a machine that stands still it may end the first. */
TEST(a_silent_server_is_asked_again_until_the_deadline)
{
    struct meeting *meeting = *state;
    struct okv_diag diag = {""};
    uint64_t end = pace_guard_end();

    meeting->quiet = true;
    do {
        uint64_t deadline = meeting_deadline(4000); /* before the manager itself asks again */
        assert_true(okv_clock_ns() < end);
        struct okv_connecting *connecting = meeting_begin(meeting, &meeting->connect_uri, deadline);
        meeting->requests = 0;
        assert_int_equal(step_to_the_end(meeting, connecting, &diag), OKV_ETIMEDOUT);
        assert_true(okv_clock_ns() >= deadline);
        MEETING_UNTIL(meeting, meeting->requests == requests_sent);
    } while (requests_sent < 2);
    assert_non_null(strstr(diag.text, "did not answer"));
    meeting->quiet = false;
}

/* The address is resolved, but the caller makes its next step too late. */
TEST(a_deadline_between_two_steps_is_a_time_out)
{
    struct meeting *meeting = *state;
    struct okv_answer welcome;
    struct okv_conn *conn;
    struct okv_diag diag = {""};
    struct okv_connecting *connecting;
    uint64_t end = pace_guard_end();
    int rc;

    meeting->quiet = true;
    do {
        assert_true(okv_clock_ns() < end);
        connecting = meeting_begin(meeting, &meeting->connect_uri, meeting_deadline(pace_ms(200)));
        rc = meeting->ops->connect_step(connecting, &welcome, &conn, &diag);
    } while (rc == OKV_ETIMEDOUT); /* the first step was too late already */
    assert_int_equal(rc, OKV_EAGAIN);
    pace_sleep_ms(pace_ms(200) + 100);
    while ((rc = meeting->ops->connect_step(connecting, &welcome, &conn, &diag)) == OKV_EAGAIN)
        usleep(1000);
    assert_int_equal(rc, OKV_ETIMEDOUT);
    meeting->quiet = false;
}

TEST(nobody_listens)
{
    struct meeting *meeting = *state;
    struct okv_uri uri = meeting->connect_uri;
    struct okv_diag diag = {""};

    strcpy(uri.port, "7999");
    struct okv_connecting *connecting = meeting_begin(meeting, &uri, pace_guard_end());
    assert_int_equal(step_to_the_end(meeting, connecting, &diag), OKV_EREFUSED);
    assert_non_null(strstr(diag.text, "no server listens"));
}

/* Steps until the attempt waits for `step`, and until the server has accepted when `answered`. */
static void go_to(struct meeting *meeting, struct okv_connecting *connecting, enum verbs_step step,
                  bool answered)
{
    const struct verbs_attempt *attempt = &((struct verbs_connecting *)connecting)->attempt;
    uint64_t guard = pace_guard_end();
    struct okv_answer welcome;
    struct okv_conn *conn;

    do {
        assert_int_equal(meeting->ops->connect_step(connecting, &welcome, &conn, NULL), OKV_EAGAIN);
        meeting_nap(guard, "step");
    } while (attempt->step < step);
    if (answered)
        MEETING_UNTIL(meeting, meeting->server.opened == 1);
}

/* The server heartbeats a client that does not process its answer. False when that took longer
 * than a server waits, so that it may have ended the connection. */
static bool heartbeat_a_while(struct meeting *meeting, struct okv_connecting *connecting)
{
    uint64_t began, until;
    bool lives = true;

    memset(&meeting->server, 0, sizeof meeting->server);
    memset(&meeting->client, 0, sizeof meeting->client);
    go_to(meeting, connecting, VERBS_STEP_ANSWER, false);
    began = okv_clock_ns();
    MEETING_UNTIL(meeting, meeting->server.opened == 1);
    for (until = meeting_deadline(SLOW_MS); lives && okv_clock_ns() < until;) {
        lives = meeting->server.conn && meeting->ops->heartbeat(meeting->server.conn) == 0;
        meeting_progress(meeting);
        lives = lives && meeting->server.closed == 0;
        poll(NULL, 0, 1);
    }
    if (okv_clock_ns() - began >= VERBS_READY_NS)
        return false;
    assert_true(lives);
    return true;
}

/* The client has the answer but is busy elsewhere. Its queue pair accepts nothing yet, so a
 * heartbeat must wait. */
TEST(a_client_that_is_slow_to_process_the_answer_stays)
{
    struct meeting *meeting = *state;
    struct okv_connecting *connecting;
    struct okv_answer welcome;
    uint64_t end = pace_guard_end();
    int rc;

    connecting = meeting_begin(meeting, &meeting->connect_uri, pace_guard_end());
    while (!heartbeat_a_while(meeting, connecting)) {
        assert_true(okv_clock_ns() < end);
        meeting->ops->connect_cancel(connecting);
        MEETING_UNTIL(meeting, !meeting->server.conn);
        connecting = meeting_begin(meeting, &meeting->connect_uri, pace_guard_end());
    }
    assert_int_equal(meeting->server.conn->unacknowledged, 0);
    while ((rc = meeting->ops->connect_step(connecting, &welcome, &meeting->client.conn, NULL)) ==
           OKV_EAGAIN)
        poll(NULL, 0, 1);
    assert_int_equal(rc, 0);
    MEETING_UNTIL(meeting, meeting_is_ready(meeting));
    meeting_expect_answered_heartbeat(meeting, meeting->server.conn);
    meeting_disconnect(meeting);
}

TEST(a_connect_may_be_cancelled_at_any_step)
{
    struct meeting *meeting = *state;
    unsigned descriptors = steps_open_descriptors();

    meeting->ops->connect_cancel(NULL);
    for (int stage = -1; stage <= VERBS_STEP_ANSWER + 1; stage++) {
        struct okv_connecting *connecting =
            meeting_begin(meeting, &meeting->connect_uri, pace_guard_end());
        memset(&meeting->server, 0, sizeof meeting->server);
        if (stage >= 0)
            go_to(meeting, connecting, stage > VERBS_STEP_ANSWER ? VERBS_STEP_ANSWER : stage,
                  stage > VERBS_STEP_ANSWER);
        meeting->ops->connect_cancel(connecting);
        assert_int_equal(steps_open_descriptors(), descriptors);
        /* The next client comes after all that the one before left behind. */
        if (stage > VERBS_STEP_ANSWER)
            MEETING_UNTIL(meeting, meeting->server.closed == 1);
        else
            MEETING_UNTIL(meeting, !meeting->server.conn);
    }
    meeting_connect(meeting);
    meeting_expect_answered_heartbeat(meeting, meeting->client.conn);
    meeting_disconnect(meeting);
    assert_int_equal(steps_open_descriptors(), descriptors);
}

TEST(the_request_says_which_host_asks)
{
    struct meeting *meeting = *state;
    const struct okv_uri *uri = &meeting->connect_uri;

    meeting_connect(meeting);
    assert_string_equal(meeting->address, uri->source[0] ? uri->source : uri->host);
    meeting_disconnect(meeting);
}

/* ---- one doorbell, exact counters ---- */

static int (*real_post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static unsigned doorbells;

static int counted_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    doorbells++;
    return real_post_send(qp, wr, bad);
}

TEST(messages_leave_with_one_doorbell)
{
    struct meeting *meeting = *state;

    meeting_connect(meeting);
    struct okv_conn *conn = meeting->client.conn;
    struct ibv_context *verbs = ((struct verbs_conn *)conn)->qp->context;
    real_post_send = verbs->ops.post_send;
    verbs->ops.post_send = counted_post_send;
    for (unsigned round = 1; round <= 20; round++) {
        doorbells = 0;
        for (unsigned i = 0; i < MEETING_CREDITS; i++)
            meeting_send(conn, i % 2 ? MEETING_SLOT_SIZE : 20); /* inline ones and others */
        assert_int_equal(doorbells, 0);
        assert_int_equal(conn->unacknowledged, 0);
        meeting->ops->flush(conn);
        meeting->ops->flush(conn);
        assert_int_equal(doorbells, 1);
        assert_int_equal(conn->unacknowledged, MEETING_CREDITS);
        MEETING_UNTIL(meeting, meeting->server.messages == round * MEETING_CREDITS);
        meeting_settle(meeting);
    }
    verbs->ops.post_send = real_post_send;
    meeting_disconnect(meeting);
}

TEST(what_was_not_flushed_never_leaves)
{
    struct meeting *meeting = *state;

    meeting_connect(meeting);
    struct okv_conn *conn = meeting->client.conn;
    const struct verbs_conn *inside = (struct verbs_conn *)conn;
    for (unsigned i = 0; i < 3; i++)
        meeting_send(conn, 20);
    meeting->ops->close(conn);
    MEETING_UNTIL(meeting, meeting->client.closed);
    assert_int_equal(meeting->client.close_status, OKV_EDISCONNECTED);
    assert_int_equal(inside->sends.free_count, inside->sends.count);
    meeting->ops->flush(conn);
    assert_int_equal(conn->unacknowledged, 0);
    MEETING_UNTIL(meeting, !meeting->server.conn);
    assert_int_equal(meeting->server.messages, 0);
    assert_int_equal(conn->acknowledged, 0);
    meeting_disconnect(meeting);
}

/* All work that both sides may have under way at once, with room for the heartbeat. */
TEST(everything_at_once_is_accounted_for)
{
    struct meeting *meeting = *state;
    static uint8_t bytes[64], value[3u << 20];
    struct okv_read reads[OKV_READ_SLOTS];
    struct okv_memory *memory;
    struct okv_advert *advert;

    meeting_connect(meeting);
    struct okv_conn *client = meeting->client.conn, *server = meeting->server.conn;
    const struct okv_transport_ops *ops = meeting->ops;
    assert_int_equal(ops->memory_register(client->endpoint, bytes, sizeof bytes, &memory), 0);
    assert_int_equal(ops->advertise(client, value, sizeof value, &advert), 0);
    unsigned sends = ((struct verbs_conn *)client)->sends.count, count = client->max_reads;
    for (unsigned i = 0; i < sends; i++) {
        meeting_send(client, MEETING_SLOT_SIZE);
        meeting_send(server, MEETING_SLOT_SIZE);
    }
    for (unsigned i = 0; i < count; i++)
        reads[i] = (struct okv_read){0, bytes, memory, sizeof bytes, i};
    struct okv_rendezvous rendezvous = {
        .address = advert->address, .key = advert->key, .length = sizeof value, .cookie = 1};
    ops->flush(client);
    assert_int_equal(ops->post_read(client, reads, count), 0);
    assert_int_equal(ops->heartbeat(client), 0);
    assert_int_equal(client->unacknowledged, sends + count + 1);
    assert_int_equal(ops->rendezvous(server, &rendezvous), 0);
    ops->flush(server);
    assert_int_equal(ops->heartbeat(server), 0);
    assert_int_equal(server->unacknowledged, 3 + sends + 1);
    MEETING_UNTIL(meeting,
                  meeting->client.reads == count && meeting->server.rendezvous_reads == 1 &&
                      meeting->client.messages == sends && meeting->server.messages == sends);
    meeting_settle(meeting);
    assert_int_equal(meeting->server.rendezvous_status, 0);
    assert_int_equal(client->acknowledged, sends + count + 1);
    assert_int_equal(server->acknowledged, 3 + sends + 1);
    ops->withdraw(advert, false);
    ops->memory_unregister(memory);
    meeting_disconnect(meeting);
}

TEST_PROGRAM(setup, teardown)

int main(int argc, char **argv)
{
    /* In this order: the device does not come back. */
    const struct CMUnitTest ruinous[] = {
        cmocka_unit_test(a_heartbeat_may_be_asked_again),
        cmocka_unit_test(a_cut_network_answers_no_heartbeat),
        cmocka_unit_test(a_client_loses_its_device),
    };
    const char *uri = getenv("OKV_TEST_URI");

    if (!uri || strncmp(uri, "rdma:", 5) != 0 || !getenv("OKV_TEST_LISTEN")) {
        printf("skipped: needs rdma: URIs in OKV_TEST_LISTEN and OKV_TEST_URI\n");
        return 77;
    }
    if (argc > 1 && strcmp(argv[1], "client") == 0)
        return run_client();
    int failed = test_run();
    if (argc > 1 && strcmp(argv[1], "disposable") == 0)
        failed += test_run_group("ruinous", ruinous, setup, teardown);
    return failed;
}
