/* Reports of clients: sums, and what a client that lies can do to them. */
#include "tests/support/test.h"

#include "server/clients/client_table.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/session_fixture.h"

#define HOUR_NS UINT64_C(3600000000000)

static int setup(void **state)
{
    int rc = fixture_setup(state);
    struct fixture *fixture = *state;

    for (unsigned i = 0; i < 2; i++) {
        fixture->clients[i].session->common.report.is_due = true;
        fixture->clients[i].session->common.created_ns -= HOUR_NS;
        fixture->core.database->reporting++;
    }
    return rc;
}

static void arrive(struct fixture *fixture, unsigned number, unsigned opcode, uint64_t sequence,
                   const struct okv_report *report)
{
    struct okv_wire_report wire;

    okv_report_encode(report, &wire);
    const struct okv_request_message request = {.opcode = opcode,
                                                .slot = 1,
                                                .sequence = sequence,
                                                .value = (const uint8_t *)&wire,
                                                .value_length = sizeof wire};
    fixture_arrive_as(fixture, &fixture->clients[number], &request);
}

#define FIXTURE_TEST(name) TEST_WITH(name, setup, fixture_teardown)

FIXTURE_TEST(reports_add_up)
{
    struct fixture *fixture = *state;
    struct okv_counts *counts = &fixture->core.database->counts;
    const struct okv_times *times = &fixture->core.database->client_times;
    struct okv_report report = {
        .gets = 5, .hits = 3, .misses = 2, .reads = 6, .get_ns = 900, .cells = {[2] = 1, [53] = 2}};

    arrive(fixture, 0, OKV_OP_REPORT, 1, &report);
    arrive(fixture, 1, OKV_OP_REPORT, 1, &report);
    arrive(fixture, 0, OKV_OP_REPORT, 2, &report);
    assert_int_equal(fixture->clients[0].posted, 2);
    assert_int_equal(fixture->clients[0].replies[1].status, OKV_OK);
    assert_int_equal(fixture->clients[0].replies[1].value_length, 0);
    assert_int_equal(stat_of(&counts->client_reports), 3);
    assert_int_equal(stat_of(&counts->client_gets), 15);
    assert_int_equal(stat_of(&counts->client_hits), 9);
    assert_int_equal(stat_of(&counts->client_misses), 6);
    assert_int_equal(stat_of(&counts->client_reads), 18);
    assert_int_equal(stat_of(&times->ns), 2700);
    assert_int_equal(stat_of(&times->cells[2]), 3);
    assert_int_equal(stat_of(&times->cells[53]), 6);
    assert_int_equal(stat_of(&fixture->clients[0].session->common.report.gets), 10);
    assert_int_equal(stat_of(&fixture->clients[1].session->common.report.gets), 5);
    /* They make nobody busy. */
    assert_int_equal(stat_of(&fixture->clients[0].session->common.requests), 0);
    /* What a session reported stays when it is gone. */
    arrive(fixture, 1, OKV_OP_GOODBYE, 3, &report);
    assert_true(fixture->clients[1].closed);
    okv_session_closed(fixture->worker.sessions, fixture->clients[1].session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&counts->client_gets), 20);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_by_client), 1);
    assert_int_equal(atomic_load(&fixture->core.database->reporting), 1);
    fixture_open(fixture, 1, 2, 0);
}

/* The connection has closed when the turn of the GOODBYE would come. */
FIXTURE_TEST(a_goodbye_that_waits_counts)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    const struct okv_report report = {.gets = 5};

    client->no_buffers = true;
    fixture_arrive(fixture, client, OKV_OP_PING, 0, 1);
    arrive(fixture, 0, OKV_OP_GOODBYE, 2, &report);
    assert_int_equal(stat_of(&fixture->core.database->counts.client_gets), 0);
    okv_session_closed(fixture->worker.sessions, client->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&fixture->core.database->counts.client_gets), 5);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_by_client), 1);
    fixture_open(fixture, 0, 1, 0);
}

