/*
 * A server with users: who gets in, what each may do, and how that changes while it runs.
 */
#include <signal.h>

#include <okv_admin.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_process.h"
#include "tests/support/users_file.h"

#define LONG 200000

#define ALICE "[alice]\nkey = " KEY_A "\none = read, write, admin\nother = read\n"
#define BOB "[bob]\nkey = " KEY_B "\nother = read, write\n"
#define CAROL "[carol]\nkey = " KEY_C "\nkey = " KEY_D "\none = read\n"

struct fixture {
    struct users_file file;
    struct server_process server;
    okv *admin; /* alice in `one` */
};

/* Opens `database` as `user` with the key file called `name`. */
static int try_open(const struct fixture *fixture, const char *user, const char *name,
                    const char *key, const char *database, okv **out, char *why, size_t size)
{
    struct okv_options options = {.user = user};

    if (key)
        options.key_file = users_file_key(&fixture->file, name, key);
    snprintf(options.database, sizeof options.database, "%s", database);
    return patient_open(fixture->server.uri, &options, out, why, size);
}

static okv *open_as(const struct fixture *fixture, const char *user, const char *key,
                    const char *database)
{
    okv *handle = NULL;
    char why[320];

    if (try_open(fixture, user, user, key, database, &handle, why, sizeof why))
        fail_msg("%s", why);
    return handle;
}

static void expect_denied(const struct fixture *fixture, const char *user, const char *key,
                          const char *database, char *why, size_t size)
{
    okv *handle = NULL;

    assert_int_equal(try_open(fixture, user, "who", key, database, &handle, why, size),
                     OKV_EDENIED);
    assert_null(handle);
}

static int setup(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    users_file_open(&fixture->file);
    users_file_write(&fixture->file, ALICE BOB CAROL);
    const char *const arguments[] = {"--users",    fixture->file.users, "--database", "one:8M",
                                     "--database", "other:8M",          NULL};
    server_start(&fixture->server, arguments);
    fixture->admin = open_as(fixture, "alice", KEY_A, "one");
    *state = fixture;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    okv_close(&fixture->admin);
    int status = server_stop(&fixture->server);
    users_file_close(&fixture->file);
    free(fixture);
    return status;
}

static void reload(struct fixture *fixture, const char *users, const char *counter)
{
    uint64_t before = server_stat(fixture->admin, counter);

    users_file_write(&fixture->file, users);
    server_signal(&fixture->server, SIGHUP);
    server_await_stat(fixture->admin, counter, before + 1);
}

/* Every way to change something, with this result. */
static void expect_changes(okv *handle, int status)
{
    static uint8_t value[LONG];
    size_t length;

    assert_int_equal(okv_put(handle, "a", 1, "1", 1, NULL), status);
    assert_int_equal(okv_put(handle, "b", 1, value, sizeof value, NULL), status);
    assert_int_equal(okv_incr(handle, "a", 1, 1, NULL, NULL), status);
    assert_int_equal(okv_append(handle, "a", 1, "1", 1, NULL, NULL), status);
    assert_int_equal(okv_incr_ttl(handle, "a", 1, 1, 1000, NULL, NULL), status);
    assert_int_equal(okv_touch(handle, "a", 1, OKV_TTL_NONE, NULL), status);
    assert_int_equal(
        okv_get_touch(handle, "a", 1, OKV_TTL_NONE, value, sizeof value, &length, NULL), status);
    assert_int_equal(okv_delete(handle, "a", 1), status);
}

static void expect_miss(okv *handle)
{
    size_t length;

    assert_int_equal(okv_get(handle, "none", 4, NULL, 0, &length, NULL), OKV_ENOTFOUND);
}

#define USERS_TEST(name) TEST_WITH(name, setup, teardown)

