/* Links between servers: messages of all lengths in order, limits, ends, and who is refused. */
#include "tests/support/test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "tests/support/peer_member.h"
#include "tests/support/sanitized.h"
#include "tests/support/users_file.h"

#define CREDITS 8
#define MIB (1u << 20)

static struct peer_member member;

static int start_open(void **state)
{
    (void)state;
    peer_member_start(&member, NULL, true);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    peer_member_stop(&member);
    return 0;
}

#define LINK_TEST(name) TEST_WITH(name, start_open, stop)

static void open_as_nobody(struct peer_dial *dial, uint64_t client_id)
{
    peer_dial_open(dial, NULL, NULL, client_id);
    if (!dial->is_open)
        fail_msg("%d: %s", dial->status, dial->why);
}

static uint64_t bytes_held(void)
{
    pthread_mutex_lock(&member.inbox->lock);
    uint64_t bytes = member.inbox->bytes;
    pthread_mutex_unlock(&member.inbox->lock);
    return bytes;
}

LINK_TEST(messages_of_all_lengths_arrive_whole_and_in_order)
{
    const uint32_t most = okv_slot_value_max(OKV_SLOT_SIZE_DEFAULT);
    const uint32_t lengths[] = {0,    1,   100,     most - 1, most,   most + 1, 20000,
                                0,    MIB, MIB + 1, 3,        262144, 8 * MIB,  5,
                                most, 0,   8 * MIB, 8 * MIB,  100000, 0};
    enum { COUNT = sizeof lengths / sizeof lengths[0], ROUNDS = 3 };
    struct peer_dial dial;

    open_as_nobody(&dial, 1);
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < COUNT; i++)
            peer_dial_send(&dial, lengths[i]);
    peer_dial_until_answered(&dial, ROUNDS * COUNT);
    assert_int_equal(atomic_load(&member.taken), ROUNDS * COUNT);
    peer_dial_close(&dial);
}

LINK_TEST(as_many_as_granted_have_no_answer)
{
    struct peer_dial dial;

    open_as_nobody(&dial, 1);
    atomic_store(&member.holds, true);
    for (unsigned i = 0; i < CREDITS; i++)
        assert_int_equal(peer_dial_try(&dial, i * 5000), 0);
    assert_int_equal(peer_dial_try(&dial, 0), OKV_EAGAIN);
    peer_dial_until(&dial, &member.taken, CREDITS);
    assert_int_equal(dial.answered, 0);
    atomic_store(&member.holds, false);
    peer_dial_until_answered(&dial, CREDITS);
    assert_int_equal(peer_dial_try(&dial, 0), 0);
    peer_dial_until_answered(&dial, CREDITS + 1);
    peer_dial_close(&dial);
}

LINK_TEST(a_receiver_that_does_not_answer_holds_a_bounded_number_of_bytes)
{
    struct peer_dial dial;

    open_as_nobody(&dial, 1);
    atomic_store(&member.holds, true);
    for (unsigned i = 0; i < 5; i++)
        peer_dial_send(&dial, 7 * MIB);
    peer_dial_until(&dial, &member.taken, 3); /* 21 MiB */
    for (unsigned i = 0; i < 20; i++)
        peer_dial_step(&dial);
    assert_int_equal(atomic_load(&member.taken), 3);
    assert_in_range(bytes_held(), 21 * MIB, OKV_PEER_INBOX_BYTES + OKV_PEER_BODY_MAX);
    atomic_store(&member.holds, false);
    peer_dial_until_answered(&dial, 5);
    assert_int_equal(bytes_held(), 0);
    peer_dial_close(&dial);
}

LINK_TEST(a_body_that_is_too_long_is_refused)
{
    struct peer_dial dial;

    open_as_nobody(&dial, 1);
    peer_dial_send(&dial, OKV_PEER_BODY_MAX + 1);
    while (dial.answered < 1 && !dial.is_lost)
        peer_dial_step(&dial);
    assert_int_equal(dial.last_status, OKV_EVALUESIZE);
    assert_int_equal(okv_link_send(dial.link, OKV_OP_JOIN, "", 0, NULL, 0, 0), OKV_EINVAL);
    peer_dial_close(&dial);
}

LINK_TEST(the_receiver_learns_that_the_sender_is_gone)
{
    for (unsigned i = 1; i <= 5; i++) {
        struct peer_dial dial;
        open_as_nobody(&dial, i);
        atomic_store(&member.holds, true);
        unsigned taken = atomic_load(&member.taken);
        peer_dial_send(&dial, 10);
        peer_dial_send(&dial, 8 * MIB);
        peer_dial_send(&dial, 20);
        peer_dial_until(&dial, &member.taken, taken + i % 3);
        peer_dial_close(&dial);
        struct peer_dial next; /* whose steps pass the time */
        open_as_nobody(&next, 100 + i);
        peer_dial_until(&next, &member.lost, 2 * i - 1);
        peer_dial_close(&next);
        atomic_store(&member.holds, false);
        open_as_nobody(&next, 200 + i);
        peer_dial_send(&next, 1);
        peer_dial_until_answered(&next, 1);
        peer_dial_close(&next);
        open_as_nobody(&next, 300 + i);
        peer_dial_until(&next, &member.lost, 2 * i);
        peer_dial_close(&next);
    }
    assert_int_equal(bytes_held(), 0);
}

