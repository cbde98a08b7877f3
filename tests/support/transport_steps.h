/*
 * A server of the local transport that the test drives step by step, for bare clients. It uses the
 * region of a fixture.
 */
#ifndef OKV_TESTS_TRANSPORT_STEPS_H
#define OKV_TESTS_TRANSPORT_STEPS_H

#include <sys/un.h>

#include "tests/support/bare_client.h"
#include "tests/support/transport_fixture.h"

struct steps {
    const struct okv_transport_ops *ops;
    struct okv_listener *listener;
    struct okv_endpoint *endpoint;
};

/* Starts one beside the fixture's own, for one connection at a time. */
void steps_start(struct steps *steps, const struct fixture *fixture,
                 const struct okv_message_limits *limits);
/* Every connection must be gone, or closed by the client. */
void steps_stop(struct steps *steps);

/* Accepts a client that sends `count` messages of one byte and receives none. */
void steps_let_in(const struct steps *steps, unsigned count, struct bare_client *client,
                  struct okv_conn **out);

/* The result of listen at `path` with the fixture's region. */
int steps_listen(const struct fixture *fixture, const char *path, struct okv_listener **out,
                 struct okv_diag *diag);

struct sockaddr_un steps_address(const char *path);

/* Descriptors that this process has open. */
unsigned steps_open_descriptors(void);
/* Waits until there are at most `most`: some are closed by a thread of their own. */
void steps_expect_descriptors(unsigned most);

#endif
