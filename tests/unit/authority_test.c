/* Who a hello comes from, on a clock of the test. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/identity/authority.h"
#include "shared/base/error.h"

#define KEY_A "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
#define KEY_B "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="
#define KEY_C "Q0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0M="

#define ALICE "[alice]\nkey = " KEY_A "\ncache = read, write\n"
#define BOB "[bob]\nkey = " KEY_B "\ndefault = read\n"

#define SECOND UINT64_C(1000000000)
#define HELLO_SIZE 56

static const char *const DATABASES[] = {"default", "cache"};

static char path[] = "/tmp/okv-authority.XXXXXX";
static struct okv_authority authority;

/* A client with its attempt at connecting. */
struct client {
    const char *user;
    struct okv_user_key *key;
    uint8_t hello[HELLO_SIZE], binding[12], proof[OKV_PROOF_SIZE];
    struct okv_claimant claimant;
};

static void write_users(const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int set_up_file(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 || close(fd) || okv_identity_init();
}

static int tear_down_file(void **state)
{
    (void)state;
    return unlink(path);
}

static int set_up(void **state)
{
    (void)state;
    write_users(ALICE BOB);
    return okv_authority_init(&authority, path, DATABASES, 2, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    okv_authority_fini(&authority);
    return 0;
}

static void begin_client(struct client *client, const char *user, const char *key)
{
    uint8_t fingerprint[OKV_FINGERPRINT_SIZE];

    *client = (struct client){.user = user};
    assert_int_equal(okv_user_key_parse(key, &client->key), 0);
    okv_user_key_fingerprint(client->key, fingerprint);
    memset(client->binding, 0x2b, sizeof client->binding);
    client->claimant = (struct okv_claimant){.hello = client->hello,
                                             .binding = client->binding,
                                             .binding_length = sizeof client->binding,
                                             .client_id = "client 1",
                                             .nonce = "nonce 01",
                                             .key_id = okv_user_key_id(fingerprint),
                                             .proof = client->proof};
}

static void end_client(struct client *client)
{
    okv_user_key_destroy(client->key);
}

/* Makes the client's proof with the cookie. */
static void prove(struct client *client, const uint8_t cookie[OKV_COOKIE_SIZE])
{
    const struct okv_exchange exchange = {.hello = client->hello,
                                          .cookie = cookie,
                                          .binding = client->claimant.binding,
                                          .binding_length = client->claimant.binding_length,
                                          .user = client->user};

    okv_proof_client(client->key, &exchange, client->proof);
}

static enum okv_verdict decide(const struct client *client, uint64_t now_ns)
{
    struct okv_identity identity;
    uint8_t cookie[OKV_COOKIE_SIZE];

    return okv_authority_decide(&authority, &client->claimant, now_ns, &identity, cookie);
}

/* A new attempt: challenge and proof at that time. */
static void attempt(struct client *client, uint64_t number, uint64_t now_ns)
{
    uint8_t cookie[OKV_COOKIE_SIZE];

    okv_put_u64(client->claimant.nonce, number);
    okv_authority_challenge(&authority, &client->claimant, now_ns, cookie);
    prove(client, cookie);
}

#define WITH_AUTHORITY(name) TEST_WITH(name, set_up, tear_down)

WITH_AUTHORITY(a_proof_says_who_it_is)
{
    struct client client;
    struct okv_identity identity;
    uint8_t given[OKV_COOKIE_SIZE], used[OKV_COOKIE_SIZE], fingerprint[OKV_FINGERPRINT_SIZE];

    begin_client(&client, "alice", KEY_A);
    okv_authority_challenge(&authority, &client.claimant, 7 * SECOND, given);
    prove(&client, given);
    assert_int_equal(
        okv_authority_decide(&authority, &client.claimant, 8 * SECOND, &identity, used),
        OKV_VERDICT_PROVEN);
    assert_memory_equal(used, given, sizeof used);
    assert_string_equal(identity.user, "alice");
    okv_user_key_fingerprint(client.key, fingerprint);
    assert_memory_equal(identity.fingerprint, fingerprint, sizeof fingerprint);
    assert_memory_equal(identity.key->bytes, client.key->bytes, OKV_USER_KEY_SIZE);
    assert_string_equal(identity.found->name, "alice");
    assert_int_equal(identity.found->rights[1], OKV_RIGHT_READ | OKV_RIGHT_WRITE);
    end_client(&client);
}

/* Slots begin at multiples of 10 s. */
WITH_AUTHORITY(cookies_last_for_their_slot_and_the_next)
{
    static const struct {
        uint64_t made_ns, decided_ns;
        enum okv_verdict verdict;
    } cases[] = {
        {0, 0, OKV_VERDICT_PROVEN},
        {0, 20 * SECOND - 1, OKV_VERDICT_PROVEN},
        {0, 20 * SECOND, OKV_VERDICT_DENIED},
        {40 * SECOND - 1, 50 * SECOND - 1, OKV_VERDICT_PROVEN},
        {40 * SECOND - 1, 50 * SECOND, OKV_VERDICT_DENIED},
        {60 * SECOND, 80 * SECOND - 1, OKV_VERDICT_PROVEN},
        {90 * SECOND, 110 * SECOND, OKV_VERDICT_DENIED},
        {90 * SECOND, 1000 * SECOND, OKV_VERDICT_DENIED},
        {2010 * SECOND, 2009 * SECOND, OKV_VERDICT_DENIED}, /* of a slot to come */
    };
    struct client client;
    uint8_t first[OKV_COOKIE_SIZE], second[OKV_COOKIE_SIZE];

    begin_client(&client, "alice", KEY_A);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attempt(&client, i, cases[i].made_ns);
        if (decide(&client, cases[i].decided_ns) != cases[i].verdict)
            fail_msg("case %zu", i);
    }
    okv_authority_challenge(&authority, &client.claimant, 20 * SECOND, first);
    okv_authority_challenge(&authority, &client.claimant, 30 * SECOND - 1, second);
    assert_memory_equal(first, second, sizeof first);
    okv_authority_challenge(&authority, &client.claimant, 30 * SECOND, second);
    assert_memory_not_equal(first, second, sizeof first);
    end_client(&client);
}

WITH_AUTHORITY(a_cookie_is_good_once)
{
    struct client client, again;

    begin_client(&client, "alice", KEY_A);
    attempt(&client, 1, 9 * SECOND);
    assert_int_equal(decide(&client, 9 * SECOND), OKV_VERDICT_PROVEN);
    assert_int_equal(decide(&client, 9 * SECOND), OKV_VERDICT_STALE);
    assert_int_equal(decide(&client, 10 * SECOND), OKV_VERDICT_STALE);
    assert_int_equal(decide(&client, 20 * SECOND - 1), OKV_VERDICT_STALE);
    assert_int_equal(decide(&client, 20 * SECOND), OKV_VERDICT_DENIED);

    /* Used at the end of its time, and made just before others in the next slot. */
    begin_client(&again, "alice", KEY_A);
    attempt(&client, 2, 29 * SECOND);
    attempt(&again, 3, 31 * SECOND);
    assert_int_equal(decide(&again, 31 * SECOND), OKV_VERDICT_PROVEN);
    assert_int_equal(decide(&client, 39 * SECOND), OKV_VERDICT_PROVEN);
    assert_int_equal(decide(&again, 39 * SECOND), OKV_VERDICT_STALE);
    assert_int_equal(decide(&client, 40 * SECOND - 1), OKV_VERDICT_STALE);
    assert_int_equal(decide(&again, 50 * SECOND - 1), OKV_VERDICT_STALE);
    end_client(&again);
    end_client(&client);
}

/* Someone who saw a hello cannot spoil its cookie by proofs that do not fit. */
WITH_AUTHORITY(wrong_proofs_use_nothing_up)
{
    struct client client;

    begin_client(&client, "alice", KEY_A);
    attempt(&client, 1, SECOND);
    for (unsigned i = 0; i < OKV_PROOF_SIZE; i++) {
        client.proof[i] ^= 1;
        assert_int_equal(decide(&client, SECOND), OKV_VERDICT_DENIED);
        client.proof[i] ^= 1;
    }
    assert_int_equal(decide(&client, SECOND), OKV_VERDICT_PROVEN);
    end_client(&client);
}

/* The same proof with something else around it, each alone. */
WITH_AUTHORITY(a_proof_fits_one_hello)
{
    struct client client;

    begin_client(&client, "alice", KEY_A);
    attempt(&client, 1, SECOND);
    for (unsigned i = 0; i < OKV_HELLO_PROVEN; i++) {
        client.hello[i] ^= 1;
        assert_int_equal(decide(&client, SECOND), OKV_VERDICT_DENIED);
        client.hello[i] ^= 1;
    }
    for (unsigned i = 0; i < sizeof client.binding; i++) {
        client.binding[i] ^= 1;
        assert_int_equal(decide(&client, SECOND), OKV_VERDICT_DENIED);
        client.binding[i] ^= 1;
    }
    client.claimant.binding_length--;
    assert_int_equal(decide(&client, SECOND), OKV_VERDICT_DENIED);
    client.claimant.binding_length++;
    client.claimant.nonce[7] ^= 1;
    assert_int_equal(decide(&client, SECOND), OKV_VERDICT_DENIED);
    client.claimant.nonce[7] ^= 1;
    client.claimant.client_id[0] ^= 1;
    assert_int_equal(decide(&client, SECOND), OKV_VERDICT_DENIED);
    client.claimant.client_id[0] ^= 1;
    assert_int_equal(decide(&client, SECOND), OKV_VERDICT_PROVEN);
    end_client(&client);
}

WITH_AUTHORITY(others_are_denied)
{
    static const struct {
        const char *user, *key;
    } others[] = {{"alice", KEY_B}, {"bob", KEY_A},    {"carol", KEY_A}, {"alice", KEY_C},
                  {"carol", KEY_C}, {"nobody", KEY_C}, {"", KEY_C}};
    struct client client;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        begin_client(&client, others[i].user, others[i].key);
        attempt(&client, i, SECOND);
        assert_int_equal(decide(&client, SECOND), OKV_VERDICT_DENIED);
        end_client(&client);
    }
    /* A key that is known, under the id of another one. */
    begin_client(&client, "alice", KEY_A);
    attempt(&client, 1, SECOND);
    client.claimant.key_id++;
    assert_int_equal(decide(&client, SECOND), OKV_VERDICT_DENIED);
    end_client(&client);
}

