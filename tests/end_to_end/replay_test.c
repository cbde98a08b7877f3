/*
 * Somebody on the way to a server with users: hellos that were copied, and such as were changed.
 */
#include "tests/support/test.h"
#include <okv.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/identity/user_key.h"
#include "tests/support/connect_blocking.h"
#include "tests/support/hostile_client.h"
#include "tests/support/pace.h"
#include "tests/support/prover.h"
#include "tests/support/users_file.h"

struct fixture {
    struct users_file file;
    struct server_process server;
    struct okv_user_key *key;
};

/* Returns 0 and the connection, or the reason of the rejection. */
static uint32_t connect_with(const struct fixture *fixture, const struct okv_wire_hello *hello,
                             struct prover *prover, struct hostile *out)
{
    struct okv_connect_params params = {
        .hello = (const uint8_t *)hello,
        .hello_length = sizeof *hello,
        .next_hello = prover ? prover_next_hello : NULL,
        .user = prover,
        .limits = {.slot_size = 2 * OKV_SLOT_SIZE_DEFAULT, .credits = HOSTILE_BURST},
        .deadline_ns = pace_guard_end(),
    };
    struct okv_diag diag = {""};
    struct okv_reject reject;
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse(fixture->server.uri, &uri, &diag), 0);
    *out = (struct hostile){.ops = okv_transport_for(uri.scheme), .next_sequence = 1};
    int rc = connect_blocking(out->ops, &uri, &params, &out->answer, &out->conn, &diag);
    if (rc == 0) {
        assert_int_equal(okv_welcome_decode(out->answer.bytes, out->answer.length, &out->table), 0);
        return 0;
    }
    out->conn = NULL;
    if (rc != OKV_EREFUSED || !out->answer.rejected)
        fail_msg("%s: %s", okv_error_name(rc), diag.text);
    assert_int_equal(okv_reject_decode(out->answer.bytes, out->answer.length, &reject), 0);
    return reject.reason;
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    users_file_open(&fixture->file);
    users_file_write(&fixture->file, "[alice]\nkey = " KEY_A "\ndefault = read, write\n");
    const char *const arguments[] = {"--users", fixture->file.users, "--memory", "8M", NULL};
    server_start(&fixture->server, arguments);
    assert_int_equal(okv_identity_init(), 0);
    assert_int_equal(okv_user_key_parse(KEY_A, &fixture->key), 0);
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    okv_user_key_destroy(fixture->key);
    int status = server_stop(&fixture->server);
    users_file_close(&fixture->file);
    free(fixture);
    return status;
}

#define PROOFS_TEST(name) TEST_WITH(name, setup, teardown)

PROOFS_TEST(a_right_proof_is_accepted_and_answered)
{
    const struct fixture *fixture = *state;
    struct prover prover = {.user = "alice", .key = fixture->key};
    struct hostile client;

    hostile_hello(&prover.sent);
    const struct okv_wire_hello first = prover.sent;
    assert_int_equal(connect_with(fixture, &first, &prover, &client), 0);
    assert_true(prover.has_proven);
    assert_int_equal(client.table.rights, OKV_RIGHT_READ | OKV_RIGHT_WRITE);
    assert_false(okv_bytes_are_zero(client.table.proof, sizeof client.table.proof));
    hostile_leave(&client);
}

/* It would take the place of its owner's session. */
PROOFS_TEST(a_copied_hello_is_of_no_use)
{
    const struct fixture *fixture = *state;
    struct prover prover = {.user = "alice", .key = fixture->key};
    struct hostile owner, thief;

    hostile_hello(&prover.sent);
    const struct okv_wire_hello first = prover.sent;
    assert_int_equal(connect_with(fixture, &first, &prover, &owner), 0);
    uint32_t reason = connect_with(fixture, &prover.sent, NULL, &thief);
    /* On another connection the binding is another one; a socket has none. */
    assert_int_equal(reason,
                     server_is_fabric() || server_has_tls() ? OKV_REJECT_DENIED : OKV_REJECT_STALE);
    assert_true(hostile_ping(&owner));
    hostile_leave(&owner);
}

static void flip(struct okv_wire_hello *hello, unsigned place)
{
    ((uint8_t *)hello)[place] ^= 0x40;
}

PROOFS_TEST(a_changed_hello_is_refused)
{
    const struct fixture *fixture = *state;
    struct hostile client;

    for (unsigned place = 0; place < sizeof(struct okv_wire_hello); place++) {
        struct prover prover = {
            .user = "alice", .key = fixture->key, .meddle = flip, .place = place};
        hostile_hello(&prover.sent);
        const struct okv_wire_hello first = prover.sent;
        uint32_t reason = connect_with(fixture, &first, &prover, &client);
        /* What makes no sense, or does not suit the server, is told before the proof. */
        bool is_about_who = place >= offsetof(struct okv_wire_hello, client_id) &&
                            place != offsetof(struct okv_wire_hello, slot_units) &&
                            place != offsetof(struct okv_wire_hello, slot_units) + 1;
        if (is_about_who && reason != OKV_REJECT_DENIED)
            fail_msg("byte %u: reason %u", place, reason);
        assert_int_not_equal(reason, 0);
    }
}