USERS_TEST(a_user_may_do_what_its_rights_say)
{
    struct fixture *fixture = *state;
    okv *bob = open_as(fixture, "bob", KEY_B, "other");
    okv *alice = open_as(fixture, "alice", KEY_A, "other");
    char text[20000];
    size_t length;

    expect_changes(fixture->admin, OKV_OK);
    assert_int_equal(okv_flush(fixture->admin), OKV_OK);
    expect_changes(bob, OKV_OK);
    assert_int_equal(okv_flush(bob), OKV_EDENIED);
    expect_changes(alice, OKV_EDENIED);
    assert_int_equal(okv_flush(alice), OKV_EDENIED);
    assert_string_equal(okv_why(alice), "user alice lacks the right admin in database other");
    assert_int_equal(okv_put(alice, "b", 1, "1", 1, NULL), OKV_EDENIED);
    assert_string_equal(okv_why(alice), "user alice lacks the right write in database other");
    assert_int_equal(okv_ping(alice), OKV_OK);
    assert_string_equal(okv_why(alice), "");
    expect_miss(alice);
    assert_int_equal(okv_ping(alice), OKV_OK);
    assert_int_equal(okv_stat(alice, text, sizeof text, &length), OKV_OK);
    assert_int_equal(okv_get(alice, "b", 1, text, 0, &length, NULL), OKV_ETOOSMALL);
    assert_int_equal(length, LONG);
    assert_int_equal(server_stat(alice, "denied"), 11);
    assert_int_equal(server_stat(fixture->admin, "denied"), 0);
    assert_int_equal(okv_stat(alice, text, sizeof text, &length), OKV_OK);
    assert_null(strstr(text, "\nsessions "));
    okv_close(&bob);
    okv_close(&alice);
}

USERS_TEST(a_user_without_a_right_in_the_database_is_denied)
{
    struct fixture *fixture = *state;
    char why[320], of_none[320];

    expect_denied(fixture, "bob", KEY_B, "one", why, sizeof why);
    assert_non_null(strstr(why, "in which the user has a right"));
    assert_true(server_stat(fixture->admin, "rejected_no_right") >= 1);
    expect_denied(fixture, "bob", KEY_B, "two", of_none, sizeof of_none); /* it does not exist */
    assert_string_equal(of_none, why);
}

USERS_TEST(nobody_is_denied)
{
    struct fixture *fixture = *state;
    char why[320];

    expect_denied(fixture, NULL, NULL, "one", why, sizeof why);
    assert_non_null(strstr(why, "--user"));
}

/* Who has no key learns nothing about who exists, nor about databases. */
USERS_TEST(every_wrong_proof_has_the_same_answer)
{
    static const struct {
        const char *user, *key, *database;
    } wrong[] = {
        {"alice", KEY_B, "one"},   {"alice", KEY_D, "one"}, {"mallory", KEY_A, "one"},
        {"mallory", "", "one"},    {"alice", "", "one"},    {"alice", "", "missing"},
        {"bob", KEY_A, "missing"},
    };
    static const char unknown[] = "RUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUU=";
    struct fixture *fixture = *state;
    uint64_t sessions = server_stat(fixture->admin, "sessions_total");
    uint64_t caches = server_stat(fixture->admin, "reply_caches");
    char first[320], why[320];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *key = wrong[i].key[0] ? wrong[i].key : unknown;
        expect_denied(fixture, wrong[i].user, key, wrong[i].database, why, sizeof why);
        if (i == 0)
            memcpy(first, why, sizeof first);
        assert_string_equal(why, first);
    }
    assert_true(server_stat(fixture->admin, "rejected_denied") >= sizeof wrong / sizeof *wrong);
    assert_int_equal(server_stat(fixture->admin, "sessions_total"), sessions);
    assert_int_equal(server_stat(fixture->admin, "reply_caches"), caches);
    expect_miss(fixture->admin);
}

USERS_TEST(rights_change_under_a_session)
{
    struct fixture *fixture = *state;
    okv *bob = open_as(fixture, "bob", KEY_B, "other");
    struct okv_counters counters;

    expect_changes(bob, OKV_OK);
    reload(fixture, ALICE "[bob]\nkey = " KEY_B "\nother = read\n", "users_loaded");
    expect_changes(bob, OKV_EDENIED);
    expect_miss(bob);
    reload(fixture, ALICE BOB, "users_loaded");
    expect_changes(bob, OKV_OK);
    okv_counters(bob, &counters);
    assert_int_equal(counters.reconnects, 0);
    okv_close(&bob);
}

