/* Part of transport_verbs_test.c: tests that change the network and the devices of the machine. */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/verbs_meeting.h"
#include "tests/unit/transport_verbs_list.h"

/* Longer than a device waits before it asks again, and far from where it gives up. */
#define LATE_MS 150

/* Skips the test where both sides are on one device, between which nothing can be cut or delayed.
 */
static void need_network(const struct meeting *meeting)
{
    if (meeting->connect_uri.source[0])
        return;
    print_message("no network between two devices\n");
    skip();
}

void a_cut_network_answers_no_heartbeat(void **state)
{
    struct meeting *meeting = *state;

    need_network(meeting);
    meeting_connect(meeting);
    meeting_expect_answered_heartbeat(meeting, meeting->server.conn);
    meeting_cut_network(true);
    assert_int_equal(meeting->ops->heartbeat(meeting->client.conn), 0);
    assert_int_equal(meeting->ops->heartbeat(meeting->server.conn), 0);
    MEETING_UNTIL(meeting, meeting->client.closed && meeting->server.closed);
    meeting_cut_network(false);
    assert_int_equal(meeting->client.close_status, OKV_ETIMEDOUT);
    assert_int_equal(meeting->server.close_status, OKV_ETIMEDOUT);
    meeting_disconnect(meeting);
    meeting_connect(meeting);
    meeting_expect_answered_heartbeat(meeting, meeting->server.conn);
    meeting_disconnect(meeting);
}

/* A heartbeat of `conn` that `asked` answers so late that it gets the heartbeat again before. */
static void expect_late_answer(struct meeting *meeting, struct okv_conn *conn,
                               struct okv_conn *asked)
{
    unsigned long repeats = meeting_repeats(asked);

    meeting_delay(asked, LATE_MS);
    for (int i = 0; i < 3; i++)
        meeting_expect_answered_heartbeat(meeting, conn);
    meeting_no_delay(asked);
    assert_true(meeting_repeats(asked) >= repeats + 3);
}

void a_heartbeat_may_be_asked_again(void **state)
{
    struct meeting *meeting = *state;

    need_network(meeting);
    meeting_connect(meeting);
    expect_late_answer(meeting, meeting->client.conn, meeting->server.conn);
    expect_late_answer(meeting, meeting->server.conn, meeting->client.conn);
    assert_int_equal(meeting->client.closed + meeting->server.closed, 0);
    meeting_disconnect(meeting);
}

void a_client_loses_its_device(void **state)
{
    struct meeting *meeting = *state;
    char command[100];

    meeting_connect(meeting);
    snprintf(command, sizeof command, "timeout 30 rdma link del %s &",
             ibv_get_device_name(((struct verbs_conn *)meeting->client.conn)->qp->context->device));
    assert_int_equal(system(command), 0);
    MEETING_UNTIL(meeting, meeting->client.closed);
    assert_int_equal(meeting->client.close_status, OKV_EDISCONNECTED);
    meeting_disconnect(meeting);
}
