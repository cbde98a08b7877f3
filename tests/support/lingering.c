#include "tests/support/lingering.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/transport/local/packet.h"
#include "tests/support/pace.h"

#define LINGER_S 3600
#define DESCRIPTORS_MAX 8u

void lingering_open(struct lingering *lingering)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger linger = {.l_onoff = 1, .l_linger = LINGER_S};
    static const char bytes[65536];
    socklen_t size = sizeof address;
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(listening, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&address, &size), 0);
    lingering->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(lingering->fd, (struct sockaddr *)&address, size), 0);
    lingering->peer = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    assert_true(lingering->peer >= 0);
    close(listening);
    while (send(lingering->fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(setsockopt(lingering->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
}

void lingering_leave(struct lingering *lingering)
{
    close(lingering->fd);
    lingering->fd = -1;
}

void lingering_end(struct lingering *lingering)
{
    close(lingering->peer); /* with bytes unread: a reset */
    if (lingering->fd >= 0)
        close(lingering->fd);
}

bool descriptors_send(int sock, const void *bytes, size_t length, const int *fds, unsigned count)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(DESCRIPTORS_MAX * sizeof *fds)];
    } control = {0};
    struct iovec vector = {(void *)bytes, length};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = CMSG_SPACE(count * sizeof *fds)};

    assert_in_range(count, 1, DESCRIPTORS_MAX);
    control.header.cmsg_level = SOL_SOCKET;
    control.header.cmsg_type = SCM_RIGHTS;
    control.header.cmsg_len = CMSG_LEN(count * sizeof *fds);
    memcpy(CMSG_DATA(&control.header), fds, count * sizeof *fds);
    return sendmsg(sock, &message, MSG_NOSIGNAL) == (ssize_t)length;
}

void descriptors_allow(int listening)
{
    const int on = 1;

    /* A kernel without the option always takes them. */
    if (setsockopt(listening, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof on))
        assert_int_equal(errno, ENOPROTOOPT);
}

unsigned threads_running(void)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned count = 0;

    assert_non_null(tasks);
    while (readdir(tasks))
        count++;
    closedir(tasks);
    return count;
}

void threads_expect(unsigned before)
{
    uint64_t end = pace_guard_end();

    while (threads_running() > before) {
        assert_true(okv_clock_ns() < end);
        poll(NULL, 0, 1);
    }
}

void hang_guard(bool on)
{
    alarm(on ? PACE_GUARD_MS / 1000 : 0);
}
