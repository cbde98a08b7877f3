/* The client of etcd beside Debian's etcd: swaps that race, answers that are lost, leases, users,
 * TLS, and an etcd that was set up anew. Left out without etcd. */
#include <signal.h>

#include "tests/support/test.h"

#include "server/etcd/state.h"
#include "tests/support/etcd_client.h"
#include "tests/support/etcd_process.h"
#include "tests/support/pace.h"

#define RACES 18

static struct etcd_process cluster;

static int end(__attribute__((unused)) void **state)
{
    etcd_process_stop(&cluster);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

/* Members have all the time that they need, or just `member_ms`. */
static struct okv_etcd *client(uint32_t member_ms)
{
    return etcd_client(&(struct okv_etcd_options){
        .urls = cluster.urls, .member_ms = member_ms ? member_ms : PACE_GUARD_MS});
}

TEST_WITH(keys_are_read_and_swapped, NULL, end)
{
    etcd_process_start(&cluster, 1, false);
    struct okv_etcd *etcd = client(0);
    struct etcd_result result;
    struct okv_etcd_change changes[] = {{"/okv/a", 0, "2", 1, 0}, {"/okv/b", 0, "", 0, 0}};

    assert_int_equal(etcd_get(etcd, "/okv/", &result), OKV_OK);
    assert_int_equal(result.count, 0);
    assert_int_equal(etcd_swap(etcd, "/okv0", 0, "another", 0, &result), OKV_OK);
    assert_int_equal(etcd_swap(etcd, "/okv/a", 0, "1", 0, &result), OKV_OK);
    changes[0].mod_revision = result.revision;
    assert_int_equal(etcd_swap(etcd, "/okv/a", 0, "other", 0, &result), OKV_ECONFLICT);
    assert_int_equal(result.count, 1);
    assert_string_equal(result.items[0].key, "/okv/a");
    assert_string_equal(result.items[0].value, "1");
    assert_int_equal(result.items[0].mod_revision, changes[0].mod_revision);

    /* Both or none. */
    changes[1].mod_revision = 1;
    result.times = 0;
    okv_etcd_swap(etcd, changes, 2, PACE_GUARD_MS, etcd_take, &result);
    etcd_await(etcd, &result, 0);
    assert_int_equal(result.status, OKV_ECONFLICT);
    changes[1].mod_revision = result.times = 0;
    okv_etcd_swap(etcd, changes, 2, PACE_GUARD_MS, etcd_take, &result);
    etcd_await(etcd, &result, 0);
    assert_int_equal(result.status, OKV_OK);
    uint64_t revision = result.revision;
    assert_int_equal(etcd_get(etcd, "/okv/", &result), OKV_OK);
    assert_int_equal(result.count, 2);
    assert_string_equal(result.items[0].value, "2");
    assert_string_equal(result.items[1].value, "");
    assert_int_equal(result.items[1].mod_revision, revision);
    assert_int_equal(etcd_swap(etcd, "/okv/a", revision, NULL, 0, &result), OKV_OK);
    assert_int_equal(etcd_get(etcd, "/okv/a", &result), OKV_OK);
    assert_int_equal(result.count, 0);
    okv_etcd_destroy(&etcd);
}

/* True if the swap of `text` was done; a lost answer is replaced by a get. */
static bool has_won(struct okv_etcd *etcd, const struct etcd_result *swap, const char *text)
{
    struct etcd_result now;

    if (swap->status == OKV_OK || swap->status == OKV_ECONFLICT)
        return swap->status == OKV_OK;
    assert_int_equal(swap->status, OKV_EUNKNOWN);
    assert_int_equal(etcd_get(etcd, "/race", &now), OKV_OK);
    return now.count && strcmp(now.items[0].value, text) == 0;
}

/* Two clients change the same revision of a key at once. Returns how many have won. */
static unsigned race(struct okv_etcd *const etcds[2], unsigned number)
{
    struct etcd_result before, swaps[2] = {{0}, {0}};
    char texts[2][ETCD_TEXT];

    assert_int_equal(etcd_get(etcds[0], "/race", &before), OKV_OK);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(texts[i], ETCD_TEXT, "%u by %u", number, i);
        const struct okv_etcd_change change = {"/race",
                                               before.count ? before.items[0].mod_revision : 0,
                                               texts[i], strlen(texts[i]), 0};
        assert_int_equal(okv_etcd_swap(etcds[i], &change, 1, PACE_GUARD_MS, etcd_take, &swaps[i]),
                         OKV_OK);
    }
    while (swaps[0].times + swaps[1].times < 2)
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(okv_etcd_wait(etcds[i], NULL, 0, 1), OKV_OK);
    return (unsigned)has_won(etcds[0], &swaps[0], texts[0]) +
           (unsigned)has_won(etcds[1], &swaps[1], texts[1]);
}

