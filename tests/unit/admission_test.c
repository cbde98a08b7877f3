/* Limits on clients: in all, per user and per address, and who has to make room. */
#include "tests/support/test.h"

#include "server/clients/admission.h"
#include "shared/format/wire.h"

enum { LIMIT = 10, SOME = 3 };

static struct okv_admission admission_of(struct okv_admission_limits limits)
{
    struct okv_admission admission;

    assert_int_equal(okv_admission_init(&admission, &limits), 0);
    return admission;
}

static struct okv_admission_client from(const char *address)
{
    return (struct okv_admission_client){.user = "", .address = address};
}

static struct okv_admission_client user(const char *name)
{
    return (struct okv_admission_client){.user = name, .address = "somewhere"};
}

static uint32_t admit(struct okv_admission *admission, struct okv_admission_client client)
{
    uint32_t place = UINT32_MAX;

    assert_int_equal(okv_admission_admit(admission, &client, NULL, &place), 0);
    assert_in_range(place, 0, LIMIT - 1);
    return place;
}

static void expect_refusal(struct okv_admission *admission, struct okv_admission_client client,
                           int reason)
{
    uint32_t place;

    assert_int_equal(okv_admission_admit(admission, &client, NULL, &place), reason);
}

/* A client comes back before the server knows that it had gone. */
static int come_back(struct okv_admission *admission, struct okv_admission_client client,
                     uint32_t *place)
{
    uint32_t before = *place;
    int reason = okv_admission_admit(admission, &client, &before, place);

    if (reason == 0)
        okv_admission_release(admission, before);
    return reason;
}

TEST(a_party_is_a_user_or_a_client)
{
    struct okv_admission admission = admission_of((struct okv_admission_limits){.clients = LIMIT});
    uint32_t a = admit(&admission, from("a")), b = admit(&admission, from("a"));

    assert_int_not_equal(okv_admission_party(&admission, a), okv_admission_party(&admission, b));
    okv_admission_release(&admission, a);
    okv_admission_release(&admission, b);
    a = admit(&admission, user("a"));
    b = admit(&admission, user("b"));
    assert_int_equal(okv_admission_party(&admission, admit(&admission, user("a"))),
                     okv_admission_party(&admission, a));
    assert_int_not_equal(okv_admission_party(&admission, a), okv_admission_party(&admission, b));
    okv_admission_fini(&admission);
}

TEST(all_addresses_share_the_limit)
{
    struct okv_admission admission = admission_of((struct okv_admission_limits){.clients = LIMIT});
    uint32_t places[LIMIT];
    char address[16];

    for (int i = 0; i < LIMIT; i++) {
        snprintf(address, sizeof address, "10.0.0.%d", i % 4);
        places[i] = admit(&admission, from(address));
    }
    expect_refusal(&admission, from("10.0.0.1"), OKV_REJECT_BUSY);
    expect_refusal(&admission, from("10.0.0.200"), OKV_REJECT_BUSY);
    okv_admission_release(&admission, places[5]);
    admit(&admission, from("10.0.0.200"));
    expect_refusal(&admission, from("10.0.0.1"), OKV_REJECT_BUSY);
    okv_admission_fini(&admission);
}

/* The same for an address and for a user. */
static void expect_own_limit(struct okv_admission_limits limits,
                             struct okv_admission_client (*client)(const char *name), int reason)
{
    struct okv_admission admission = admission_of(limits);
    uint32_t place = 0;

    for (int i = 0; i < SOME; i++) {
        place = admit(&admission, client("a"));
        admit(&admission, client("b"));
    }
    expect_refusal(&admission, client("a"), reason);
    expect_refusal(&admission, client("b"), reason);
    admit(&admission, client("c"));
    okv_admission_release(&admission, place);
    expect_refusal(&admission, client("b"), reason);
    admit(&admission, client("a"));
    expect_refusal(&admission, client("a"), reason);
    okv_admission_fini(&admission);
}

TEST(an_address_has_its_own_limit)
{
    expect_own_limit((struct okv_admission_limits){.clients = LIMIT, .per_address = SOME}, from,
                     OKV_REJECT_ADDRESS);
}

TEST(a_user_has_its_own_limit)
{
    expect_own_limit((struct okv_admission_limits){.clients = LIMIT, .per_user = SOME}, user,
                     OKV_REJECT_USER);
}

