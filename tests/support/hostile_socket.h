/* A bare client of a local server (bare_client.h); each call fails the test when it does not go
 * well. */
#ifndef OKV_TESTS_HOSTILE_SOCKET_H
#define OKV_TESTS_HOSTILE_SOCKET_H

#include <stddef.h>

#include "tests/support/bare_client.h"
#include "tests/support/server_process.h"

/* Connects and says nothing yet. */
void hostile_socket_connect(struct bare_client *client, const struct server_process *server);
/* Says hello and takes the welcome, without a look at the rings, whose descriptor is the caller's.
 */
void hostile_socket_ask(struct bare_client *client, int *rings);
/* Connects and has its hello answered with a welcome. */
void hostile_socket_join(struct bare_client *client, const struct server_process *server);
/* One packet of these bytes. */
void hostile_socket_send(struct bare_client *client, const void *bytes, size_t length);
/* Waits until the server has ended the connection without a message, and closes it. */
void hostile_socket_expect_end(struct bare_client *client);

#endif