/* Pings, as a READ might end before the connection does. */
static void await_ping(okv *handle, int status)
{
    uint64_t end = pace_guard_end();

    while (okv_ping(handle) != status)
        assert_true(okv_clock_ns() < end);
}

/* The handle fails: its deadline is hours away. */
static void expect_access_ended(okv *handle, const char *user)
{
    char sentence[64];
    size_t length;

    snprintf(sentence, sizeof sentence, "ended the access of user %s", user);
    await_ping(handle, OKV_EDENIED);
    assert_non_null(strstr(okv_why(handle), sentence));
    assert_int_equal(okv_put(handle, "a", 1, "1", 1, NULL), OKV_EDENIED);
    assert_int_equal(okv_get(handle, "a", 1, NULL, 0, &length, NULL), OKV_EDENIED);
    assert_int_equal(okv_arm(handle), OKV_EDENIED);
}

static okv *open_lasting(struct fixture *fixture, const char *user, const char *key,
                         const char *database, uint32_t timeout_ms)
{
    struct okv_options options = {.user = user,
                                  .timeout_ms = timeout_ms,
                                  .key_file = users_file_key(&fixture->file, user, key)};

    snprintf(options.database, sizeof options.database, "%s", database);
    return server_connect(&fixture->server, &options);
}

#define HOURS_MS 36000000

/* One that is not in the file any more, and one without a right in the database. */
USERS_TEST(a_user_whose_access_ends_is_told_at_once)
{
    struct fixture *fixture = *state;
    uint64_t revoked = server_stat(fixture->admin, "closed_revoked");
    okv *bob = open_lasting(fixture, "bob", KEY_B, "other", HOURS_MS);
    okv *carol = open_lasting(fixture, "carol", KEY_C, "one", HOURS_MS);
    okv *alice = open_as(fixture, "alice", KEY_A, "other");

    expect_changes(bob, OKV_OK);
    reload(fixture, ALICE "[carol]\nkey = " KEY_C "\nother = read\n", "users_loaded");
    server_await_stat(fixture->admin, "closed_revoked", revoked + 2);
    expect_access_ended(bob, "bob");
    expect_access_ended(carol, "carol");
    okv_close(&bob);
    okv_close(&carol);
    assert_int_equal(okv_ping(alice), OKV_OK);
    okv_close(&alice);
    /* Who is back in the file opens another handle. */
    reload(fixture, ALICE BOB, "users_loaded");
    bob = open_as(fixture, "bob", KEY_B, "other");
    expect_changes(bob, OKV_OK);
    okv_close(&bob);
}

/* What was under way when the server ends it. */
USERS_TEST(a_write_of_a_user_whose_access_ends_is_unknown)
{
    struct fixture *fixture = *state;
    okv *bob = open_lasting(fixture, "bob", KEY_B, "other", HOURS_MS);
    struct okv_result result = {.tag = 0};
    uint64_t end = pace_guard_end();
    uint64_t revoked = server_stat(fixture->admin, "closed_revoked");

    reload(fixture, ALICE, "users_loaded");
    int rc = okv_submit_put(bob, "a", 1, "1", 1, 0); /* unless it knows already */
    if (rc == OKV_OK) {
        while (okv_poll(bob, &result, 1) == 0)
            assert_true(okv_clock_ns() < end);
        assert_true(result.status == OKV_EUNKNOWN || result.status == OKV_EDENIED);
    } else {
        assert_int_equal(rc, OKV_EDENIED);
    }
    expect_access_ended(bob, "bob");
    server_await_stat(fixture->admin, "closed_revoked", revoked + 1);
    okv_close(&bob);
}

/* Its connection had ended before, so that no server can tell it with a proof. It goes on trying,
 * and its calls end by their deadlines with what the last attempt was answered. */
