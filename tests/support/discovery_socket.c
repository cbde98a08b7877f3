#include "tests/support/discovery_socket.h"

#include <dirent.h>
#include <unistd.h>

#include "tests/support/test.h"
#include <arpa/inet.h>

#include "shared/discovery/discovery.h"

void discovery_group(char group[OKV_GROUP_SIZE])
{
    unsigned pid = (unsigned)getpid();

    snprintf(group, OKV_GROUP_SIZE, "239.%u.%u.%u", 128 + (pid >> 16) % 64, pid >> 8 & 255,
             pid & 255);
}

struct sockaddr_in discovery_address(const char *group)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(OKV_DISCOVERY_PORT)};

    assert_int_equal(inet_pton(AF_INET, group, &address.sin_addr), 1);
    return address;
}

int discovery_asker(void)
{
    const struct ip_mreqn loopback = {.imr_address = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &loopback, sizeof loopback), 0);
    return fd;
}

int discovery_listener(const char *group)
{
    const struct sockaddr_in address = discovery_address(group);
    const struct ip_mreqn membership = {.imr_multiaddr = address.sin_addr,
                                        .imr_address = {htonl(INADDR_LOOPBACK)}};
    const int one = 1;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &membership, sizeof membership),
                     0);
    return fd;
}

unsigned discovery_open_descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}
