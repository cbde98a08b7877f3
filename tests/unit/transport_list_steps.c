/* Part of the list in transport_list.c: connects in steps. */
#include <poll.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/pace.h"
#include "tests/support/transport_client.h"
#include "tests/support/transport_steps.h"
#include "tests/unit/transport_list.h"

/* More steps than any connect needs. A busy loop would exceed it. */
#define STEPS_MAX 20000u

/* A step that lasts this long waited for the server, which the deadline leaves twice that time. */
#define STEP_NS (PACE_GUARD_NS / 2)

struct attempt {
    struct fixture *fixture;
    uint64_t deadline_ns;
    struct okv_connecting *connecting; /* NULL after its result */
    struct okv_answer welcome;
    struct okv_conn *conn;
    struct okv_diag diag;
    unsigned steps;
};

static void attempt_start(struct attempt *attempt, struct fixture *fixture, enum fixture_wish wish,
                          uint64_t deadline_ns)
{
    *attempt = (struct attempt){.fixture = fixture, .deadline_ns = deadline_ns};
    if (fixture_start_connect(fixture, wish, deadline_ns, &attempt->connecting, &attempt->diag))
        fail_msg("connect_start: %s", attempt->diag.text);
    assert_ptr_equal(attempt->connecting->ops, fixture->ops);
}

static int attempt_step(struct attempt *attempt)
{
    uint64_t before = okv_clock_ns();
    int status = attempt->fixture->ops->connect_step(attempt->connecting, &attempt->welcome,
                                                     &attempt->conn, &attempt->diag);

    assert_true(okv_clock_ns() - before < STEP_NS);
    assert_true(++attempt->steps < STEPS_MAX);
    if (status != OKV_EAGAIN)
        attempt->connecting = NULL;
    else
        assert_true(attempt->connecting->wake_ns <= attempt->deadline_ns);
    return status;
}

static void attempt_wait(const struct attempt *attempt)
{
    struct pollfd watched = {.fd = attempt->connecting->fd, .events = POLLIN};

    poll(&watched, 1, okv_clock_ms_until(attempt->connecting->wake_ns));
}

static int attempt_finish(struct attempt *attempt)
{
    int status;

    while ((status = attempt_step(attempt)) == OKV_EAGAIN)
        attempt_wait(attempt);
    return status;
}

static void assert_serves(struct attempt *attempt)
{
    const struct okv_transport_ops *ops = attempt->fixture->ops;
    struct okv_event event;

    assert_int_equal(fixture_set_remote(attempt->conn, &attempt->welcome), 0);
    fixture_fill_message(ops->send_buffer(attempt->conn), 7, 300);
    assert_int_equal(ops->post_send(attempt->conn, 300, 7), 0);
    ops->flush(attempt->conn);
    assert_true(fixture_wait(attempt->conn->endpoint, &event));
    assert_true(fixture_is_message(&event, 7, 300));
    ops->recv_release(attempt->conn->endpoint, &event);
    ops->conn_destroy(attempt->conn);
    assert_true(fixture_is_empty(attempt->fixture));
}

TEST(a_connect_in_steps_never_blocks)
{
    struct fixture *fixture = *state;
    struct attempt attempt;

    fixture_pause(fixture);
    attempt_start(&attempt, fixture, FIXTURE_ACCEPT, fixture_soon());
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(attempt_step(&attempt), OKV_EAGAIN);
    fixture_resume(fixture);
    if (attempt_finish(&attempt))
        fail_msg("connect: %s", attempt.diag.text);
    atomic_fetch_add(&fixture->connected, 1);
    assert_false(attempt.welcome.rejected);
    assert_serves(&attempt);
    assert_int_equal(atomic_load(&fixture->wrong), 0);
}

TEST(a_connect_in_steps_is_rejected)
{
    struct fixture *fixture = *state;
    struct attempt attempt;

    attempt_start(&attempt, fixture, FIXTURE_REJECT, fixture_soon());
    assert_int_equal(attempt_finish(&attempt), OKV_EREFUSED);
    assert_true(attempt.welcome.rejected);
    assert_in_range(attempt.welcome.length, FIXTURE_REASON, OKV_REJECT_MAX);
    for (unsigned i = 0; i < FIXTURE_REASON; i++)
        assert_int_equal(attempt.welcome.bytes[i], fixture_reason_byte(i));
    assert_null(attempt.conn);
    assert_true(attempt.diag.text[0] != '\0');
}

TEST(a_connect_in_steps_finds_nobody)
{
    struct fixture *fixture = *state;
    const struct okv_uri uri = fixture->connect_uri;
    struct attempt attempt;

    if (uri.scheme == OKV_SCHEME_LOCAL)
        fixture->connect_uri.path[strlen(uri.path) - 1] = 'X';
    else
        strcpy(fixture->connect_uri.port, "7999");
    attempt_start(&attempt, fixture, FIXTURE_ACCEPT, fixture_soon());
    fixture->connect_uri = uri;
    assert_int_equal(attempt_finish(&attempt), OKV_EREFUSED);
    assert_false(attempt.welcome.rejected);
    assert_null(attempt.conn);
    assert_true(attempt.diag.text[0] != '\0');
}

TEST(a_connect_in_steps_ends_at_its_deadline)
{
    struct fixture *fixture = *state;
    uint64_t deadline = okv_clock_ns() + 150000000u;
    struct attempt attempt;

    fixture_pause(fixture);
    attempt_start(&attempt, fixture, FIXTURE_ACCEPT, deadline);
    int status = attempt_finish(&attempt);
    uint64_t end = okv_clock_ns();
    fixture_resume(fixture);
    assert_int_equal(status, OKV_ETIMEDOUT);
    assert_true(end >= deadline && end - deadline < STEP_NS);
    assert_false(attempt.welcome.rejected);
    assert_null(attempt.conn);
    assert_true(attempt.diag.text[0] != '\0');
    /* the next client is served */
    client_destroy(client_create(state));
}

/* Makes `steps` steps, then cancels. True when there was a result before. */
static bool cancel_after(struct fixture *fixture, unsigned steps)
{
    struct attempt attempt;
    int status = OKV_EAGAIN;

    attempt_start(&attempt, fixture, FIXTURE_ACCEPT, fixture_soon());
    for (unsigned i = 0; i < steps && status == OKV_EAGAIN; i++) {
        status = attempt_step(&attempt);
        if (status == OKV_EAGAIN && i + 1 < steps)
            attempt_wait(&attempt);
    }
    if (status != OKV_EAGAIN) {
        assert_int_equal(status, 0);
        atomic_fetch_add(&fixture->connected, 1);
        assert_serves(&attempt);
        return true;
    }
    fixture->ops->connect_cancel(attempt.connecting);
    return false;
}

TEST(a_connect_is_cancelled_at_any_step)
{
    struct fixture *fixture = *state;
    unsigned steps = 0;

    fixture->ops->connect_cancel(NULL);
    client_destroy(client_create(state));
    unsigned before = steps_open_descriptors();
    while (!cancel_after(fixture, steps))
        assert_true(++steps < STEPS_MAX);
    fixture_pause(fixture);
    assert_false(cancel_after(fixture, 1));
    fixture_resume(fixture);
    client_destroy(client_create(state));
    /* the server may not have noticed yet, neither now nor when they were counted */
    uint64_t end = fixture_soon();
    while (steps_open_descriptors() > before && okv_clock_ns() < end)
        poll(NULL, 0, 1);
    assert_in_range(steps_open_descriptors(), 0, before);
    assert_true(fixture_is_empty(fixture));
    assert_int_equal(atomic_load(&fixture->wrong), 0);
}
