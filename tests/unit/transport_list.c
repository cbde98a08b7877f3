/*
 * The list of tests that every transport passes.
 *
 * OKV_TEST_URI is the URI that clients connect to, OKV_TEST_LISTEN the one that the server listens
 * on if it differs. Without them: the local transport in a fresh directory.
 */
#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_list.h"

#define ECHOES 10000u

/* ---- the handshake ---- */

TEST(the_handshake_carries_bytes_both_ways)
{
    struct fixture *fixture = *state;
    struct okv_answer welcome;
    struct okv_conn *conn = NULL;
    struct okv_diag diag = {""};

    /* the server checks the hello */
    assert_int_equal(
        fixture_try_connect(fixture, FIXTURE_ACCEPT, fixture_soon(), &welcome, &conn, &diag), 0);
    assert_false(welcome.rejected);
    assert_in_range(welcome.length, FIXTURE_WELCOME, OKV_WELCOME_MAX);
    for (unsigned i = 12; i < welcome.length; i++)
        assert_int_equal(welcome.bytes[i], i < FIXTURE_WELCOME ? fixture_welcome_byte(i) : 0);
    assert_true(conn->slot_size == FIXTURE_SLOT_SIZE && conn->max_reads >= 1);
    assert_true(conn->peer[0] != '\0' && conn->how[0] != '\0');
    assert_true(fixture->listener->where[0] != '\0' && fixture->listener->how[0] != '\0');
    assert_int_equal(conn->remote_length, 0);
    assert_int_equal(fixture_set_remote(conn, &welcome), 0);
    assert_int_equal(conn->remote_length, FIXTURE_REGION);
    fixture->ops->conn_destroy(conn);
    assert_true(fixture_is_empty(fixture));
    assert_int_equal(atomic_load(&fixture->wrong), 0);
}

TEST(a_rejection_carries_its_reason)
{
    struct fixture *fixture = *state;
    struct okv_answer welcome;
    struct okv_conn *conn = NULL;
    struct okv_diag diag = {""};

    assert_int_equal(
        fixture_try_connect(fixture, FIXTURE_REJECT, fixture_soon(), &welcome, &conn, &diag),
        OKV_EREFUSED);
    assert_true(welcome.rejected);
    assert_in_range(welcome.length, FIXTURE_REASON, OKV_REJECT_MAX);
    for (unsigned i = 0; i < welcome.length; i++)
        assert_int_equal(welcome.bytes[i], i < FIXTURE_REASON ? fixture_reason_byte(i) : 0);
    assert_null(conn);
    assert_true(diag.text[0] != '\0');
    assert_int_equal(atomic_load(&fixture->wrong), 0);
}

TEST(a_server_that_does_not_answer_times_out)
{
    struct fixture *fixture = *state;
    struct okv_answer welcome;
    struct okv_conn *conn = NULL;
    struct okv_diag diag = {""};

    fixture_pause(fixture);
    int status = fixture_try_connect(fixture, FIXTURE_ACCEPT, okv_clock_ns() + 200000000u, &welcome,
                                     &conn, &diag);
    fixture_resume(fixture);
    assert_int_equal(status, OKV_ETIMEDOUT);
    assert_null(conn);
    assert_false(welcome.rejected);
    assert_true(diag.text[0] != '\0');
    /* the next client is served */
    client_destroy(client_create(state));
}

TEST(connecting_to_nobody_says_so)
{
    struct fixture *fixture = *state;
    const struct okv_uri uri = fixture->connect_uri;
    struct okv_answer welcome;
    struct okv_conn *conn = NULL;
    struct okv_diag diag = {""};

    if (uri.scheme == OKV_SCHEME_LOCAL)
        fixture->connect_uri.path[strlen(uri.path) - 1] = 'X';
    else
        strcpy(fixture->connect_uri.port, "7999");
    int status =
        fixture_try_connect(fixture, FIXTURE_ACCEPT, fixture_soon(), &welcome, &conn, &diag);
    fixture->connect_uri = uri;
    assert_int_equal(status, OKV_EREFUSED);
    assert_false(welcome.rejected);
    assert_null(conn);
    assert_true(diag.text[0] != '\0');
}

/* ---- READs ---- */