TEST(clients_of_unknown_address_share_one_limit)
{
    struct okv_admission admission =
        admission_of((struct okv_admission_limits){.clients = LIMIT, .per_address = 1});

    admit(&admission, from(""));
    expect_refusal(&admission, from(""), OKV_REJECT_ADDRESS);
    admit(&admission, from("a"));
    okv_admission_fini(&admission);
}

TEST(places_are_reused)
{
    struct okv_admission admission =
        admission_of((struct okv_admission_limits){.clients = LIMIT, .per_address = 1});
    uint32_t places[LIMIT];
    char address[16];

    for (unsigned i = 0; i < 1000; i++) {
        snprintf(address, sizeof address, "%u", i);
        if (i >= LIMIT)
            okv_admission_release(&admission, places[i % LIMIT]);
        places[i % LIMIT] = admit(&admission, from(address));
        expect_refusal(&admission, from(address),
                       i + 1 >= LIMIT ? OKV_REJECT_BUSY : OKV_REJECT_ADDRESS);
    }
    okv_admission_fini(&admission);
}

/* ---- clients that come back ---- */

/* A client that comes back fits even at the limit, but only once. */
TEST(a_replaced_client_does_not_count)
{
    struct okv_admission admission =
        admission_of((struct okv_admission_limits){.clients = LIMIT, .per_address = SOME});
    uint32_t places[LIMIT];
    char address[16];

    for (int i = 0; i < LIMIT; i++) {
        snprintf(address, sizeof address, "%d", i / SOME);
        places[i] = admit(&admission, from(address));
    }
    for (int round = 0; round < 5; round++) {
        assert_int_equal(come_back(&admission, from("0"), &places[0]), 0);
        expect_refusal(&admission, from("new"), OKV_REJECT_BUSY);
    }
    /* From another address, whose limit counts. */
    assert_int_equal(come_back(&admission, from("1"), &places[0]), OKV_REJECT_ADDRESS);
    assert_int_equal(come_back(&admission, from("new"), &places[0]), 0);
    expect_refusal(&admission, from("0"), OKV_REJECT_BUSY);
    okv_admission_fini(&admission);
    /* The replaced client has already left. */
    admission = admission_of((struct okv_admission_limits){.clients = 1, .per_address = 1});
    const struct okv_admission_client client = from("a");
    uint32_t left = admit(&admission, client), place;
    okv_admission_release(&admission, left);
    assert_int_equal(okv_admission_admit(&admission, &client, &left, &place), 0);
    expect_refusal(&admission, from("a"), OKV_REJECT_BUSY);
    okv_admission_fini(&admission);
}

TEST(a_replaced_client_does_not_count_twice_for_its_user)
{
    struct okv_admission admission =
        admission_of((struct okv_admission_limits){.clients = LIMIT, .per_user = SOME});
    uint32_t place = admit(&admission, user("a"));

    for (int i = 1; i < SOME; i++)
        admit(&admission, user("a"));
    for (int round = 0; round < 5; round++) {
        assert_int_equal(come_back(&admission, user("a"), &place), 0);
        expect_refusal(&admission, user("a"), OKV_REJECT_USER);
    }
    okv_admission_release(&admission, place);
    admit(&admission, user("a"));
    okv_admission_fini(&admission);
}

/* ---- places that are kept ---- */

static struct okv_admission_client admin(void)
{
    return (struct okv_admission_client){.user = "admin", .address = "somewhere", .is_admin = true};
}

TEST(the_last_places_are_for_administrators)
{
    enum { KEPT = 2 };
    struct okv_admission admission =
        admission_of((struct okv_admission_limits){.clients = LIMIT, .kept = KEPT});
    uint32_t place = 0;

    for (int i = 0; i < LIMIT - KEPT; i++)
        place = admit(&admission, user("a"));
    expect_refusal(&admission, user("a"), OKV_REJECT_BUSY);
    expect_refusal(&admission, user("b"), OKV_REJECT_BUSY);
    uint32_t of_admin = admit(&admission, admin());
    admit(&admission, admin());
    expect_refusal(&admission, admin(), OKV_REJECT_BUSY);
    assert_int_equal(come_back(&admission, user("a"), &place), 0); /* it takes nothing */
    okv_admission_release(&admission, of_admin);
    expect_refusal(&admission, user("b"), OKV_REJECT_BUSY);
    admit(&admission, admin());
    okv_admission_fini(&admission);
}

/* ---- half-open clients ---- */

static struct okv_admission_client half_open(const char *user, const char *address)
{
    return (struct okv_admission_client){.user = user, .address = address, .is_half_open = true};
}

