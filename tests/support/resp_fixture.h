/* RESP clients of a server without threads and listeners: one worker, databases "default" and
 * "second". Each call fails the test when it fails. */
#ifndef OKV_TESTS_RESP_FIXTURE_H
#define OKV_TESTS_RESP_FIXTURE_H

#include "server/resp/run/call.h"
#include "server/resp/run/client.h"
#include "server/worker/worker.h"
#include "tests/support/server_core.h"

struct resp_fixture {
    struct server_core core;
    struct okv_worker worker; /* as far as RESP clients need one */
    struct okv_resp resp;     /* the worker's */
    struct okv_executor executors[SERVER_CORE_DATABASES];
};

/* Tables with `params`; everybody may do everything. */
void resp_fixture_open(struct resp_fixture *fixture, const struct okv_store_params *params);
/* The same, after `configure` has changed the configuration. */
void resp_fixture_open_with(struct resp_fixture *fixture, const struct okv_store_params *params,
                            void (*configure)(struct okv_server *server));
/* Ends clients that have sockets. */
void resp_fixture_close(struct resp_fixture *fixture);
/* The server's clock goes on. */
void resp_fixture_pass(struct resp_fixture *fixture, uint64_t ms);

/* A client without a socket, for okv_resp_run(). */
struct okv_resp_client *resp_fixture_client(struct resp_fixture *fixture);
void resp_fixture_end(struct okv_resp_client *client);
/* Gives it a command, as words of a line. Returns its reply, until the next call; NULL: it has to
 * wait. */
const char *resp_fixture_call(struct okv_resp_client *client, const char *line);

/* Connects a client by a socket pair, and returns the other end. okv_resp_poll() serves it. */
int resp_fixture_connect(struct resp_fixture *fixture);
/* A pass of the worker. Returns whether something waits that no descriptor tells of. */
bool resp_fixture_poll(struct resp_fixture *fixture);

/* ---- what its other end sends and receives, while the worker makes passes ---- */

void resp_fixture_say(int fd, const char *bytes);
void resp_fixture_hear_bytes(struct resp_fixture *fixture, int fd, uint8_t *bytes, size_t length);
void resp_fixture_hear(struct resp_fixture *fixture, int fd, const char *expected);
void resp_fixture_hear_nothing(struct resp_fixture *fixture, int fd);
/* The server ends the connection. */
void resp_fixture_hear_end(struct resp_fixture *fixture, int fd);
/* Closes it; the client is still there. */
void resp_fixture_leave(struct resp_fixture *fixture, int fd);

#endif
