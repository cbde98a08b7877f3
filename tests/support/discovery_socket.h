/* UDP sockets on the loopback interface for tests of discovery. Each call fails the test when it
 * fails. */
#ifndef OKV_TESTS_DISCOVERY_SOCKET_H
#define OKV_TESTS_DISCOVERY_SOCKET_H

#include <netinet/in.h>

#include "shared/base/uri.h"

/* A group that no other test uses at this time. */
void discovery_group(char group[OKV_GROUP_SIZE]);
/* The group's address, with the port of discovery. */
struct sockaddr_in discovery_address(const char *group);
/* A socket whose multicasts leave on the loopback interface. */
int discovery_asker(void);
/* A socket that receives what is sent to the group there. */
int discovery_listener(const char *group);
/* Descriptors that this process has open; the count has some more, the same each time. */
unsigned discovery_open_descriptors(void);

#endif