/* Another server, or this one after a restart, has another secret. */
WITH_AUTHORITY(cookies_are_of_one_boot)
{
    struct client client;

    begin_client(&client, "alice", KEY_A);
    attempt(&client, 1, SECOND);
    tear_down(state);
    assert_int_equal(set_up(state), 0);
    assert_int_equal(decide(&client, SECOND), OKV_VERDICT_DENIED);
    end_client(&client);
}

WITH_AUTHORITY(keys_rotate)
{
    struct client old, new;
    struct okv_diag diag = {""};

    begin_client(&old, "alice", KEY_A);
    begin_client(&new, "alice", KEY_C);
    attempt(&new, 1, SECOND);
    assert_int_equal(decide(&new, SECOND), OKV_VERDICT_DENIED);

    write_users("[alice]\nkey = " KEY_A "\nkey = " KEY_C "\n");
    assert_int_equal(okv_authority_reload(&authority, &diag), 0);
    attempt(&old, 2, SECOND);
    assert_int_equal(decide(&old, SECOND), OKV_VERDICT_PROVEN);
    assert_int_equal(decide(&new, SECOND), OKV_VERDICT_PROVEN);

    write_users("[alice]\nkey = " KEY_C "\n");
    assert_int_equal(okv_authority_reload(&authority, &diag), 0);
    /* What was used stays used. */
    assert_int_equal(decide(&new, SECOND), OKV_VERDICT_STALE);
    attempt(&old, 3, SECOND);
    assert_int_equal(decide(&old, SECOND), OKV_VERDICT_DENIED);
    attempt(&new, 4, SECOND);
    assert_int_equal(decide(&new, SECOND), OKV_VERDICT_PROVEN);
    end_client(&new);
    end_client(&old);
}

