/* The state of tests with a server and a handle on it. */
#ifndef OKV_TESTS_SERVER_FIXTURE_H
#define OKV_TESTS_SERVER_FIXTURE_H

#include "tests/support/server_process.h"

struct server_fixture {
    struct server_process server;
    okv *handle;
};

/* Setup: starts a server with these arguments and connects. Sets `*state`. */
int server_fixture_start(void **state, const char *const *arguments);
/* Teardown: fails when the server does not end with status 0. */
int server_fixture_stop(void **state);

okv *handle_of(void **state);

#endif
