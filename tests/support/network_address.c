#include "tests/support/network_address.h"

#include <ifaddrs.h>
#include <net/if.h>

static bool is_wanted(const struct ifaddrs *interface, unsigned flags)
{
    return interface->ifa_addr && interface->ifa_addr->sa_family == AF_INET &&
           (interface->ifa_flags & (flags | IFF_UP)) == (flags | IFF_UP) &&
           !(interface->ifa_flags & IFF_LOOPBACK);
}

bool network_address(unsigned flags, struct in_addr *out)
{
    struct ifaddrs *interfaces;
    bool found = false;

    if (getifaddrs(&interfaces))
        return false;
    for (const struct ifaddrs *i = interfaces; i && !found; i = i->ifa_next) {
        found = is_wanted(i, flags);
        if (found)
            *out = ((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
    }
    freeifaddrs(interfaces);
    return found;
}
