/*
 * Servers of the local transport: the seals of the region, and their files.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/transport_steps.h"

/* ---- the region ---- */

TEST(the_region_is_sealed)
{
    struct fixture *fixture = *state;
    int fd = fixture->region_fd;
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

    /* clients get another descriptor of this memory */
    assert_int_equal(fcntl(fd, F_GET_SEALS) & wanted, wanted);
    assert_ptr_equal(mmap(NULL, FIXTURE_REGION, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
                     MAP_FAILED);
    uint8_t *map = mmap(NULL, FIXTURE_REGION, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map, FIXTURE_REGION, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(madvise(map, FIXTURE_REGION, MADV_REMOVE), -1);
    munmap(map, FIXTURE_REGION);
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(ftruncate(fd, 2 * FIXTURE_REGION), -1);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
}

/* The descriptor that clients get can neither be written to nor have memory allocated, and nobody
 * but its owner can make one of it that can. */
TEST(clients_may_only_read_the_region)
{
    struct fixture *fixture = *state;
    struct bare_client client;
    uint8_t hello[FIXTURE_HELLO] = {FIXTURE_ACCEPT}, welcome[OKV_WELCOME_MAX];
    struct stat file;

    for (unsigned i = 1; i < FIXTURE_HELLO; i++)
        hello[i] = fixture_hello_byte(i);
    bare_connect(&client, fixture->connect_uri.path);
    bare_hello(&client, hello, sizeof hello);
    bare_take_welcome(&client, welcome, sizeof welcome);
    assert_int_equal(fcntl(client.region, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_int_equal(fallocate(client.region, 0, 0, 4096), -1);
    assert_int_equal(fstat(client.region, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0400);
    bare_close(&client);
    assert_true(fixture_is_empty(fixture));
}

TEST(a_region_larger_than_its_memory_is_refused)
{
    struct fixture *fixture = *state;
    struct okv_conn *conn = fixture_connect(fixture);

    assert_int_equal(fixture->ops->set_remote(conn, 0, FIXTURE_REGION + 1, 0), OKV_EPROTO);
    assert_int_equal(fixture->ops->set_remote(conn, 0, UINT64_MAX, 0), OKV_EPROTO);
    assert_int_equal(fixture->ops->set_remote(conn, 0, 0, 0), OKV_EPROTO);
    assert_int_equal(fixture->ops->set_remote(conn, 0, FIXTURE_REGION, 0), 0);
    fixture->ops->conn_destroy(conn);
    assert_true(fixture_is_empty(fixture));
}

/* Buffers that were not given back when their client went away may be all there
 * are; the next client is served as soon as one is. */
TEST(buffers_of_a_client_that_is_gone_come_back)
{
    const struct fixture *fixture = *state;
    const struct okv_message_limits limits = {64, 1};
    struct steps steps;
    struct okv_event held[2], event;
    struct bare_client first, second;
    struct okv_conn *conn;

    steps_start(&steps, fixture, &limits);
    steps_let_in(&steps, 3, &first, &conn);
    assert_int_equal(steps.ops->poll(steps.endpoint, held, 2), 2);
    assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 0);
    steps.ops->close(conn);
    assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    steps.ops->conn_destroy(conn);

    steps_let_in(&steps, 1, &second, &conn);
    assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 0);
    steps.ops->recv_release(steps.endpoint, &held[1]);
    assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_RECV);
    assert_ptr_equal(event.conn, conn);
    steps.ops->recv_release(steps.endpoint, &event);
    steps.ops->recv_release(steps.endpoint, &held[0]);
    bare_close(&first);
    bare_close(&second);
    steps_stop(&steps);
}

/* ---- the files ---- */

static void assert_no_listen(const struct fixture *fixture, const char *path, int status,
                             const char *says)
{
    struct okv_listener *listener;
    struct okv_diag diag = {""};

    assert_int_equal(steps_listen(fixture, path, &listener, &diag), status);
    if (!strstr(diag.text, says))
        fail_msg("\"%s\" does not say \"%s\"", diag.text, says);
}

TEST(a_path_has_one_server)
{
    struct fixture *fixture = *state;

    assert_no_listen(fixture, fixture->listen_uri.path, OKV_EAGAIN, "already listens");
}

TEST(a_path_in_the_way_stays)
{
    struct fixture *fixture = *state;
    char path[128];
    struct stat file;

    snprintf(path, sizeof path, "%s/none/okv.sock", fixture->directory);
    assert_no_listen(fixture, path, OKV_EADDRESS, "does not exist");

    snprintf(path, sizeof path, "%s/taken", fixture->directory);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_no_listen(fixture, path, OKV_EADDRESS, "not a socket");
    assert_int_equal(stat(path, &file), 0);
    unlink(path);

    /* somebody else's, and alive */
    struct sockaddr_un address = steps_address(path);
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(sock, 1), 0);
    assert_no_listen(fixture, path, OKV_EADDRESS, "another program");
    assert_int_equal(stat(path, &file), 0);
    close(sock);
    unlink(path);
}

TEST(a_dead_servers_path_is_taken_over)
{
    struct fixture *fixture = *state;
    struct okv_listener *listener;
    struct okv_diag diag = {""};
    char path[128], lock[160];

    snprintf(path, sizeof path, "%s/stale", fixture->directory);
    snprintf(lock, sizeof lock, "%s.lock", path);
    struct sockaddr_un address = steps_address(path);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof address), 0);
    close(sock);
    close(open(lock, O_CREAT | O_WRONLY, 0600));

    if (steps_listen(fixture, path, &listener, &diag))
        fail_msg("%s", diag.text);
    fixture->ops->unlisten(listener);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(access(lock, F_OK), -1);
}

