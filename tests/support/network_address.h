/* Where this host is on a network. */
#ifndef OKV_TESTS_NETWORK_ADDRESS_H
#define OKV_TESTS_NETWORK_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>

/* The IPv4 address of an interface that is up, has all of `flags` (IFF_MULTICAST and others, or 0)
 * and is not the loopback interface; false: there is none. */
bool network_address(unsigned flags, struct in_addr *out);

#endif
