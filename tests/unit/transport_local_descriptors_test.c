/*
 * Clients of the local transport that pass descriptors where none belong. The last close of these
 * takes longer than anybody waits: a server that closes one hangs, and the guard ends the test.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/local/local.h"
#include "shared/transport/local/packet.h"
#include "tests/support/lingering.h"
#include "tests/support/transport_steps.h"

#define BELL "okvB"

/* A server, and what was open and running before it. */
struct scene {
    struct steps steps;
    unsigned descriptors, threads;
};

static const struct okv_message_limits limits = {64, 4};

static void scene_start(struct scene *scene, void **state)
{
    hang_guard(true);
    scene->descriptors = steps_open_descriptors();
    scene->threads = threads_running();
    steps_start(&scene->steps, *state, &limits);
    /* What the kernel refuses nobody has to bear; older kernels refuse nothing. */
    descriptors_allow(okv_local_listener(scene->steps.listener)->pending.sock);
}

/* Nothing is left of what the clients did. */
static void scene_stop(struct scene *scene)
{
    steps_stop(&scene->steps);
    steps_expect_descriptors(scene->descriptors);
    threads_expect(scene->threads);
    hang_guard(false);
}

static void connect_to(const struct scene *scene, struct bare_client *client)
{
    bare_connect(client, scene->steps.listener->where + strlen("local://"));
}

/* A packet with a lingering descriptor, which is the client's no more. */
static void send_lingering(const struct bare_client *client, const void *bytes, size_t length)
{
    struct lingering lingering;

    lingering_open(&lingering);
    assert_true(descriptors_send(client->sock, bytes, length, &lingering.fd, 1));
    lingering_leave(&lingering);
    /* its peer stays, so that it does linger; the program's end closes it */
}