TEST_WITH(of_two_clients_one_wins, NULL, end)
{
    etcd_process_start(&cluster, 3, false);
    struct okv_etcd *etcds[2] = {client(0), client(0)};

    for (unsigned i = 0; i < RACES; i++)
        assert_int_equal(race(etcds, i), 1);
    okv_etcd_destroy(&etcds[0]);
    okv_etcd_destroy(&etcds[1]);
}

/* A swap that was lost with a member may be done late, so that both lose the next race. */
TEST_WITH(of_two_clients_one_wins_while_members_die, NULL, end)
{
    etcd_process_start(&cluster, 3, false);
    struct okv_etcd *etcds[2] = {client(pace_ms(100)), client(pace_ms(100))};
    unsigned wins = 0;

    for (unsigned i = 0; i < RACES; i++) {
        if (i % 6 == 3)
            etcd_process_kill(&cluster, i / 6 % 3);
        unsigned won = race(etcds, i);
        assert_true(won <= 1);
        wins += won;
        if (i % 6 == 5)
            etcd_process_restart(&cluster, i / 6 % 3);
    }
    assert_true(wins > RACES / 2);
    okv_etcd_destroy(&etcds[0]);
    okv_etcd_destroy(&etcds[1]);
}

/* Swaps `text` in, whatever is there, until a get shows it. */
static void swap_for_sure(struct okv_etcd *etcd, const char *text)
{
    struct etcd_result now, swap;

    do {
        assert_int_equal(etcd_get(etcd, "/race", &now), OKV_OK);
        etcd_swap(etcd, "/race", now.count ? now.items[0].mod_revision : 0, text, 0, &swap);
    } while (!has_won(etcd, &swap, text));
}

/* The member has received the swap, and may do it or not when it goes on. */
TEST_WITH(an_answer_that_is_lost_is_unknown, NULL, end)
{
    etcd_process_start(&cluster, 1, false);
    struct okv_etcd *etcd = client(pace_ms(100));
    struct etcd_result result, swap, get = {0};

    swap_for_sure(etcd, "0");
    assert_int_equal(etcd_get(etcd, "/race", &result), OKV_OK);
    kill(cluster.members[0].pid, SIGSTOP);
    assert_int_equal(etcd_swap(etcd, "/race", result.items[0].mod_revision, "1 by me", 0, &swap),
                     OKV_EUNKNOWN);
    okv_etcd_get(etcd, "/race", pace_ms(300), etcd_take, &get);
    etcd_await(etcd, &get, 0);
    assert_int_equal(get.status, OKV_ETIMEDOUT);
    kill(cluster.members[0].pid, SIGCONT);
    if (!has_won(etcd, &swap, "1 by me"))
        swap_for_sure(etcd, "1 by me");
    assert_int_equal(etcd_get(etcd, "/race", &result), OKV_OK);
    assert_string_equal(result.items[0].value, "1 by me");
    okv_etcd_destroy(&etcd);
}

TEST_WITH(calls_succeed_while_one_of_three_is_stopped, NULL, end)
{
    etcd_process_start(&cluster, 3, false);
    for (unsigned i = 0; i < 3; i++) {
        struct okv_etcd *etcd = client(pace_ms(100));
        kill(cluster.members[i].pid, SIGSTOP);
        swap_for_sure(etcd, cluster.members[i].url);
        kill(cluster.members[i].pid, SIGCONT);
        okv_etcd_destroy(&etcd);
    }
}

static void keepalive(struct okv_etcd *etcd, uint64_t lease, struct etcd_result *result)
{
    *result = (struct etcd_result){0};
    assert_int_equal(okv_etcd_keepalive(etcd, lease, 2, PACE_GUARD_MS, etcd_take, result), OKV_OK);
    etcd_await(etcd, result, 0);
}