TEST(another_socket_at_the_path_is_left_alone)
{
    struct fixture *fixture = *state;
    struct okv_listener *listener;
    char path[128];

    snprintf(path, sizeof path, "%s/moved", fixture->directory);
    assert_int_equal(steps_listen(fixture, path, &listener, NULL), 0);
    assert_string_equal(listener->where + strlen("local://"), path);
    int keep = open(path, O_PATH | O_CLOEXEC); /* so that its inode number is not used again */
    unlink(path);
    struct sockaddr_un address = steps_address(path);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof address), 0);
    /* nobody answers there, but our server still holds the path */
    assert_no_listen(fixture, path, OKV_EAGAIN, "already listens");
    fixture->ops->unlisten(listener);
    assert_int_equal(access(path, F_OK), 0);
    close(keep);
    close(sock);
    unlink(path);
}

TEST(clients_learn_why_they_cannot_connect)
{
    struct fixture *fixture = *state;
    const struct okv_uri uri = fixture->connect_uri;
    struct okv_answer welcome;
    struct okv_conn *conn;
    struct okv_diag diag = {""};
    char path[128];

    snprintf(path, sizeof path, "%s/stale", fixture->directory);
    strcpy(fixture->connect_uri.path, path);
    assert_int_equal(
        fixture_try_connect(fixture, FIXTURE_ACCEPT, fixture_soon(), &welcome, &conn, &diag),
        OKV_EREFUSED);
    assert_non_null(strstr(diag.text, "okv-server --listen local://"));

    struct sockaddr_un address = steps_address(path);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(sock, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(
        fixture_try_connect(fixture, FIXTURE_ACCEPT, fixture_soon(), &welcome, &conn, &diag),
        OKV_EREFUSED);
    assert_non_null(strstr(diag.text, "left from one that ended"));

    /* it listens but accepts nobody: first no answer, then no room in its queue */
    assert_int_equal(listen(sock, 0), 0);
    assert_int_equal(fixture_try_connect(fixture, FIXTURE_ACCEPT, okv_clock_ns() + 50000000u,
                                         &welcome, &conn, &diag),
                     OKV_ETIMEDOUT);
    assert_non_null(strstr(diag.text, "did not answer in time"));
    assert_int_equal(fixture_try_connect(fixture, FIXTURE_ACCEPT, okv_clock_ns() + 50000000u,
                                         &welcome, &conn, &diag),
                     OKV_ETIMEDOUT);
    assert_non_null(strstr(diag.text, "too many clients"));
    close(sock);
    unlink(path);
    fixture->connect_uri = uri;
}

/* A server accepts slowly. Clients beyond its queue try again and get in. */
TEST(a_full_queue_is_tried_again)
{
    enum { QUEUE_MAX = 1000 };
    struct fixture *fixture = *state;
    struct sockaddr_un address = steps_address(fixture->connect_uri.path);
    struct okv_connecting *connecting;
    struct okv_answer welcome;
    struct okv_conn *conn;
    int socks[QUEUE_MAX];
    unsigned count = 0;
    char user[32];
    int status;

    fixture_pause(fixture);
    do {
        assert_true(count < QUEUE_MAX);
        socks[count] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    } while (connect(socks[count++], (struct sockaddr *)&address, sizeof address) == 0);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(
        fixture_start_connect(fixture, FIXTURE_ACCEPT, fixture_soon(), &connecting, NULL), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(fixture->ops->connect_step(connecting, &welcome, &conn, NULL), OKV_EAGAIN);
        assert_int_equal(connecting->fd, -1);
        assert_true(okv_clock_ms_until(connecting->wake_ns) < 100);
    }
    fixture_resume(fixture);
    while ((status = fixture->ops->connect_step(connecting, &welcome, &conn, NULL)) == OKV_EAGAIN) {
        struct pollfd watched = {.fd = connecting->fd, .events = POLLIN};
        poll(&watched, 1, okv_clock_ms_until(connecting->wake_ns));
    }
    assert_int_equal(status, 0);
    atomic_fetch_add(&fixture->connected, 1);
    fixture->ops->conn_destroy(conn);
    while (count > 0)
        close(socks[--count]);
    assert_true(fixture_is_empty(fixture));
    snprintf(user, sizeof user, "uid %u", (unsigned)geteuid());
    assert_string_equal(fixture->address, user);
}

TEST_PROGRAM(fixture_setup_local, fixture_teardown)