/* Over TLS the refusal comes from the server, and ends the handle; elsewhere anyone may have sent
 * it. */
USERS_TEST(a_user_that_is_refused_comes_back_by_itself)
{
    struct fixture *fixture = *state;
    char kill[32], answer[32];
    struct okv_info info;
    size_t length;

    reload(fixture, "[alice]\nkey = " KEY_A "\none = read, write, admin\nother = read, admin\n" BOB,
           "users_loaded");
    okv *alice = open_as(fixture, "alice", KEY_A, "other");
    okv *bob = open_lasting(fixture, "bob", KEY_B, "other", 500);
    okv_info(bob, &info);
    snprintf(kill, sizeof kill, "kill %llx", (unsigned long long)info.session_id);
    assert_int_equal(okv_admin(alice, kill, answer, sizeof answer, &length), OKV_OK);
    server_await_stat(fixture->admin, "closed_killed", 1);
    reload(fixture, ALICE, "users_loaded");
    await_ping(bob, OKV_EDENIED);
    assert_int_equal(okv_put(bob, "a", 1, "1", 1, NULL), OKV_EDENIED);
    assert_non_null(strstr(okv_why(bob), "knows no such user"));
    reload(fixture, ALICE BOB, "users_loaded");
    if (server_has_tls()) {
        assert_int_equal(okv_ping(bob), OKV_EDENIED);
        okv_close(&bob);
        bob = open_as(fixture, "bob", KEY_B, "other");
    }
    await_ping(bob, OKV_OK);
    expect_changes(bob, OKV_OK);
    okv_close(&bob);
    okv_close(&alice);
}

USERS_TEST(a_file_with_a_mistake_changes_nothing)
{
    struct fixture *fixture = *state;
    uint64_t revoked = server_stat(fixture->admin, "closed_revoked");
    okv *bob = open_as(fixture, "bob", KEY_B, "other");

    reload(fixture, ALICE "[bob]\nkey = nonsense\n", "users_refused");
    expect_changes(bob, OKV_OK);
    okv_close(&bob);
    bob = open_as(fixture, "bob", KEY_B, "other");
    expect_changes(bob, OKV_OK);
    assert_int_equal(server_stat(fixture->admin, "closed_revoked"), revoked);
    okv_close(&bob);
}

/* Two keys are good during a rotation. A client with the new key file goes on when the old key is
 * gone. */
USERS_TEST(a_key_is_rotated)
{
    struct fixture *fixture = *state;
    uint64_t revoked = server_stat(fixture->admin, "closed_revoked");
    okv *old = open_as(fixture, "carol", KEY_C, "one");
    okv *new = NULL;
    char why[320];

    assert_int_equal(try_open(fixture, "carol", "new", KEY_D, "one", &new, why, sizeof why), 0);
    users_file_key(&fixture->file, "carol", KEY_D);
    reload(fixture, ALICE "[carol]\nkey = " KEY_D "\none = read\n", "users_loaded");
    server_await_stat(fixture->admin, "closed_revoked", revoked + 1);
    uint64_t end = pace_guard_end();
    while (okv_ping(old) != OKV_OK)
        assert_true(okv_clock_ns() < end);
    expect_miss(new);
    struct okv_counters counters;
    okv_counters(new, &counters);
    assert_int_equal(counters.reconnects, 0);
    okv_close(&old);
    okv_close(&new);
}

/* Whoever sits at the server's address and does not know the key. */
TEST(a_server_without_the_key_is_refused)
{
    struct fixture fixture = {.admin = NULL};
    okv *handle = NULL;
    char why[320];

    users_file_open(&fixture.file);
    server_start(&fixture.server, NULL);
    assert_int_equal(try_open(&fixture, "alice", "alice", KEY_A, "", &handle, why, sizeof why),
                     OKV_EDENIED);
    assert_non_null(strstr(why, "does not know the key"));
    assert_int_equal(server_stop(&fixture.server), 0);
    users_file_close(&fixture.file);
}
