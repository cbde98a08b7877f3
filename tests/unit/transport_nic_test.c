/* The verbs transport on devices with other limits than usual ones, and on ones that refuse. */
#include <errno.h>
#include <sys/resource.h>

#include "shared/base/error.h"
#include "tests/support/nic/nic.h"
#include "tests/support/test.h"
#include "tests/support/transport_fixture.h"

#define LISTEN "rdma://192.0.2.1"
#define HOLD_NS UINT64_C(60000000000) /* longer than all attempts together */

static int begin(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    nic_reset();
    assert_non_null(fixture);
    *state = fixture;
    return 0;
}

static int end(void **state)
{
    free(*state);
    assert_int_equal(nic_open_objects(), 0);
    return 0;
}

#define NIC_TEST(name) TEST_WITH(name, begin, end)

static struct okv_conn *connect_to(struct fixture *fixture, int status)
{
    struct okv_answer answer;
    struct okv_conn *conn = NULL;
    struct okv_diag diag = {""};

    assert_int_equal(
        fixture_try_connect(fixture, FIXTURE_ACCEPT, fixture_soon(), &answer, &conn, &diag),
        status);
    return conn;
}

/* Tries to listen; the sentence that says why not. */
static const char *refused(int status)
{
    static struct okv_diag diag;
    static uint8_t memory[2u << 20];
    const struct okv_region region = {memory, sizeof memory, -1};
    struct okv_listener *listener;
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse(LISTEN, &uri, NULL), 0);
    assert_int_equal(okv_transport_verbs.listen(&uri, &region, 1, &listener, &diag), status);
    return diag.text;
}

NIC_TEST(a_stale_number_is_not_used_again)
{
    struct fixture *fixture = *state;

    nic_traits_of("nic0")->is_reusing_numbers = true;
    nic_hold_numbers(HOLD_NS);
    fixture_start(fixture, LISTEN, LISTEN);
    for (unsigned i = 0; i < 3; i++)
        fixture->ops->conn_destroy(connect_to(fixture, 0));
    assert_true(fixture_is_empty(fixture));
    fixture_stop(fixture);
}

NIC_TEST(values_share_a_registration_until_one_was_perhaps_not_read)
{
    static uint8_t bytes[20000];
    struct fixture *fixture = *state;
    uint32_t keys[4];

    fixture_start(fixture, LISTEN, LISTEN);
    struct okv_conn *conn = connect_to(fixture, 0);
    for (unsigned i = 0; i < 4; i++) {
        struct okv_advert *advert;
        assert_int_equal(fixture->ops->advertise(conn, bytes, sizeof bytes, &advert), 0);
        keys[i] = advert->key;
        fixture->ops->withdraw(advert, i != 1);
    }
    assert_int_equal(keys[0], keys[1]);
    assert_int_not_equal(keys[1], keys[2]);
    assert_int_equal(keys[2], keys[3]);
    fixture->ops->conn_destroy(conn);
    fixture_stop(fixture);
}

NIC_TEST(as_many_bytes_are_inline_as_the_device_takes)
{
    static const uint32_t sizes[][2] = {{956, 256}, {101, 101}, {96, 96}, {64, 64}, {0, 0}};

    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct fixture *fixture = *state;
        nic_traits_of("nic0")->max_inline = sizes[i][0];
        fixture_start(fixture, LISTEN, LISTEN);
        fixture->ops->conn_destroy(connect_to(fixture, 0));
        assert_int_equal(nic_last_inline(), sizes[i][1]);
        fixture_stop(fixture);
        memset(fixture, 0, sizeof *fixture);
    }
}

NIC_TEST(a_gid_is_found_behind_many)
{
    struct fixture *fixture = *state;

    nic_traits_of("nic0")->foreign_gids = 200;
    fixture_start(fixture, LISTEN, LISTEN);
    assert_non_null(strstr(fixture->listener->how, "GID 200 ::ffff:192.0.2.1 (RoCE v2)"));
    fixture_stop(fixture);
}

NIC_TEST(a_region_beyond_the_device_is_refused_before_it_is_registered)
{
    nic_traits_of("nic0")->attr.max_mr_size = 1u << 20;
    nic_refuse(NIC_REG_MR, ENOMEM, 1);
    assert_non_null(strstr(refused(OKV_EUNSUPPORTED),
                           "has 2 MiB, and nic0 registers at most 1 MiB as one region"));
}

NIC_TEST(memory_that_cannot_be_pinned_is_told)
{
    struct rlimit usual, low;

    assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &usual), 0);
    low = (struct rlimit){.rlim_cur = 65536, .rlim_max = usual.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &low), 0);
    nic_refuse(NIC_REG_MR, ENOMEM, 1);
    assert_non_null(strstr(refused(OKV_EPERM), "a database counts once for each listener"));
    assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &usual), 0);
}

NIC_TEST(iwarp_is_called_by_its_name)
{
    nic_traits_of("nic0")->transport = IBV_TRANSPORT_IWARP;
    assert_non_null(
        strstr(refused(OKV_EUNSUPPORTED), "nic0 speaks iWARP, which okv does not: use"));
}

NIC_TEST(a_failed_accept_leaves_nothing_behind)
{
    struct fixture *fixture = *state;

    fixture_start(fixture, LISTEN, LISTEN);
    nic_refuse(NIC_ACCEPT, EPERM, 1);
    connect_to(fixture, OKV_EREFUSED);
    fixture->ops->conn_destroy(connect_to(fixture, 0));
    assert_true(fixture_is_empty(fixture));
    fixture_stop(fixture);
}

NIC_TEST(a_device_without_thread_domains_goes_without)
{
    struct fixture *fixture = *state;

    nic_traits_of("nic0")->has_no_thread_domains = true;
    fixture_start(fixture, LISTEN, LISTEN);
    fixture->ops->conn_destroy(connect_to(fixture, 0));
    fixture_stop(fixture);
}

NIC_TEST(packets_carry_the_traffic_class)
{
    struct fixture *fixture = *state;

    fixture_start(fixture, LISTEN, LISTEN "?tos=106");
    struct okv_conn *conn = connect_to(fixture, 0);
    assert_non_null(strstr(conn->how, ", traffic class 106"));
    fixture->ops->conn_destroy(conn);
    fixture_stop(fixture);
}

/* Interrupts of all workers on one processor would make it the limit. */
NIC_TEST(endpoints_have_vectors_of_their_own)
{
    struct fixture *fixture = *state;
    const struct okv_message_limits limits = {.slot_size = 1000, .credits = 4};
    struct okv_endpoint *endpoints[3];

    fixture_start(fixture, LISTEN, LISTEN);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(
            fixture->ops->endpoint_create(fixture->listener, &limits, 16, &endpoints[i], NULL), 0);
        assert_int_equal(nic_last_vector(), i + 1); /* the fixture has the first */
    }
    for (unsigned i = 0; i < 3; i++)
        fixture->ops->endpoint_destroy(endpoints[i]);
    fixture_stop(fixture);
}