TEST(reads_bring_the_right_bytes)
{
    struct client *client = client_create(state);

    client_read(client, 0, 1, 0);
    client_read(client, 0, 512, 0);
    client_read(client, FIXTURE_REGION - 1, 1, 5);
    client_read(client, FIXTURE_REGION - 512, 512, 3);
    client_read(client, 4099, 777, 1);
    client_read(client, 511, 2, 63);
    client_read(client, 12345, 4097, 0);
    client_read(client, 0, CLIENT_LARGE_READ, 0);
    client_read(client, FIXTURE_REGION - CLIENT_LARGE_READ, CLIENT_LARGE_READ, 7);
    for (uint64_t offset = 0; offset < FIXTURE_REGION; offset += CLIENT_LARGE_READ)
        client_read(client, offset, CLIENT_LARGE_READ, 32);
    client_destroy(client);
}

TEST(reads_outside_the_region_are_refused)
{
    struct client *client = client_create(state);
    const struct okv_read refused[] = {
        client_make_read(client, FIXTURE_REGION, 1, 0, 1),
        client_make_read(client, FIXTURE_REGION - 511, 512, 0, 2),
        client_make_read(client, UINT64_MAX - 7, 8, 0, 3),
        client_make_read(client, UINT64_MAX - 7, 512, 0, 4),
        client_make_read(client, UINT64_MAX, 1, 0, 5),
        client_make_read(client, (uint64_t)1 << 63, 1, 0, 6),
        client_make_read(client, 0, 0, 0, 7),
        client_make_read(client, 0, UINT32_MAX, 0, 8),
    };
    const unsigned count = sizeof refused / sizeof refused[0];

    for (unsigned i = 0; i < count; i++)
        assert_int_equal(client->ops->post_read(client->conn, &refused[i], 1), OKV_EINVAL);
    /* one bad READ refuses the whole batch */
    const struct okv_read mixed[] = {client_make_read(client, 0, 8, 0, 9), refused[0]};
    if (client->conn->max_reads >= 2)
        assert_int_equal(client->ops->post_read(client->conn, mixed, 2), OKV_EINVAL);
    client_expect_nothing(client);
    client_read(client, 64, 64, 0);
    client_echo(client, 1, 100, 1);
    client_destroy(client);
}

TEST(every_read_of_a_batch_reports_once)
{
    enum { LENGTH = 300, MOST = 64, BATCHES = 20 };
    struct client *client = client_create(state);
    unsigned count = client->conn->max_reads < MOST ? client->conn->max_reads : MOST;

    for (unsigned batch = 0; batch < BATCHES; batch++) {
        struct okv_read reads[MOST];
        bool seen[MOST] = {false};
        for (unsigned i = 0; i < count; i++)
            reads[i] =
                client_make_read(client, (batch * 7919u + i * 1013u) % (FIXTURE_REGION - LENGTH),
                                 LENGTH, i * LENGTH, UINT64_MAX - i);
        assert_int_equal(client->ops->post_read(client->conn, reads, count), 0);
        for (unsigned i = 0; i < count; i++) {
            struct okv_event event = client_next_event(client);
            uint64_t which = UINT64_MAX - event.cookie;
            assert_int_equal(event.type, OKV_EVENT_READ);
            assert_int_equal(event.status, 0);
            assert_true(which < count && !seen[which]);
            seen[which] = true;
            assert_region_bytes(reads[which].destination, reads[which].offset, LENGTH);
        }
        client_expect_nothing(client);
    }
    client_destroy(client);
}

TEST(too_many_reads_are_refused)
{
    struct client *client = client_create(state);
    unsigned most = client->conn->max_reads;
    struct okv_read *reads = test_calloc(most + 1, sizeof *reads);

    for (unsigned i = 0; i <= most; i++)
        reads[i] = client_make_read(client, i, 1, i, i);
    assert_int_equal(client->ops->post_read(client->conn, reads, most + 1), OKV_EAGAIN);
    client_expect_nothing(client);
    for (unsigned i = 0; i < most; i++)
        assert_int_equal(client->ops->post_read(client->conn, &reads[i], 1), 0);
    assert_int_equal(client->ops->post_read(client->conn, &reads[most], 1), OKV_EAGAIN);
    for (unsigned i = 0; i < most; i++)
        assert_int_equal(client_next_event(client).type, OKV_EVENT_READ);
    client_expect_nothing(client);
    assert_int_equal(client->ops->post_read(client->conn, reads, most), 0);
    for (unsigned i = 0; i < most; i++)
        assert_int_equal(client_next_event(client).type, OKV_EVENT_READ);
    client_expect_nothing(client);
    test_free(reads);
    client_destroy(client);
}

