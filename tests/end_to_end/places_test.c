/*
 * Who gets the places of a server: of many clients of one user or of one address, so that others
 * and administrators find some.
 */
#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_process.h"
#include "tests/support/users_file.h"

#define PLACES 20
#define KEPT 5 /* a quarter of them */

#define USERS                                           \
    "[alice]\nkey = " KEY_A "\ndefault = read, write\n" \
    "[bob]\nkey = " KEY_B "\ndefault = read, write\n"   \
    "[root]\nkey = " KEY_C "\ndefault = read, admin\n"

struct fixture {
    struct users_file file;
    struct server_process server;
    unsigned count;
    okv *handles[PLACES];
};

static void start(struct fixture *fixture, const char *option, const char *number)
{
    *fixture = (struct fixture){.count = 0};
    users_file_open(&fixture->file);
    users_file_write(&fixture->file, USERS);
    const char *const arguments[] = {
        "--users", fixture->file.users, "--max-clients", "20", "--memory", "8M", option, number,
        NULL};
    server_start(&fixture->server, arguments);
}

static void stop(struct fixture *fixture)
{
    while (fixture->count > 0)
        okv_close(&fixture->handles[--fixture->count]);
    assert_int_equal(server_stop(&fixture->server), 0);
    users_file_close(&fixture->file);
}

/* Opens handles as the user until the server refuses one; returns how many it let in. */
static unsigned flood(struct fixture *fixture, const char *user, const char *key,
                      const char *why_not)
{
    struct okv_options options = {.user = user,
                                  .key_file = users_file_key(&fixture->file, user, key)};
    char why[320] = "";
    unsigned before = fixture->count;
    int rc;

    /* An attempt that took too long may still hold a place. */
    server_await_stat(fixture->handles[0], "sessions", fixture->count);
    for (;;) {
        okv *handle = NULL;
        rc = patient_open(fixture->server.uri, &options, &handle, why, sizeof why);
        if (rc != OKV_OK)
            break;
        assert_in_range(fixture->count, 0, PLACES - 1);
        fixture->handles[fixture->count++] = handle;
    }
    assert_int_equal(rc, OKV_EREFUSED);
    if (!strstr(why, why_not))
        fail_msg("\"%s\" instead of \"%s\"", why, why_not);
    return fixture->count - before;
}

/* The first handle is the administrator's. */
static void expect_refused(const struct fixture *fixture, const char *counter)
{
    assert_int_equal(server_stat(fixture->handles[0], counter), 1);
    assert_int_equal(server_stat(fixture->handles[0], "max_clients"), PLACES);
}

static void open_admin(struct fixture *fixture)
{
    const struct okv_options options = {.user = "root",
                                        .key_file = users_file_key(&fixture->file, "root", KEY_C)};

    fixture->handles[fixture->count++] = server_connect(&fixture->server, &options);
}

/* Half of the places, unless the server was told otherwise. */
TEST(one_user_leaves_places_to_another)
{
    struct fixture fixture;

    start(&fixture, NULL, NULL);
    open_admin(&fixture);
    assert_int_equal(flood(&fixture, "alice", KEY_A, "raise its --max-clients-per-user"),
                     PLACES / 2);
    expect_refused(&fixture, "rejected_user");
    assert_int_equal(flood(&fixture, "bob", KEY_B, "raise its --max-clients"),
                     PLACES / 2 - KEPT - 1);
    expect_refused(&fixture, "rejected_busy");
    stop(&fixture);
}

/* Even of a user that may have all places. */
TEST(a_flood_leaves_places_to_administrators)
{
    struct fixture fixture;

    start(&fixture, "--max-clients-per-user", "0");
    open_admin(&fixture);
    assert_int_equal(flood(&fixture, "alice", KEY_A, "raise its --max-clients"), PLACES - KEPT - 1);
    assert_int_equal(flood(&fixture, "bob", KEY_B, "raise its --max-clients"), 0);
    for (unsigned i = 0; i < KEPT; i++) {
        open_admin(&fixture);
        assert_int_equal(server_stat(fixture.handles[fixture.count - 1], "sessions"),
                         fixture.count);
    }
    assert_int_equal(flood(&fixture, "root", KEY_C, "raise its --max-clients"), 0);
    stop(&fixture);
}

/* Nobody has proven anything there, so all come from one address. */
TEST(one_address_leaves_places_to_another)
{
    static const char *const arguments[] = {"--max-clients", "6", "--memory", "8M", NULL};
    struct server_process server;
    okv *handles[6], *refused = NULL;
    char why[320];

    server_start(&server, arguments);
    for (unsigned i = 0; i < 3; i++)
        handles[i] = server_connect(&server, NULL);
    assert_int_equal(patient_open(server.uri, NULL, &refused, why, sizeof why), OKV_EREFUSED);
    assert_non_null(strstr(why, "raise its --max-clients-per-address"));
    assert_int_equal(server_stat(handles[0], "rejected_address"), 1);
    for (unsigned i = 0; i < 3; i++)
        okv_close(&handles[i]);
    assert_int_equal(server_stop(&server), 0);
}