WITH_AUTHORITY(a_wrong_file_changes_nothing)
{
    const struct okv_users *before = authority.users;
    struct okv_diag diag = {""};
    struct client client;

    write_users("[carol]\nkey = " KEY_C "\n[dave]\n");
    assert_int_equal(okv_authority_reload(&authority, &diag), OKV_EINVAL);
    assert_non_null(strstr(diag.text, ":3: "));
    assert_ptr_equal(authority.users, before);
    begin_client(&client, "alice", KEY_A);
    attempt(&client, 1, SECOND);
    assert_int_equal(decide(&client, SECOND), OKV_VERDICT_PROVEN);
    end_client(&client);
}

TEST(a_wrong_file_is_no_beginning)
{
    struct okv_authority none;
    struct okv_diag diag = {""};

    write_users("[alice]\n");
    assert_int_equal(okv_authority_init(&none, path, DATABASES, 2, &diag), OKV_EINVAL);
    assert_non_null(strstr(diag.text, ":1: "));
}

/* A user who comes too often has to wait, and nobody else. */
WITH_AUTHORITY(users_have_a_share_of_a_slot)
{
    struct client alice, bob;
    uint64_t number;

    begin_client(&alice, "alice", KEY_A);
    begin_client(&bob, "bob", KEY_B);
    for (number = 0; number < OKV_USED_COOKIES_SHARE; number++) {
        attempt(&alice, number, SECOND);
        assert_int_equal(decide(&alice, SECOND), OKV_VERDICT_PROVEN);
    }
    attempt(&alice, number++, SECOND);
    assert_int_equal(decide(&alice, SECOND), OKV_VERDICT_STALE);
    attempt(&bob, number++, SECOND);
    assert_int_equal(decide(&bob, SECOND), OKV_VERDICT_PROVEN);
    assert_int_equal(decide(&bob, SECOND), OKV_VERDICT_STALE);
    /* In the next slot a cookie of this one is still too many. */
    attempt(&alice, number, SECOND);
    assert_int_equal(decide(&alice, 11 * SECOND), OKV_VERDICT_STALE);
    attempt(&alice, number, 11 * SECOND);
    assert_int_equal(decide(&alice, 11 * SECOND), OKV_VERDICT_PROVEN);
    end_client(&bob);
    end_client(&alice);
}