TEST(a_store_of_the_server_is_seen_by_a_later_read)
{
    enum { OFFSET = 70000, LENGTH = 64 };
    struct client *client = client_create(state);
    uint8_t *region = client->fixture->region;

    client_read(client, OFFSET, LENGTH, 0);
    for (int i = 0; i < LENGTH; i++)
        region[OFFSET + i] = (uint8_t)~fixture_region_byte(OFFSET + (uint64_t)i);
    struct okv_read read = client_make_read(client, OFFSET, LENGTH, 0, 1);
    assert_int_equal(client->ops->post_read(client->conn, &read, 1), 0);
    assert_int_equal(client_next_event(client).status, 0);
    for (int i = 0; i < LENGTH; i++) {
        uint8_t wanted = (uint8_t)~fixture_region_byte(OFFSET + (uint64_t)i);
        region[OFFSET + i] = fixture_region_byte(OFFSET + (uint64_t)i);
        assert_int_equal(client->bytes[i], wanted);
    }
    client_destroy(client);
}

/* ---- messages ---- */

TEST(messages_have_any_size_and_immediate)
{
    static const uint32_t lengths[] = {0, 1, 4, 255, 4096, FIXTURE_SLOT_SIZE};
    static const uint32_t immediates[] = {0, 1, 0x80000000u, 0xffffffffu};
    struct client *client = client_create(state);

    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (unsigned k = 0; k < sizeof immediates / sizeof immediates[0]; k++)
            client_echo(client, i * 10 + k, lengths[i], immediates[k]);
    }
    client_destroy(client);
}

TEST(a_message_larger_than_a_slot_is_refused)
{
    struct client *client = client_create(state);
    uint8_t *buffer = client->ops->send_buffer(client->conn);

    assert_non_null(buffer);
    assert_ptr_equal(client->ops->send_buffer(client->conn), buffer);
    assert_int_equal(client->ops->post_send(client->conn, FIXTURE_SLOT_SIZE + 1, 0), OKV_EINVAL);
    assert_int_equal(client->ops->post_send(client->conn, UINT32_MAX, 0), OKV_EINVAL);
    assert_ptr_equal(client->ops->send_buffer(client->conn), buffer);
    client_echo(client, 3, FIXTURE_SLOT_SIZE, 7);
    client_destroy(client);
}

TEST(ten_thousand_echoes)
{
    struct client *client = client_create(state);

    for (unsigned i = 0; i < ECHOES; i++)
        client_echo(client, i, i % 257, i);
    client_destroy(client);
}

TEST(all_credits_may_be_outstanding)
{
    struct client *client = client_create(state);

    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
            assert_int_equal(client_send(client, i, FIXTURE_SLOT_SIZE - i, round + i), 0);
        for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
            client_expect_message(client, i, FIXTURE_SLOT_SIZE - i, round + i);
    }
    client_expect_nothing(client);
    client_destroy(client);
}

TEST(received_messages_stay_until_released)
{
    struct client *client = client_create(state);
    struct okv_event events[FIXTURE_CREDITS];

    for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
        assert_int_equal(client_send(client, i, 1000 + i, i), 0);
    for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
        events[i] = client_next_event(client);
    for (unsigned i = FIXTURE_CREDITS; i-- > 0;) {
        assert_true(fixture_is_message(&events[i], i, 1000 + i));
        client->ops->recv_release(client->conn->endpoint, &events[i]);
    }
    client_echo(client, 1, 1, 1);
    client_destroy(client);
}

TEST(send_buffers_run_out_and_come_back)
{
    struct client *client = client_create(state);
    unsigned sent = 0;

    fixture_pause(client->fixture);
    for (; sent < FIXTURE_CREDITS && client->ops->send_buffer(client->conn); sent++)
        assert_int_equal(client_send(client, sent, FIXTURE_SLOT_SIZE, sent), 0);
    fixture_resume(client->fixture);
    assert_int_equal(sent, FIXTURE_CREDITS);
    for (unsigned i = 0; i < sent; i++)
        client_expect_message(client, i, FIXTURE_SLOT_SIZE, i);
    for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
        assert_int_equal(client_send(client, i, 1, i), 0);
    for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
        client_expect_message(client, i, 1, i);
    client_destroy(client);
}

TEST_PROGRAM(fixture_setup_from_environment, fixture_teardown)
