/*
 * A client that says whatever a test wants, over the transport that the tests
 * run on, and a bystander: a well-behaved one that must not notice.
 */
#ifndef OKV_TESTS_HOSTILE_CLIENT_H
#define OKV_TESTS_HOSTILE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <okv.h>

#include "shared/format/wire.h"
#include "shared/transport/transport.h"
#include "tests/support/server_process.h"

/* What the hostile client may have under way by its own count, whatever the server grants. */
#define HOSTILE_BURST 64u
#define HOSTILE_CREDITS 4u

struct hostile {
    const struct okv_transport_ops *ops;
    struct okv_conn *conn; /* NULL while there is none */
    struct okv_answer answer;
    struct okv_welcome table;
    uint64_t next_sequence;
};

/* A hello that every server accepts, of a client that never was there; it asks for
 * HOSTILE_CREDITS. */
void hostile_hello(struct okv_wire_hello *out);
/* Connects with these bytes as hello; returns what the transport said. */
int hostile_connect(struct hostile *hostile, const struct server_process *server, const void *hello,
                    size_t length);
/* Connects to a server that is stopped (SIGSTOP), with a hello that it would accept, and gives up.
 */
void hostile_give_up(const struct server_process *server);
/* Connects as a good client would; fails the test when the server refuses. */
void hostile_join(struct hostile *hostile, const struct server_process *server);
/* The same with this hello. */
void hostile_join_as(struct hostile *hostile, const struct server_process *server,
                     const struct okv_wire_hello *hello);
/* Ends the connection, if there is one. */
void hostile_leave(struct hostile *hostile);

/* The request slot of the next request, when each takes the one after that of the request before.
 */
static inline uint16_t hostile_request_slot(const struct hostile *hostile)
{
    return (uint16_t)((hostile->next_sequence - 1) % hostile->table.credits);
}

/* Sends the bytes as one message; fails the test when the transport takes them not. */
void hostile_send(struct hostile *hostile, const void *bytes, uint32_t length, uint32_t immediate);
/* Sends a request as it should be, with the next sequence. */
void hostile_request(struct hostile *hostile, const struct okv_request_message *request);
/* Sends one with the sequence that it has. */
void hostile_request_again(struct hostile *hostile, const struct okv_request_message *request);
/* Sends HOSTILE_BURST of them, with the next sequences, or as many as the transport takes; returns
 * how many. `at_once`: by one flush, so that a server meets all of them at the same time; else by
 * one each. */
unsigned hostile_burst(struct hostile *hostile, const struct okv_request_message *request,
                       bool at_once);
/* A PING on request slot 0: whether it was answered, or the connection ended instead. */
bool hostile_ping(struct hostile *hostile);
/* The next event; fails the test when none comes. */
struct okv_event hostile_event(struct hostile *hostile);
/* The next event is a reply to `slot` with `status`. */
void hostile_expect_reply(struct hostile *hostile, uint16_t slot, int status);
/* The next event is the end of the connection. `what` is for people. */
void hostile_expect_closed(struct hostile *hostile, const char *what);

struct bystander {
    struct server_process server;
    okv *handle;
    unsigned rounds;
};

/* Starts a server and connects to it; NULL-terminated arguments of okv-server. */
void bystander_start(struct bystander *bystander, const char *const *arguments);
/* Ends both; returns the server's exit status. */
int bystander_stop(struct bystander *bystander);
/* The same as set-up and tear-down of a group of tests, whose state is the bystander. */
int bystander_setup(void **state);
int bystander_teardown(void **state);
/* The server's process is there, and puts and gets of the bystander work. */
void bystander_check(struct bystander *bystander);
uint64_t bystander_stat(struct bystander *bystander, const char *name);
/* The server's figure `name` becomes `value`. */
void bystander_expect_stat(struct bystander *bystander, const char *name, uint64_t value);

/* What is stored, and what memory it takes. */
struct bystander_holdings {
    uint64_t items, user_bytes, overflow_bytes, extent_bytes;
};
struct bystander_holdings bystander_holdings(struct bystander *bystander);
/* They become what they were. `what` is for people. */
void bystander_expect_holdings(struct bystander *bystander, const char *what,
                               const struct bystander_holdings *before);
/* The six figures that say where the region's bytes are add up to it. */
void bystander_expect_accounts(struct bystander *bystander);

#endif
