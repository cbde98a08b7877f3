#include "tests/support/own_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>

#include "tests/support/sysfs_tree.h"
#include "tests/support/test.h"

#define MAX 5

struct own_address {
    struct ifaddrs entry;
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } address;
};

static const char *const GIDS[MAX] = {SYSFS_LINK_LOCAL, SYSFS_GLOBAL, SYSFS_MAPPED, SYSFS_MAPPED_2,
                                      SYSFS_GLOBAL_2};
static struct own_address list[MAX];
static struct ifaddrs *real;
static char hidden[64];
static char name[] = "eth1";

void own_addresses_hide(const char *gid)
{
    snprintf(hidden, sizeof hidden, "%s", gid ? gid : "");
}

static void set_address(struct own_address *it, const char *gid)
{
    struct in6_addr raw;

    assert_int_equal(inet_pton(AF_INET6, gid, &raw), 1);
    if (IN6_IS_ADDR_V4MAPPED(&raw)) {
        it->address.in = (struct sockaddr_in){.sin_family = AF_INET};
        memcpy(&it->address.in.sin_addr, &raw.s6_addr[12], 4);
    } else {
        it->address.in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = raw};
    }
    it->entry = (struct ifaddrs){.ifa_name = name, .ifa_addr = &it->address.any};
}

int __real_getifaddrs(struct ifaddrs **out);
int __wrap_getifaddrs(struct ifaddrs **out);
int __wrap_getifaddrs(struct ifaddrs **out)
{
    struct ifaddrs **next = out;

    for (unsigned i = 0; i < MAX; i++) {
        if (strcmp(GIDS[i], hidden) == 0)
            continue;
        set_address(&list[i], GIDS[i]);
        *next = &list[i].entry;
        next = &list[i].entry.ifa_next;
    }
    int rc = __real_getifaddrs(&real);
    *next = rc ? NULL : real;
    return rc;
}

void __real_freeifaddrs(struct ifaddrs *all);
void __wrap_freeifaddrs(struct ifaddrs *all);
void __wrap_freeifaddrs(struct ifaddrs *all)
{
    (void)all;
    __real_freeifaddrs(real);
}