/* Cookies without a client: `number` in front of zeros. */
static bool take(struct okv_used_cookies *used, uint64_t slot, uint32_t user, uint64_t number)
{
    uint8_t cookie[OKV_COOKIE_SIZE] = {0};

    okv_put_u64(cookie, number);
    return okv_used_cookies_take(used, slot, user, cookie);
}

/* As many as it gets. Returns how many that is; `*number` is the next one that is new. */
static unsigned take_all(struct okv_used_cookies *used, uint64_t slot, uint32_t user,
                         uint64_t *number)
{
    unsigned count = 0;

    while (take(used, slot, user, *number)) {
        ++*number;
        count++;
    }
    return count;
}

TEST(a_full_slot_is_closed)
{
    struct okv_used_cookies used;
    uint64_t number = 1;

    assert_int_equal(okv_used_cookies_init(&used, 4), 0);
    for (uint32_t user = 0; user < 4; user++)
        assert_int_equal(take_all(&used, 5, user, &number), OKV_USED_COOKIES_SHARE);
    assert_int_equal(number, OKV_USED_COOKIES_MAX + 1);
    okv_used_cookies_renumber(&used, (const uint32_t[]){0, 1, 2, OKV_USERS_NEW}, 4);
    assert_false(take(&used, 5, 3, number));
    assert_false(take(&used, 5, 3, 1));
    assert_true(take(&used, 6, 3, number));
    assert_true(take(&used, 6, 3, 1));
    assert_false(take(&used, 5, 3, number));
    /* The next but one has its room. */
    assert_true(take(&used, 7, 3, number));
    assert_false(take(&used, 7, 3, number));
    assert_false(take(&used, 6, 3, number));
    okv_used_cookies_fini(&used);
    okv_used_cookies_fini(&used);
}

/* All but one of so many users take what they get. The last one gets `reserve` all the same, and so
 * does it in the slot before, which is as full. */