/* It fills its own share, and the sum of others still grows. */
FIXTURE_TEST(a_liar_has_a_share)
{
    struct fixture *fixture = *state;
    struct okv_counts *counts = &fixture->core.database->counts;
    const struct okv_times *times = &fixture->core.database->client_times;
    const struct okv_report lie = {.gets = UINT64_MAX,
                                   .hits = UINT64_MAX,
                                   .reads = UINT64_MAX,
                                   .get_ns = 1,
                                   .cells = {[53] = UINT32_MAX}},
                            truth = {.gets = 7, .hits = 7, .reads = 7};

    arrive(fixture, 0, OKV_OP_REPORT, 1, &lie);
    arrive(fixture, 0, OKV_OP_REPORT, 2, &lie);
    uint64_t share = stat_of(&fixture->clients[0].session->common.report.gets);
    uint64_t age_ns = okv_clock_ns() - fixture->clients[0].session->common.created_ns;
    assert_in_range(share, HOUR_NS * 1024, age_ns * 1024);
    assert_int_equal(stat_of(&counts->client_gets), share);
    arrive(fixture, 1, OKV_OP_REPORT, 1, &truth);
    assert_int_equal(stat_of(&counts->client_gets), share + 7);
    assert_int_equal(stat_of(&fixture->clients[1].session->common.report.gets), 7);
    /* A timed get takes its time, and so many fit into no hour. */
    assert_int_equal(stat_of(&times->cells[53]), 0);
    assert_int_equal(stat_of(&times->ns), 0);
    /* Sums stop. */
    atomic_store(&counts->client_reads, UINT64_MAX - 3);
    arrive(fixture, 1, OKV_OP_REPORT, 2, &truth);
    assert_true(stat_of(&counts->client_reads) == UINT64_MAX);
}

FIXTURE_TEST(what_is_no_report_ends_the_session)
{
    struct fixture *fixture = *state;
    const struct okv_report wrong = {.gets = 1, .hits = 2}, right = {.gets = 1};

    arrive(fixture, 0, OKV_OP_REPORT, 1, &wrong);
    assert_true(fixture->clients[0].closed);
    assert_int_equal(fixture->clients[0].posted, 0);
    fixture->clients[1].session->common.report.is_due = false;
    arrive(fixture, 1, OKV_OP_GOODBYE, 1, &right);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_malformed), 2);
    assert_int_equal(stat_of(&fixture->core.database->counts.client_gets), 0);
    fixture->clients[1].session->common.report.is_due = true;
}

/* As many sessions as fit, and the others in the next answer. */
FIXTURE_TEST(the_list_of_sessions_has_pages)
{
    struct fixture *fixture = *state;
    const struct okv_report report = {.gets = 5, .hits = 3};
    struct okv_server *server = fixture->core.server;
    char all[1024] = "", page[1024] = "";

    arrive(fixture, 0, OKV_OP_REPORT, 1, &report);
    for (unsigned i = 0; i < 2; i++) { /* so that their lines stay as long as they are */
        fixture->clients[i].session->common.created_ns = UINT64_MAX;
        atomic_store(&fixture->clients[i].session->common.active_ns, UINT64_MAX);
    }
    atomic_store(&fixture->clients[0].session->common.hits_over, 7);
    size_t length = okv_clients_list(server, 0, 0, all, sizeof all);
    assert_int_equal(strlen(all), length);
    const char *second = strchr(all, '\n') + 1;
    assert_int_equal(strchr(second, '\n') - all, length - 1);
    assert_ptr_equal(strstr(all, "0000000000000001 "), all);
    assert_non_null(strstr(all, " 1 5 3 7 - \n"));
    size_t first = (size_t)(second - all);
    for (size_t size = 0; size <= length; size++) {
        size_t used = okv_clients_list(server, 0, 0, page, size);
        assert_int_equal(used, size > first ? first : 0); /* each needs room for a NUL */
    }
    size_t used = okv_clients_list(server, 0, 1, page, sizeof page);
    assert_int_equal(used, length - first);
    assert_int_equal(okv_clients_list(server, 0, 2, page, sizeof page), 0);
    assert_int_equal(okv_clients_list(server, 1, 0, page, sizeof page), 0);
}