/* Anybody could have named the address. */
TEST(a_half_open_client_does_not_count_for_its_address)
{
    struct okv_admission admission =
        admission_of((struct okv_admission_limits){.clients = LIMIT, .per_address = 1});
    uint32_t forged[SOME];

    for (int i = 0; i < SOME; i++)
        forged[i] = admit(&admission, half_open("", "here"));
    uint32_t honest = admit(&admission, from("here"));
    expect_refusal(&admission, from("here"), OKV_REJECT_ADDRESS);
    expect_refusal(&admission, half_open("", "here"), OKV_REJECT_ADDRESS);
    assert_false(okv_admission_establish(&admission, forged[0]));
    okv_admission_release(&admission, honest);
    assert_true(okv_admission_establish(&admission, forged[0]));
    assert_false(okv_admission_establish(&admission, forged[1]));
    expect_refusal(&admission, from("here"), OKV_REJECT_ADDRESS);
    for (int i = 0; i < SOME; i++)
        okv_admission_release(&admission, forged[i]);
    admit(&admission, from("here"));
    okv_admission_fini(&admission);
}

TEST(half_open_clients_count_for_their_user)
{
    struct okv_admission admission =
        admission_of((struct okv_admission_limits){.clients = LIMIT, .per_user = SOME});

    for (int i = 0; i < SOME; i++)
        admit(&admission, half_open("a", "here"));
    expect_refusal(&admission, half_open("a", "there"), OKV_REJECT_USER);
    okv_admission_fini(&admission);
}

TEST(who_has_most_half_open_clients)
{
    struct okv_admission admission = admission_of((struct okv_admission_limits){.clients = LIMIT});
    uint32_t a = admit(&admission, half_open("a", "here")),
             b = admit(&admission, half_open("b", "here")),
             nobody = admit(&admission, half_open("", "there"));

    admit(&admission, half_open("a", "elsewhere"));
    admit(&admission, half_open("", "there"));
    admit(&admission, half_open("", "there"));
    admit(&admission, user("b")); /* is there */
    assert_int_equal(okv_admission_half_open(&admission, a), 2);
    assert_int_equal(okv_admission_half_open(&admission, b), 1);
    assert_int_equal(okv_admission_half_open(&admission, nobody), 3);
    assert_true(okv_admission_establish(&admission, a));
    assert_int_equal(okv_admission_half_open(&admission, a), 1);
    okv_admission_fini(&admission);
}

static void expect_short_places(int kept)
{
    struct okv_admission admission =
        admission_of((struct okv_admission_limits){.clients = LIMIT, .kept = (uint32_t)kept});
    int count = LIMIT - kept;
    uint32_t places[LIMIT] = {0};

    admit(&admission, from("here"));
    for (int i = 1; i < count; i++) {
        assert_int_equal(okv_admission_is_short(&admission, LIMIT), i - 1 > 3 * (count - i));
        places[i] = admit(&admission, half_open("", "there"));
    }
    assert_true(okv_admission_is_short(&admission, LIMIT));
    for (int i = 1; i < count; i++)
        assert_true(okv_admission_establish(&admission, places[i]));
    assert_false(okv_admission_is_short(&admission, LIMIT));
    okv_admission_fini(&admission);
}

TEST(half_open_clients_make_places_short)
{
    expect_short_places(0);
    expect_short_places(LIMIT / 4);
}

TEST(limits_follow_from_the_options)
{
    struct okv_config config = {.max_clients = 41,
                                .max_clients_per_user = OKV_CLIENTS_HALF,
                                .max_clients_per_address = OKV_CLIENTS_HALF};
    struct okv_admission_limits limits = okv_admission_limits_of(&config);

    assert_int_equal(limits.clients, 41);
    assert_int_equal(limits.kept, 0);
    assert_int_equal(limits.per_user, 0);
    assert_int_equal(limits.per_address, 21);
    config.users = "a file";
    limits = okv_admission_limits_of(&config);
    assert_int_equal(limits.kept, 10);
    assert_int_equal(limits.per_user, 21);
    assert_int_equal(limits.per_address, 0);
    config.max_clients = 1000;
    config.max_clients_per_user = 0;
    config.max_clients_per_address = 7;
    limits = okv_admission_limits_of(&config);
    assert_int_equal(limits.kept, 16);
    assert_int_equal(limits.per_user, 0);
    assert_int_equal(limits.per_address, 7);
}