TEST_WITH(leases_end_with_their_keys, NULL, end)
{
    etcd_process_start(&cluster, 1, false);
    struct okv_etcd *etcd = client(0);
    struct etcd_result granted, result;

    keepalive(etcd, 0, &granted);
    assert_int_equal(granted.status, OKV_OK);
    assert_true(granted.lease != 0 && granted.ttl_s >= 2);
    assert_int_equal(etcd_swap(etcd, "/alive", 0, "me", granted.lease, &result), OKV_OK);
    keepalive(etcd, granted.lease, &result);
    assert_int_equal(result.status, OKV_OK);
    assert_int_equal(result.lease, granted.lease);
    result.times = 0;
    okv_etcd_revoke(etcd, granted.lease, PACE_GUARD_MS, etcd_take, &result);
    etcd_await(etcd, &result, 0);
    assert_int_equal(result.status, OKV_OK);
    assert_int_equal(etcd_get(etcd, "/alive", &result), OKV_OK);
    assert_int_equal(result.count, 0);
    keepalive(etcd, granted.lease, &result);
    assert_int_equal(result.status, OKV_ENOTFOUND);
    assert_int_equal(etcd_swap(etcd, "/alive", 0, "me", granted.lease, &result), OKV_ENOTFOUND);
    result.times = 0;
    okv_etcd_revoke(etcd, granted.lease, PACE_GUARD_MS, etcd_take, &result);
    etcd_await(etcd, &result, 0);
    assert_int_equal(result.status, OKV_ENOTFOUND);

    /* One that nobody prolongs. */
    keepalive(etcd, 0, &granted);
    assert_int_equal(etcd_swap(etcd, "/alive", 0, "me", granted.lease, &result), OKV_OK);
    while (etcd_get(etcd, "/alive", &result) == OKV_OK && result.count)
        pace_sleep_ms(100);
    assert_int_equal(result.status, OKV_OK);
    okv_etcd_destroy(&etcd);
}

TEST_WITH(users_prove_themselves_by_a_password, NULL, end)
{
    etcd_process_start(&cluster, 1, false);
    struct okv_etcd_options options = {.urls = cluster.urls, .member_ms = PACE_GUARD_MS};
    struct okv_etcd *root, *etcd;
    struct etcd_result result;

    etcd_process_post(&cluster, "auth/user/add", "{\"name\":\"root\",\"password\":\"r\"}", NULL);
    etcd_process_post(&cluster, "auth/role/add", "{\"name\":\"root\"}", NULL);
    etcd_process_post(&cluster, "auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}", NULL);
    etcd_process_post(&cluster, "auth/user/add", "{\"name\":\"okv\",\"password\":\"o\"}", NULL);
    etcd_process_post(&cluster, "auth/role/add", "{\"name\":\"okv\"}", NULL);
    etcd_process_post(&cluster, "auth/role/grant", /* /okv/ to /okv0 */
                      "{\"name\":\"okv\",\"perm\":{\"permType\":2,\"key\":\"L29rdi8=\","
                      "\"range_end\":\"L29rdjA=\"}}",
                      NULL);
    etcd_process_post(&cluster, "auth/user/grant", "{\"user\":\"okv\",\"role\":\"okv\"}", NULL);
    etcd_process_post(&cluster, "auth/enable", "{}", NULL);

    etcd = etcd_client(&options);
    assert_int_equal(etcd_get(etcd, "/okv/", &result), OKV_EDENIED);
    okv_etcd_destroy(&etcd);
    options.user = "okv";
    options.password = "wrong";
    etcd = etcd_client(&options);
    assert_int_equal(etcd_get(etcd, "/okv/", &result), OKV_EDENIED);
    okv_etcd_destroy(&etcd);
    options.user = "root";
    options.password = "r";
    root = etcd_client(&options);
    assert_int_equal(etcd_get(root, "/", &result), OKV_OK);
    options.user = "okv";
    options.password = "o";
    etcd = etcd_client(&options);
    assert_int_equal(etcd_swap(etcd, "/okv/a", 0, "1", 0, &result), OKV_OK);
    assert_int_equal(etcd_get(etcd, "/okv/", &result), OKV_OK);
    assert_int_equal(etcd_swap(etcd, "/other", 0, "1", 0, &result), OKV_EDENIED);
    assert_int_equal(etcd_get(root, "/other", &result), OKV_OK);
    assert_int_equal(result.count, 0);

    /* A change of users makes tokens old, of a password invalid: both are renewed. */
    etcd_process_post(&cluster, "auth/user/add", "{\"name\":\"another\",\"password\":\"a\"}",
                      root->token);
    assert_int_equal(etcd_swap(etcd, "/okv/b", 0, "1", 0, &result), OKV_OK);
    assert_int_equal(etcd_get(root, "/okv/", &result), OKV_OK);
    etcd_process_post(&cluster, "auth/user/changepw", "{\"name\":\"okv\",\"password\":\"o\"}",
                      root->token);
    assert_int_equal(etcd_swap(etcd, "/okv/c", 0, "1", 0, &result), OKV_OK);
    okv_etcd_destroy(&etcd);
    okv_etcd_destroy(&root);
}