LINK_TEST(a_link_replaces_the_earlier_one_of_its_process)
{
    struct peer_dial first, second;

    open_as_nobody(&first, 7);
    peer_dial_send(&first, 1);
    peer_dial_until_answered(&first, 1);
    open_as_nobody(&second, 7);
    peer_dial_until_lost(&first);
    assert_int_equal(peer_dial_try(&first, 1), OKV_EDISCONNECTED);
    peer_dial_close(&first);
    peer_dial_until(&second, &member.lost, 1);
    peer_dial_send(&second, 1);
    peer_dial_until_answered(&second, 1);
    peer_dial_close(&second);
}

TEST(a_link_says_that_the_receiver_ends)
{
    struct peer_dial dial;

    peer_member_start(&member, NULL, true);
    open_as_nobody(&dial, 1);
    okv_server_ask_end(member.server.server);
    peer_dial_until_lost(&dial);
    assert_int_equal(dial.status, OKV_ESHUTDOWN);
    peer_dial_close(&dial);
    peer_member_stop(&member);
}

/* In the middle of a message of 8 MiB, or between two. */
TEST(a_link_says_that_the_receiver_was_killed)
{
    struct peer_dial dial;
    int status;

    /* A device of this process has no other. ThreadSanitizer misjudges jemalloc after a fork. */
    if (OKV_SANITIZED_THREADS || peer_member_uri().scheme == OKV_SCHEME_RDMA)
        skip();
    for (unsigned i = 0; i < 6; i++) {
        pid_t parent = getpid(), child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            peer_member_start(&member, NULL, true);
            while (getppid() == parent)
                usleep(10000);
            _exit(0);
        }
        open_as_nobody(&dial, i + 1);
        peer_dial_send(&dial, 1);
        peer_dial_until_answered(&dial, 1);
        for (unsigned k = 0; k < 4; k++)
            peer_dial_send(&dial, i % 2 ? 8 * MIB : 100);
        for (unsigned k = 0; k < i; k++)
            peer_dial_step(&dial);
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &status, 0), child);
        peer_dial_until_lost(&dial);
        assert_int_equal(peer_dial_try(&dial, 1), OKV_EDISCONNECTED);
        peer_dial_close(&dial);
    }
    unlink(peer_member_uri().path);
}

TEST(a_server_that_is_no_member_is_no_peer)
{
    struct peer_dial dial;

    peer_member_start(&member, NULL, false);
    peer_dial_open(&dial, NULL, NULL, 1);
    assert_true(dial.is_lost);
    assert_int_equal(dial.status, OKV_EUNSUPPORTED);
    peer_dial_close(&dial);
    peer_member_stop(&member);
}

static void expect_refused(const char *user, const char *key, const char *why)
{
    struct peer_dial dial;

    peer_dial_open(&dial, user, key, 1);
    assert_true(dial.is_lost);
    assert_int_equal(dial.status, OKV_EDENIED);
    if (!strstr(dial.why, why))
        fail_msg("'%s' instead of '%s'", dial.why, why);
    peer_dial_close(&dial);
}

TEST(only_a_user_with_the_right_is_a_peer)
{
    struct users_file file;
    struct peer_dial dial;

    users_file_open(&file);
    users_file_write(&file, "[peer]\nkey = " KEY_A "\n* = replicate\n"
                            "[client]\nkey = " KEY_B "\n* = read, write, admin\n");
    peer_member_start(&member, file.users, true);
    peer_dial_open(&dial, "peer", KEY_A, 1);
    if (!dial.is_open)
        fail_msg("%d: %s", dial.status, dial.why);
    peer_dial_send(&dial, 100000);
    peer_dial_until_answered(&dial, 1);
    peer_dial_close(&dial);
    expect_refused(NULL, NULL, "name one");
    expect_refused("peer", KEY_C, "no such user");
    expect_refused("nobody", KEY_A, "no such user");
    expect_refused("client", KEY_B, "lacks the right replicate");
    peer_member_stop(&member);
    /* It cannot prove that it is the server which was meant. */
    peer_member_start(&member, NULL, true);
    expect_refused("peer", KEY_A, "does not know the key");
    peer_member_stop(&member);
    users_file_close(&file);
}
