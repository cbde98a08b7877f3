#include "tests/support/resp_fixture.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/clients/client_table.h"
#include "server/core/certificates.h"
#include "server/resp/net/listen.h"
#include "server/resp/resp.h"
#include "server/resp/run/client_list.h"
#include "server/resp/run/listing.h"
#include "server/resp/run/login.h"
#include "server/resp/run/run.h"
#include "server/resp/run/shared.h"
#include "server/resp/run/transaction.h"
#include "shared/base/error.h"

#define PASSES 20000u /* that are enough for anything that no thread does */

void resp_fixture_open(struct resp_fixture *fixture, const struct okv_store_params *params)
{
    resp_fixture_open_with(fixture, params, NULL);
}

void resp_fixture_open_with(struct resp_fixture *fixture, const struct okv_store_params *params,
                            void (*configure)(struct okv_server *server))
{
    memset(fixture, 0, sizeof *fixture);
    server_core_open(&fixture->core, params);
    server_core_open_second(&fixture->core, params);
    struct okv_server *server = fixture->core.server;
    for (unsigned i = 0; i < server->database_count; i++)
        fixture->executors[i] =
            (struct okv_executor){server, &server->databases[i], &fixture->core.works[i]};
    server->config.workers = 1;
    server->workers = &fixture->worker;
    fixture->worker.server = server;
    fixture->worker.resp = &fixture->resp;
    server->worker_signals[0].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (configure)
        configure(server);
    assert_int_equal(okv_resp_open(server, NULL), 0);
    server->exclusive = &server->resp_shared->exclusive; /* as if it had opened one */
    assert_int_equal(okv_resp_init(fixture->worker.resp, server, 0, fixture->executors, NULL), 0);
}

void resp_fixture_close(struct resp_fixture *fixture)
{
    okv_resp_stop(fixture->core.server);
    okv_resp_fini(fixture->worker.resp);
    assert_true(TAILQ_EMPTY(&fixture->core.server->clients->lists[OKV_CLIENT_RESP]));
    okv_resp_close(fixture->core.server);
    okv_certificates_close(fixture->core.server);
    close(fixture->core.server->worker_signals[0].fd);
    server_core_close(&fixture->core);
}

void resp_fixture_pass(struct resp_fixture *fixture, uint64_t ms)
{
    struct okv_server *server = fixture->core.server;

    for (unsigned i = 0; i < server->database_count; i++) {
        struct okv_store *store = &server->databases[i].store;
        okv_store_set_clock(store, atomic_load(&store->clock_ms) + ms, true);
    }
}

/* ---- without a socket ---- */

struct okv_resp_client *resp_fixture_client(struct resp_fixture *fixture)
{
    struct okv_resp_client *client = calloc(1, sizeof *client);

    assert_non_null(client);
    client->resp = fixture->worker.resp;
    client->stream.fd = -1;
    client->protocol = 2;
    okv_resp_login_begin(client);
    return client;
}

void resp_fixture_end(struct okv_resp_client *client)
{
    okv_resp_transaction_drop(client);
    okv_resp_listing_destroy(client);
    okv_resp_parser_fini(&client->parser);
    okv_resp_buffer_fini(&client->in);
    okv_resp_buffer_fini(&client->out);
    okv_resp_buffer_fini(&client->text);
    okv_resp_buffer_fini(&client->bitop.versions);
    free(client);
}

/* How long something ran alone depends on the machine. No test is to wait four times as long. */
static void end_rest(struct okv_exclusive *exclusive)
{
    atomic_store(&exclusive->rest_ns, 0);
}

const char *resp_fixture_call(struct okv_resp_client *client, const char *line)
{
    struct okv_exclusive *exclusive = client->resp->server->exclusive;
    struct okv_resp_parser *parser = &client->parser;

    okv_resp_parser_reset(parser);
    client->in.used = client->out.used = 0;
    okv_resp_buffer_add(&client->in, line, strlen(line));
    okv_resp_buffer_add(&client->in, "\n", 1);
    int rc = 0;
    while (rc == 0) {
        rc = okv_resp_parse(parser, client->in.bytes, client->in.used);
        assert_true(rc == 1 || parser->has_more);
    }
    uint64_t ticket = 0;
    assert_true(okv_exclusive_share(exclusive, &ticket));
    end_rest(exclusive);
    do {
        okv_turn_begin(&client->resp->turn);
        rc = okv_resp_run(client, parser->args, parser->count);
    } while (rc == OKV_RESP_GOES_ON);
    okv_exclusive_unshare(exclusive);
    okv_resp_buffer_add(&client->out, "", 1);
    assert_true(rc == 0 || (rc == OKV_EAGAIN && client->out.used == 1));
    return rc ? NULL : (const char *)client->out.bytes;
}

/* ---- with one ---- */

int resp_fixture_connect(struct resp_fixture *fixture)
{
    struct okv_resp_client *client = calloc(1, sizeof *client);
    int fds[2];

    assert_non_null(client);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    client->stream.fd = fds[0];
    client->id = ++fixture->core.server->resp_shared->last_id;
    okv_resp_assign(fixture->worker.resp, client);
    return fds[1];
}

bool resp_fixture_poll(struct resp_fixture *fixture)
{
    bool is_held_up = false;

    end_rest(fixture->core.server->exclusive);
    okv_resp_poll(fixture->worker.resp, &is_held_up);
    return is_held_up;
}

void resp_fixture_say(int fd, const char *bytes)
{
    assert_int_equal(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL), strlen(bytes));
}

void resp_fixture_hear_bytes(struct resp_fixture *fixture, int fd, uint8_t *bytes, size_t length)
{
    size_t got = 0;

    for (unsigned passes = 0; got < length; passes++) {
        assert_true(passes < PASSES);
        resp_fixture_poll(fixture);
        ssize_t n = recv(fd, bytes + got, length - got, MSG_DONTWAIT);
        assert_true(n > 0 || (n < 0 && errno == EAGAIN));
        got += n > 0 ? (size_t)n : 0;
    }
}

void resp_fixture_hear(struct resp_fixture *fixture, int fd, const char *expected)
{
    uint8_t bytes[1024];

    assert_true(strlen(expected) <= sizeof bytes);
    resp_fixture_hear_bytes(fixture, fd, bytes, strlen(expected));
    assert_memory_equal(bytes, expected, strlen(expected));
}

void resp_fixture_hear_nothing(struct resp_fixture *fixture, int fd)
{
    uint8_t byte;

    for (unsigned i = 0; i < 50; i++)
        resp_fixture_poll(fixture);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

void resp_fixture_leave(struct resp_fixture *fixture, int fd)
{
    struct okv_resp *resp = fixture->worker.resp;
    unsigned before = atomic_load(&resp->clients);

    close(fd);
    for (unsigned i = 0; i < 10; i++)
        resp_fixture_poll(fixture);
    assert_int_equal(atomic_load(&resp->clients), before - 1);
}

void resp_fixture_hear_end(struct resp_fixture *fixture, int fd)
{
    uint8_t byte;
    ssize_t n = -1;

    for (unsigned i = 0; n < 0 && i < 50; i++) {
        resp_fixture_poll(fixture);
        n = recv(fd, &byte, 1, MSG_DONTWAIT);
        assert_true(n == 0 || (n < 0 && (errno == EAGAIN || errno == ECONNRESET)));
        if (n < 0 && errno == ECONNRESET)
            break;
    }
    assert_true(n == 0 || errno == ECONNRESET);
    close(fd);
}