static void expect_closed(const struct scene *scene, struct okv_conn *conn, int status)
{
    struct okv_event event;

    assert_true(fixture_wait(scene->steps.endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_equal(event.status, status);
    scene->steps.ops->conn_destroy(conn);
}

/* The server serves another client. */
static void expect_service(struct scene *scene)
{
    struct bare_client client;
    struct okv_conn *conn;

    steps_let_in(&scene->steps, 0, &client, &conn);
    bare_close(&client);
    expect_closed(scene, conn, OKV_EDISCONNECTED);
}

TEST(a_hello_with_a_descriptor_is_dropped)
{
    uint8_t hello[4];
    struct okv_request *request;
    struct bare_client client;
    struct scene scene;

    okv_put_u32(hello, OKV_LOCAL_MAGIC);
    scene_start(&scene, state);
    for (size_t length = 0; length <= sizeof hello; length += sizeof hello) {
        connect_to(&scene, &client);
        send_lingering(&client, hello, length);
        assert_int_equal(scene.steps.ops->next_request(scene.steps.listener, &request), 0);
        bare_expect_end(&client);
        bare_close(&client);
        expect_service(&scene);
    }
    scene.descriptors += 2; /* the peers of what lingers */
    scene_stop(&scene);
}

/* Behind the hello, before the server has accepted. */
TEST(a_rejected_client_may_leave_descriptors)
{
    struct okv_request *request;
    struct bare_client client;
    struct scene scene;

    scene_start(&scene, state);
    connect_to(&scene, &client);
    bare_hello(&client, NULL, 0);
    send_lingering(&client, BELL, 4);
    assert_int_equal(scene.steps.ops->next_request(scene.steps.listener, &request), 1);
    scene.steps.ops->reject(request, (const uint8_t *)"no", 2);
    expect_service(&scene);
    bare_close(&client);
    scene.descriptors++;
    scene_stop(&scene);
}

/* After the welcome: where a bell may be, and where the server comes to look for none. */
TEST(packets_with_descriptors_end_their_connection)
{
    struct okv_conn *conn;
    struct bare_client client;
    struct scene scene;

    scene_start(&scene, state);
    for (size_t length = 0; length <= 4; length += 4) {
        steps_let_in(&scene.steps, 0, &client, &conn);
        send_lingering(&client, BELL, length);
        expect_closed(&scene, conn, OKV_EPROTO);
        bare_close(&client);

        /* A thread that closes has a copy of the descriptors of this process, clients' among them.
         */
        threads_expect(scene.threads);
        steps_let_in(&scene.steps, 0, &client, &conn);
        send_lingering(&client, BELL, length);
        bare_close(&client); /* the end counts at once */
        expect_closed(&scene, conn, OKV_EDISCONNECTED);

        steps_let_in(&scene.steps, 0, &client, &conn);
        bare_packet(&client, "", 0);
        send_lingering(&client, BELL, length);
        scene.steps.ops->close(conn);
        expect_closed(&scene, conn, OKV_EDISCONNECTED);
        bare_close(&client);
        expect_service(&scene);
    }
    scene.descriptors += 6;
    scene_stop(&scene);
}

/* Sockets that nobody has accepted belong to the listening one. */
TEST(a_server_that_ends_waits_for_nobody)
{
    enum { CLIENTS = 3 };
    struct bare_client clients[CLIENTS];
    struct okv_request *request;
    struct scene scene;

    scene_start(&scene, state);
    connect_to(&scene, &clients[0]);
    assert_int_equal(scene.steps.ops->next_request(scene.steps.listener, &request), 0);
    for (unsigned i = 1; i < CLIENTS; i++)
        connect_to(&scene, &clients[i]);
    for (unsigned i = 0; i < CLIENTS; i++) /* the first is accepted and has sent no hello */
        send_lingering(&clients[i], BELL, 4);
    scene.descriptors += CLIENTS + CLIENTS;
    scene_stop(&scene);
    for (unsigned i = 0; i < CLIENTS; i++) {
        bare_expect_end(&clients[i]);
        bare_close(&clients[i]);
    }
}

/* A client may have as many as it likes; each costs the server a moment. */
TEST(many_descriptors_leave_nothing_behind)
{
    enum { CLIENTS = 20 };
    struct okv_request *request;
    struct bare_client client;
    struct scene scene;

    scene_start(&scene, state);
    for (unsigned i = 0; i < CLIENTS; i++) {
        connect_to(&scene, &client);
        send_lingering(&client, BELL, 4);
        assert_int_equal(scene.steps.ops->next_request(scene.steps.listener, &request), 0);
        bare_close(&client);
    }
    scene.descriptors += CLIENTS;
    scene_stop(&scene);
}

/* Bytes of unread packets that a socket has sent. */
static int unread(const struct bare_client *client)
{
    int bytes;

    assert_int_equal(ioctl(client->sock, SIOCOUTQ, &bytes), 0);
    return bytes;
}

/* A client that rings without end takes no more of a server's pass than any other. */
TEST(a_pass_receives_one_packet)
{
    enum { BELLS = 10, POLLS = 100 };
    struct okv_conn *conn;
    struct bare_client client;
    struct okv_event event;
    struct scene scene;

    scene_start(&scene, state);
    steps_let_in(&scene.steps, 0, &client, &conn);
    for (unsigned i = 0; i < BELLS; i++)
        bare_bell(&client);
    int all = unread(&client);
    for (unsigned left = BELLS; left > 0; left--) {
        assert_int_equal(unread(&client), all / BELLS * (int)left);
        int before = unread(&client);
        for (unsigned i = 0; i < POLLS && unread(&client) == before; i++)
            assert_int_equal(scene.steps.ops->poll(scene.steps.endpoint, &event, 1), 0);
    }
    assert_int_equal(unread(&client), 0);
    bare_close(&client);
    expect_closed(&scene, conn, OKV_EDISCONNECTED);
    scene_stop(&scene);
}

/* From the connect on, where the kernel can. */
TEST(the_kernel_refuses_descriptors)
{
    const int fd = STDIN_FILENO;
    int allowed = 1;
    socklen_t size = sizeof allowed;
    struct okv_conn *conn;
    struct bare_client client;
    struct steps steps;

    steps_start(&steps, *state, &limits);
    int sock = okv_local_listener(steps.listener)->pending.sock;
    if (getsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &allowed, &size)) {
        steps_stop(&steps);
        skip();
    }
    assert_int_equal(allowed, 0);
    bare_connect(&client, steps.listener->where + strlen("local://"));
    assert_false(descriptors_send(client.sock, BELL, 4, &fd, 1));
    bare_close(&client);
    steps_let_in(&steps, 0, &client, &conn);
    assert_false(descriptors_send(client.sock, BELL, 4, &fd, 1));
    bare_close(&client);
    steps_stop(&steps);
}

TEST_PROGRAM(fixture_setup_local, fixture_teardown)
