#include "tests/support/bare_client.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/transport/transport.h"
#include "tests/support/pace.h"

/* The bytes that local.h defines on the wire, repeated so that a change is noticed. */
#define MAGIC 0x4c766b6fu
#define WELCOME 1u
#define BELL 0x42766b6fu

/* A wait that takes longer fails its test. Not a measure of speed. */

void bare_connect(struct bare_client *client, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_true(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    *client = (struct bare_client){
        .sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), .region = -1, .values = -1};
    assert_true(client->sock >= 0);
    assert_int_equal(connect(client->sock, (struct sockaddr *)&address, sizeof address), 0);
}

void bare_packet(struct bare_client *client, const void *bytes, size_t length)
{
    assert_int_equal(send(client->sock, bytes, length, MSG_NOSIGNAL), length);
}

void bare_hello(struct bare_client *client, const void *hello, size_t length)
{
    uint8_t frame[4 + OKV_HELLO_MAX];

    assert_true(length <= OKV_HELLO_MAX);
    okv_put_u32(frame, MAGIC);
    if (length > 0)
        memcpy(frame + 4, hello, length);
    bare_packet(client, frame, 4 + length);
}

static void await_packet(const struct bare_client *client)
{
    struct pollfd watched = {.fd = client->sock, .events = POLLIN};

    assert_int_equal(poll(&watched, 1, PACE_GUARD_MS), 1);
}

size_t bare_take_answer(struct bare_client *client, uint8_t *welcome, size_t size, int *rings)
{
    uint8_t header[8];
    int fds[3];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof fds)];
    } control;
    struct iovec vectors[2] = {{header, sizeof header}, {welcome, size}};
    struct msghdr message = {.msg_iov = vectors,
                             .msg_iovlen = 2,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};

    await_packet(client);
    ssize_t got = recvmsg(client->sock, &message, MSG_CMSG_CLOEXEC);
    assert_true(got >= (ssize_t)sizeof header);
    assert_int_equal(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC), 0);
    assert_int_equal(okv_get_u32(header), MAGIC);
    assert_int_equal(okv_get_u32(header + 4), WELCOME);
    const struct cmsghdr *passed = CMSG_FIRSTHDR(&message);
    assert_non_null(passed);
    assert_int_equal(passed->cmsg_len, CMSG_LEN(sizeof fds));
    memcpy(fds, CMSG_DATA(passed), sizeof fds);
    client->region = fds[0];
    *rings = fds[1];
    client->values = fds[2];
    return (size_t)got - sizeof header;
}

size_t bare_take_welcome(struct bare_client *client, uint8_t *welcome, size_t size)
{
    int rings;
    size_t length = bare_take_answer(client, welcome, size, &rings);

    assert_int_equal(okv_local_ring_map(rings, &client->ring), 0);
    close(rings);
    return length;
}

void bare_close(struct bare_client *client)
{
    okv_local_ring_unmap(&client->ring);
    int *const fds[] = {&client->sock, &client->region, &client->values};
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

void bare_bell(struct bare_client *client)
{
    uint8_t packet[4];

    okv_put_u32(packet, BELL);
    /* The server may have polled the ring and ended the connection before the bell. */
    if (send(client->sock, packet, sizeof packet, MSG_NOSIGNAL) != sizeof packet)
        assert_true(errno == EPIPE || errno == ECONNRESET);
}

bool bare_try_send(struct bare_client *client, const void *bytes, uint32_t length,
                   uint32_t immediate)
{
    if (okv_local_ring_put(&client->ring, bytes, length, immediate))
        return false;
    if (okv_local_ring_publish(&client->ring))
        bare_bell(client);
    return true;
}

void bare_send(struct bare_client *client, const void *bytes, uint32_t length, uint32_t immediate)
{
    assert_true(bare_try_send(client, bytes, length, immediate));
}

uint32_t bare_receive(struct bare_client *client, uint8_t *to, uint32_t size, uint32_t *immediate)
{
    uint64_t end = pace_guard_end();
    uint32_t length = 0;
    int status;

    while ((status = okv_local_ring_take(&client->ring, to, size, &length, immediate)) == 0) {
        assert_true(okv_clock_ns() < end);
        poll(NULL, 0, 1);
    }
    assert_int_equal(status, 1);
    if (okv_local_ring_release(&client->ring))
        bare_bell(client);
    return length;
}

bool bare_has_ended(struct bare_client *client)
{
    uint8_t byte;
    ssize_t got;

    do {
        got = recv(client->sock, &byte, 1, MSG_DONTWAIT);
    } while (got > 0);
    return got == 0 || errno == ECONNRESET;
}

void bare_expect_end(struct bare_client *client)
{
    uint64_t end = pace_guard_end();

    while (!bare_has_ended(client)) {
        assert_true(okv_clock_ns() < end);
        poll(NULL, 0, 1);
    }
}
