/* Clients that have connected and not said hello yet: who makes room for the next. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/transport/common/pending.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/pace.h"

#define NEVER_NS UINT64_C(1000000000000)

static struct okv_pending_client clients[2 * OKV_PENDING_MAX];
static struct okv_pending pending;
static unsigned added;

/* A client is gone when its socket is. */
static void leave(struct okv_pending_client *client)
{
    close(client->sock);
    client->sock = -1;
}

/* Those that the listener made are no others'. */
static void drop(struct okv_pending_client *client)
{
    leave(client);
    if (client < clients || client >= clients + added)
        free(client);
}

static int greet(struct okv_pending_client *client)
{
    snprintf(client->base.address, sizeof client->base.address, "somewhere");
    return 0;
}

static bool is_here(unsigned number)
{
    return clients[number].sock >= 0;
}

static unsigned add(const char *from)
{
    unsigned number = added++;
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(sock >= 0);
    clients[number] = (struct okv_pending_client){.sock = sock};
    snprintf(clients[number].base.address, sizeof clients[number].base.address, "%s", from);
    assert_int_equal(okv_pending_add(&pending, &clients[number]), 0);
    assert_in_range(pending.crowd.count, 1, OKV_PENDING_MAX);
    return number;
}

static int setup(void **state)
{
    static const struct okv_pending_ops ops = {
        .size = sizeof(struct okv_pending_client), .greet = greet, .drop = drop};
    const struct sockaddr name = {.sa_family = AF_UNIX}; /* the kernel chooses one */
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)state;
    added = 0;
    assert_int_equal(bind(sock, &name, sizeof name.sa_family), 0);
    assert_int_equal(listen(sock, 8), 0);
    return okv_pending_open(&pending, sock, NEVER_NS, &ops, NULL);
}

static int teardown(void **state)
{
    (void)state;
    okv_pending_close(&pending);
    for (unsigned i = 0; i < added; i++)
        assert_false(is_here(i));
    return 0;
}

#define PENDING_TEST(name) TEST_WITH(name, setup, teardown)

/* It came first, and is no part of the flood. */
PENDING_TEST(a_flood_crowds_out_itself)
{
    unsigned honest = add("honest");

    for (unsigned i = 1; i < OKV_PENDING_MAX + 40; i++)
        add("flood");
    assert_int_equal(pending.crowd.count, OKV_PENDING_MAX);
    assert_true(is_here(honest));
    for (unsigned i = 1; i <= 40; i++)
        assert_false(is_here(i)); /* its oldest ones went */
    assert_true(is_here(41));
}

/* Limits that become lower hold for those who are there already. */
PENDING_TEST(lower_limits_hold_at_once)
{
    for (unsigned i = 0; i < 20; i++)
        add("flood");
    pending.max = 4;
    add("flood");
    assert_int_equal(pending.crowd.count, 4);
    pending.silence_ns = 0;
    unsigned last = add("honest");
    assert_int_equal(pending.crowd.count, 1);
    assert_true(is_here(last));
}

PENDING_TEST(one_who_comes_amid_a_flood_stays)
{
    for (unsigned i = 0; i < OKV_PENDING_MAX; i++)
        add("flood");
    unsigned honest = add("honest");
    for (unsigned i = 0; i < 40; i++)
        add("flood");
    assert_true(is_here(honest));
}

/* Two of them: the larger one pays, whoever comes. */
PENDING_TEST(the_larger_of_two_floods_makes_room)
{
    enum { LESS = OKV_PENDING_MAX / 2 - 8 };
    unsigned small[LESS];

    for (unsigned i = 0; i < LESS; i++)
        small[i] = add("small");
    while (pending.crowd.count < OKV_PENDING_MAX)
        add("large");
    for (unsigned i = 0; i < 8; i++)
        add("small");
    for (unsigned i = 0; i < LESS; i++)
        assert_true(is_here(small[i]));
}

/* Who has said hello is none of them any more. */
PENDING_TEST(one_that_was_removed_counts_no_more)
{
    unsigned gone[OKV_PENDING_MAX - 1];

    for (unsigned i = 0; i < OKV_PENDING_MAX - 1; i++)
        gone[i] = add("was many");
    unsigned kept = add("was many");
    for (unsigned i = 0; i < OKV_PENDING_MAX - 1; i++) {
        okv_pending_remove(&pending, &clients[gone[i]]);
        leave(&clients[gone[i]]);
    }
    while (pending.crowd.count < OKV_PENDING_MAX)
        add("flood");
    add("flood");
    assert_true(is_here(kept));
}

PENDING_TEST(an_owner_sets_the_limit)
{
    pending.max = 3;
    for (unsigned i = 0; i < 5; i++)
        add("flood");
    assert_int_equal(pending.crowd.count, 3);
    assert_false(is_here(1));
    assert_true(is_here(2));
}

static int connect_client(void)
{
    struct sockaddr_storage name;
    socklen_t length = sizeof name;
    int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(getsockname(pending.sock, (struct sockaddr *)&name, &length), 0);
    assert_int_equal(connect(sock, (const struct sockaddr *)&name, length), 0);
    return sock;
}

static void look(void)
{
    struct okv_listener listener = {.pending = &pending};
    struct okv_request *request;

    assert_int_equal(okv_pending_next_request(&listener, &request), 0);
}

/* The listener does not spin meanwhile, and those who are there are watched. */
PENDING_TEST(a_client_waits_for_a_descriptor)
{
    int sock = connect_client();
    struct rlimit before = no_descriptors_begin(0);

    for (unsigned i = 0; i < 3; i++) {
        assert_true(is_readable(pending.epoll, PACE_GUARD_MS)); /* the rest is over */
        look();
        assert_false(is_readable(pending.epoll, 0));
        assert_int_equal(okv_entrance_news(&pending.entrance), i == 0 ? EMFILE : 0);
        assert_int_equal(pending.crowd.count, 0);
    }
    no_descriptors_end(before);
    assert_true(is_readable(pending.epoll, PACE_GUARD_MS));
    look();
    assert_int_equal(pending.crowd.count, 1);
    close(sock);
}