static void expect_room_beside(uint32_t users, unsigned reserve)
{
    struct okv_used_cookies used;
    uint32_t before[OKV_USERS_MAX];
    uint64_t number = 1;

    for (uint32_t user = 0; user < users; user++)
        before[user] = user;
    assert_int_equal(okv_used_cookies_init(&used, OKV_USERS_MAX), 0);
    okv_used_cookies_renumber(&used, before, users);
    for (uint64_t slot = 5; slot <= 6; slot++)
        for (uint32_t user = 0; user < users - 1; user++)
            assert_true(take_all(&used, slot, user, &number) >= reserve);
    /* A reload changes nothing. */
    okv_used_cookies_renumber(&used, before, users);
    for (uint64_t slot = 5; slot <= 6; slot++)
        for (uint32_t user = 0; user < users - 1; user++)
            assert_int_equal(take_all(&used, slot, user, &number), 0);
    for (uint64_t slot = 5; slot <= 6; slot++)
        assert_int_equal(take_all(&used, slot, users - 1, &number), reserve);
    okv_used_cookies_fini(&used);
}

TEST(others_cannot_use_up_the_reserve_of_a_user)
{
    expect_room_beside(OKV_USERS_MAX, 32);
    expect_room_beside(100, 327);
    expect_room_beside(5, 6553);
    expect_room_beside(2, OKV_USED_COOKIES_SHARE);
}

TEST(cookies_that_meet_in_the_table_are_told_apart)
{
    struct okv_used_cookies used;

    assert_int_equal(okv_used_cookies_init(&used, 1), 0);
    for (uint64_t high = 1; high < 100; high++) { /* from the last place on to the first */
        assert_true(take(&used, 1, 0, high << 32 | UINT32_MAX));
        assert_false(take(&used, 1, 0, high << 32 | UINT32_MAX));
    }
    assert_true(take(&used, 1, 0, 0));
    assert_false(take(&used, 1, 0, 0));
    okv_used_cookies_fini(&used);
}

TEST(shares_follow_their_users)
{
    struct okv_used_cookies used;
    uint64_t number = 1;

    assert_int_equal(okv_used_cookies_init(&used, 3), 0);
    assert_int_equal(take_all(&used, 1, 0, &number), OKV_USED_COOKIES_SHARE);
    assert_int_equal(take_all(&used, 2, 0, &number), OKV_USED_COOKIES_SHARE);
    for (unsigned i = 0; i < 5; i++)
        assert_true(take(&used, 2, 1, number++));
    okv_used_cookies_renumber(&used, (const uint32_t[]){OKV_USERS_NEW, 1, 0}, 3);
    assert_int_equal(take_all(&used, 1, 2, &number), 0);
    assert_int_equal(take_all(&used, 2, 2, &number), 0);
    assert_int_equal(take_all(&used, 2, 1, &number), OKV_USED_COOKIES_SHARE - 5);
    assert_int_equal(take_all(&used, 1, 1, &number), OKV_USED_COOKIES_SHARE);
    assert_int_equal(take_all(&used, 1, 0, &number), OKV_USED_COOKIES_SHARE);
    assert_false(take(&used, 1, 0, 1));
    okv_used_cookies_fini(&used);
}

/* Whoever may ask for reloads gets no cookies by them. */
WITH_AUTHORITY(a_reload_keeps_the_shares_of_a_slot)
{
    struct okv_diag diag = {""};
    struct client alice, bob;
    uint64_t number = 1;

    begin_client(&alice, "alice", KEY_A);
    begin_client(&bob, "bob", KEY_B);
    assert_int_equal(take_all(&authority.used, 1, 0, &number), OKV_USED_COOKIES_SHARE);
    write_users("[carol]\nkey = " KEY_C "\n" BOB ALICE);
    assert_int_equal(okv_authority_reload(&authority, &diag), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(okv_authority_reload(&authority, &diag), 0);
        attempt(&alice, i, SECOND);
        assert_int_equal(decide(&alice, SECOND), OKV_VERDICT_STALE);
        attempt(&bob, i, SECOND);
        assert_int_equal(decide(&bob, SECOND), OKV_VERDICT_PROVEN);
    }
    attempt(&alice, number, 11 * SECOND);
    assert_int_equal(decide(&alice, 11 * SECOND), OKV_VERDICT_PROVEN);
    end_client(&bob);
    end_client(&alice);
}

TEST_PROGRAM(set_up_file, tear_down_file)
