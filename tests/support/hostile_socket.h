/* A client on the bare Unix socket of a local server; each call fails the test
 * when the socket will not have it. */
#ifndef OKV_TESTS_HOSTILE_SOCKET_H
#define OKV_TESTS_HOSTILE_SOCKET_H

#include <stddef.h>

#include "tests/support/server_process.h"

/* A connected socket that has said nothing yet. */
int hostile_socket_connect(const struct server_process *server);
/* A connected socket whose hello was answered with a welcome. */
int hostile_socket_join(const struct server_process *server);
/* One packet of these bytes. */
void hostile_socket_send(int sock, const void *bytes, size_t length);
/* Waits until the server has ended the connection without a further word, and closes the socket. */
void hostile_socket_expect_end(int sock);

#endif
