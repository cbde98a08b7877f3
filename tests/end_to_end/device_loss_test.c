/* Devices that go away under a server, come back, and addresses that move to another device: the
 * items stay, other listeners go on, and clients come back by themselves. */
#include "tests/support/test.h"

#include <okv.h>
#include <stdatomic.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/support/nic/nic.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_thread.h"

#define NIC_URI "rdma://192.0.2.1"
#define VALUE "value"

static char directory[] = "/tmp/okv-device-loss-XXXXXX";
static char local_uri[64];
static const char *listen_uri = NIC_URI;

struct scene {
    struct server_thread server;
    okv *by_nic, *by_memory;
};

static okv *connect_to(const char *uri)
{
    char why[256] = "";
    okv *handle = NULL;
    int rc;
    uint64_t end = pace_guard_end();

    /* The server may not listen yet. */
    while ((rc = patient_open(uri, NULL, &handle, why, sizeof why)) == OKV_EREFUSED)
        assert_true(okv_clock_ns() < end);
    if (rc)
        print_message("%s\n", why);
    assert_int_equal(rc, 0);
    return handle;
}

static int begin(void **state)
{
    static struct scene scene;
    const char *const options[] = {"--listen", listen_uri,  "--listen", local_uri, "--memory",
                                   "8M",       "--workers", "2",        "--open",  NULL};

    nic_reset();
    server_thread_start(&scene.server, options);
    scene.by_memory = connect_to(local_uri);
    scene.by_nic = connect_to(NIC_URI);
    *state = &scene;
    return 0;
}

static int end(void **state)
{
    struct scene *scene = *state;

    okv_close(&scene->by_nic);
    okv_close(&scene->by_memory);
    server_thread_stop(&scene->server);
    assert_int_equal(nic_open_objects(), 0);
    return 0;
}

static void put(okv *handle, const char *key)
{
    assert_int_equal(okv_put(handle, key, strlen(key), VALUE, sizeof VALUE, NULL), 0);
}

/* A get may meet the connection that is lost, and is made again then. */
static void expect(okv *handle, const char *key)
{
    char value[64];
    uint64_t end_ns = pace_guard_end();
    size_t length = 0;
    int rc;

    do
        rc = okv_get(handle, key, strlen(key), value, sizeof value, &length, NULL);
    while ((rc == OKV_EDISCONNECTED || rc == OKV_ETIMEDOUT) && okv_clock_ns() < end_ns);
    assert_int_equal(rc, 0);
    assert_int_equal(length, sizeof VALUE);
    assert_memory_equal(value, VALUE, sizeof VALUE);
}

static uint64_t closed_listeners(const struct scene *scene)
{
    return atomic_load(&scene->server.server->stats.listeners_closed);
}

static void wait_for_closed(const struct scene *scene, uint64_t count)
{
    uint64_t end_ns = pace_guard_end();

    while (closed_listeners(scene) != count) {
        assert_true(okv_clock_ns() < end_ns);
        usleep(1000);
    }
}

TEST_WITH(a_lost_device_ends_only_its_own_clients, begin, end)
{
    struct scene *scene = *state;

    put(scene->by_nic, "before");
    nic_remove("nic0");
    wait_for_closed(scene, 1);
    expect(scene->by_memory, "before");
    put(scene->by_memory, "meanwhile");
    nic_add("nic0", "192.0.2.1");
    wait_for_closed(scene, 0);
    expect(scene->by_nic, "before");
    expect(scene->by_nic, "meanwhile");
    put(scene->by_nic, "after");
    expect(scene->by_memory, "after");
}

TEST_WITH(a_server_ends_while_its_device_is_gone, begin, end)
{
    struct scene *scene = *state;

    put(scene->by_nic, "before");
    nic_remove("nic0");
    wait_for_closed(scene, 1);
    expect(scene->by_memory, "before");
}

TEST_WITH(a_device_is_lost_again_and_again, begin, end)
{
    struct scene *scene = *state;

    for (unsigned i = 0; i < 3; i++) {
        put(scene->by_nic, "key");
        nic_remove("nic0");
        wait_for_closed(scene, 1);
        nic_add("nic0", "192.0.2.1");
        wait_for_closed(scene, 0);
        expect(scene->by_nic, "key");
    }
}

TEST_WITH(a_device_that_comes_back_unusable_is_tried_again, begin, end)
{
    struct scene *scene = *state;

    put(scene->by_nic, "key");
    nic_remove("nic0");
    wait_for_closed(scene, 1);
    nic_refuse(NIC_REG_MR, ENOMEM, 1);
    nic_add("nic0", "192.0.2.1");
    wait_for_closed(scene, 0);
    expect(scene->by_nic, "key");
}

/* The connection manager closes a device that is gone with the last id that refers to it. */
TEST_WITH(what_was_of_the_device_is_freed_before_its_context, begin, end)
{
    struct scene *scene = *state;
    okv *other = connect_to(NIC_URI);

    put(scene->by_nic, "key");
    nic_remove("nic0");
    wait_for_closed(scene, 1);
    nic_add("nic0", "192.0.2.1");
    wait_for_closed(scene, 0);
    expect(scene->by_nic, "key"); /* this handle has met the new device, `other` has not */
    okv_close(&other);
}

static int begin_anywhere(void **state)
{
    listen_uri = "rdma://*";
    return begin(state);
}

static int end_anywhere(void **state)
{
    listen_uri = NIC_URI;
    return end(state);
}

/* No event comes for a wildcard without connections. */
TEST_WITH(a_wildcard_notices_by_the_next_client, begin_anywhere, end_anywhere)
{
    struct scene *scene = *state;

    put(scene->by_nic, "key");
    okv_close(&scene->by_nic);
    nic_remove("nic0");
    nic_add("nic0", "192.0.2.1");
    scene->by_nic = connect_to(NIC_URI);
    expect(scene->by_nic, "key");
    assert_true(atomic_load(&scene->server.server->stats.listener_failures) > 0);
}

TEST_WITH(a_listener_follows_its_address, begin, end)
{
    struct scene *scene = *state;

    put(scene->by_nic, "key");
    nic_add("nic1", "192.0.2.2");
    nic_move_address("192.0.2.1", "nic1");
    expect(scene->by_memory, "key");
    uint64_t end_ns = pace_guard_end();
    while (atomic_load(&scene->server.server->stats.listener_failures) == 0) {
        assert_true(okv_clock_ns() < end_ns);
        usleep(1000);
    }
    wait_for_closed(scene, 0);
    expect(scene->by_nic, "key");
}

static int make_directory(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(local_uri, sizeof local_uri, "local://%s/okv.sock", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

TEST_PROGRAM(make_directory, remove_directory)
