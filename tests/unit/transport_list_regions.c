/* Part of the list in transport_list.c: two regions of one listener. */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_list.h"

#define BYTES 4096u

/* READs the beginning of what the client's connection reaches. */
static void read_other(struct client *client)
{
    const struct okv_read read = client_make_read(client, 0, BYTES, 0, 1);

    assert_int_equal(client->ops->post_read(client->conn, &read, 1), 0);
    struct okv_event event = client_next_event(client);
    assert_int_equal(event.type, OKV_EVENT_READ);
    assert_int_equal(event.status, 0);
    for (unsigned i = 0; i < BYTES; i++)
        assert_int_equal(client->bytes[i], FIXTURE_OTHER_BYTE);
}

TEST(connections_reach_their_own_region)
{
    const struct fixture *fixture = *state;

    if (!fixture->has_other)
        skip();
    struct client *one = client_create(state), *other = client_create_other(state);

    for (unsigned i = 0; i < 10; i++) {
        client_read(one, 0, BYTES, 1);
        read_other(other);
        client_echo(one, i, 100, i);
        client_echo(other, i, 100, i);
    }
    /* a smaller region: what lies behind its end in the first one is not there */
    const struct okv_read behind = client_make_read(other, FIXTURE_OTHER_REGION, BYTES, 0, 1);
    assert_int_equal(other->ops->post_read(other->conn, &behind, 1), OKV_EINVAL);
    /* the clients of each end without those of the other */
    other->ops->memory_unregister(other->memory);
    other->ops->conn_destroy(other->conn);
    client_read(one, 0, BYTES, 1);
    client_echo(one, 1, 100, 1);
    client_destroy(one);
    test_free(other);
}