/* A get with `options`, which nobody can answer. */
static void expect_no_tls(const struct okv_etcd_options *options)
{
    struct okv_etcd *etcd = etcd_client(options);
    struct etcd_result result = {0};

    okv_etcd_get(etcd, "/", pace_ms(300), etcd_take, &result);
    etcd_await(etcd, &result, 0);
    assert_int_equal(result.status, OKV_ETIMEDOUT);
    assert_string_not_equal(result.why, "");
    okv_etcd_destroy(&etcd);
}

TEST_WITH(certificates_are_checked_on_both_sides, NULL, end)
{
    const char *folder = getenv("OKV_TEST_TLS");
    char ca[256], other[256], cert[256], key[256];
    struct etcd_result result;

    assert_non_null(folder);
    etcd_process_start(&cluster, 1, true);
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    snprintf(other, sizeof other, "%s/other.pem", folder);
    snprintf(cert, sizeof cert, "%s/member.pem", folder);
    snprintf(key, sizeof key, "%s/member.key", folder);
    struct okv_etcd_options options = {
        .urls = cluster.urls, .ca = ca, .cert = cert, .key = key, .member_ms = PACE_GUARD_MS};
    struct okv_etcd *etcd = etcd_client(&options);
    assert_int_equal(etcd_swap(etcd, "/a", 0, "1", 0, &result), OKV_OK);
    assert_int_equal(etcd_get(etcd, "/a", &result), OKV_OK);
    assert_int_equal(result.count, 1);
    okv_etcd_destroy(&etcd);
    options.ca = other;
    expect_no_tls(&options);
    options.ca = NULL;
    expect_no_tls(&options);
    options.ca = ca;
    options.cert = options.key = NULL;
    expect_no_tls(&options);
    options.cert = options.key = "/there/is/none.pem";
    expect_no_tls(&options);
}

static void set_up_anew(void)
{
    etcd_process_kill(&cluster, 0);
    etcd_process_wipe(&cluster);
    etcd_process_restart(&cluster, 0);
}

/* With the same addresses and the same token it has the same id. */
TEST_WITH(an_etcd_that_was_set_up_anew_is_noticed, NULL, end)
{
    etcd_process_start(&cluster, 1, false);
    struct okv_etcd *etcd = client(0);
    struct etcd_result result, watched = {0};

    assert_int_equal(etcd_swap(etcd, "/a", 0, "1", 0, &result), OKV_OK);
    uint64_t cluster_id = result.cluster_id;
    assert_int_equal(okv_etcd_watch(etcd, "/", etcd_take, &watched), OKV_OK);
    etcd_await(etcd, &watched, 0);
    assert_int_equal(watched.status, OKV_OK);
    set_up_anew();
    while (watched.status != OKV_ELOST)
        etcd_await(etcd, &watched, watched.times);
    assert_int_equal(etcd_get(etcd, "/", &result), OKV_ELOST);
    assert_int_equal(etcd_swap(etcd, "/a", 0, "1", 0, &result), OKV_ELOST);
    okv_etcd_destroy(&etcd);
    etcd = client(0);
    assert_int_equal(etcd_get(etcd, "/", &result), OKV_OK);
    assert_int_equal(result.count, 0);
    assert_true(result.cluster_id == cluster_id);
    okv_etcd_destroy(&etcd);

    cluster.token = "second";
    set_up_anew();
    etcd = etcd_client(&(struct okv_etcd_options){
        .urls = cluster.urls, .cluster_id = cluster_id, .member_ms = PACE_GUARD_MS});
    assert_int_equal(etcd_get(etcd, "/", &result), OKV_ELOST);
    assert_true(result.cluster_id != cluster_id);
    okv_etcd_destroy(&etcd);
}
