/* What a copy knows of the clients of its primary, and what they find when it leads. */
#include "tests/support/test.h"

#include "server/database/reply_cache_log.h"
#include "server/wal/format.h"
#include "shared/base/bytes.h"
#include "shared/base/error.h"

#define LIMIT 4u
#define BASE 100000                /* first session of the next epoch */
#define SILENT (UINT64_C(1) << 20) /* sessions without a record, at most */

static struct okv_reply_caches caches;

static int begin(void **state)
{
    (void)state;
    assert_int_equal(okv_reply_caches_init(&caches, LIMIT, 60000, 1), 0);
    caches.is_durable = true;
    return 0;
}

static int end(void **state)
{
    (void)state;
    okv_reply_caches_abandon(&caches);
    okv_reply_caches_fini(&caches);
    return 0;
}

#define COPIES_TEST(name) TEST_WITH(name, begin, end)

/* ---- records of the log: client N is named by its session N ---- */

static void record_owner(uint8_t client, uint8_t client_id)
{
    const struct okv_reply_cache_owner owner = {.user = "alice", .client_id = {client_id}};
    uint8_t since[OKV_WAL_CLIENT_VALUE_SIZE];
    const struct okv_wal_record record = {.kind = OKV_WAL_CLIENT,
                                          .key = &owner,
                                          .key_length = sizeof owner,
                                          .value = since,
                                          .value_length = sizeof since,
                                          .version = client,
                                          .slots = 4};

    okv_put_u64(since, client);
    assert_int_equal(okv_reply_caches_recover(&caches, &record), 0);
}

static void record_client(uint8_t client)
{
    record_owner(client, client);
}

static void record_reply(uint8_t client, uint64_t session, uint64_t sequence)
{
    const struct okv_wal_reply reply = {
        .client = client, .session = (uint32_t)(session - client), .opcode = OKV_OP_PUT};
    uint8_t key[OKV_WAL_REPLY_SIZE];
    const struct okv_wal_record record = {.kind = OKV_WAL_REPLY,
                                          .key = key,
                                          .key_length = sizeof key,
                                          .version = sequence * 10,
                                          .sequence = sequence};

    okv_wal_reply_encode(&reply, key);
    assert_int_equal(okv_reply_caches_recover(&caches, &record), 0);
}

static void record_first(uint8_t client)
{
    record_client(client);
    record_reply(client, client, 1);
}

/* ---- sessions ---- */

static struct okv_reply_cache_grant connect(uint8_t client, uint64_t session, uint64_t resume)
{
    const struct okv_reply_cache_claim claim = {.owner = {.user = "alice", .client_id = {client}},
                                                .session_id = session,
                                                .resume = (uint32_t)resume,
                                                .credits = 4};
    struct okv_reply_cache_grant grant;

    assert_int_equal(okv_reply_cache_acquire(&caches, &claim, 1, &grant), 0);
    return grant;
}

static void leave(const struct okv_reply_cache_grant *grant, uint64_t session)
{
    okv_reply_cache_release(&caches, grant->reply_cache, session, 1, false);
}

static void expect(const struct okv_reply_cache_grant *grant, uint64_t sequence,
                   enum okv_reply_cache_verdict verdict)
{
    struct okv_reply_message reply;
    uint8_t value[OKV_WRITE_REPLY_MAX];

    assert_int_equal(okv_reply_cache_begin(grant->reply_cache, 0, sequence, &reply, value),
                     verdict);
    if (verdict == OKV_REPLY_CACHE_ANSWER)
        assert_int_equal(reply.version, sequence * 10);
    if (verdict == OKV_REPLY_CACHE_APPLY)
        okv_reply_cache_undone(grant->reply_cache, 0);
}

static void apply(const struct okv_reply_cache_grant *grant, uint64_t sequence)
{
    const struct okv_reply_message done = {
        .opcode = OKV_OP_PUT, .sequence = sequence, .version = sequence * 10};
    struct okv_reply_message reply;
    uint8_t value[OKV_WRITE_REPLY_MAX];

    assert_int_equal(okv_reply_cache_begin(grant->reply_cache, 0, sequence, &reply, value),
                     OKV_REPLY_CACHE_APPLY);
    okv_reply_cache_done(grant->reply_cache, &done);
}

static uint64_t next_session = BASE;

/* Whether the client resumes after `session`, as it comes in the next epoch. */
static bool resumes(uint8_t client, uint64_t session)
{
    uint64_t next = ++next_session;
    struct okv_reply_cache_grant grant = connect(client, next, session);
    bool resumed = grant.resumed;

    okv_reply_cache_release(&caches, grant.reply_cache, next, 1, true);
    return resumed;
}

/* ---- an epoch ---- */

/* A write that was applied here may have been dropped, and is to be applied again. */
COPIES_TEST(an_epoch_begins_with_what_the_log_has)
{
    okv_reply_caches_follow(&caches);
    struct okv_reply_cache_grant grant = connect(1, 1, 0), fresh = connect(2, 2, 0);
    apply(&grant, 5);
    record_client(1);
    record_reply(1, 1, 5);
    apply(&grant, 6); /* in a batch that was not published */
    apply(&fresh, 1); /* likewise */
    expect(&grant, 6, OKV_REPLY_CACHE_ANSWER);
    leave(&grant, 1);
    leave(&fresh, 2);
    assert_int_equal(okv_reply_caches_count(&caches), 2);
    okv_reply_caches_begin_epoch(&caches, BASE, 1);
    assert_int_equal(okv_reply_caches_count(&caches), 1);
    grant = connect(1, BASE + 1, 1);
    assert_true(grant.resumed);
    expect(&grant, 5, OKV_REPLY_CACHE_ANSWER);
    expect(&grant, 6, OKV_REPLY_CACHE_APPLY);
    expect(&grant, 4, OKV_REPLY_CACHE_STALE);
    fresh = connect(2, BASE + 2, 2);
    assert_true(fresh.resumed); /* the log has all of its writes, which are none */
    expect(&fresh, 1, OKV_REPLY_CACHE_APPLY);
    leave(&grant, BASE + 1);
    leave(&fresh, BASE + 2);
}

/* The log goes on, and so does what is known of it. */
COPIES_TEST(every_epoch_begins_with_all_of_the_log)
{
    struct okv_reply_cache_grant grant;

    okv_reply_caches_follow(&caches);
    record_first(1);
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        uint64_t session = epoch * BASE;
        okv_reply_caches_begin_epoch(&caches, session, 1);
        grant = connect(1, session + 1, epoch == 1 ? 1 : session - BASE + 1);
        assert_true(grant.resumed);
        expect(&grant, epoch, OKV_REPLY_CACHE_ANSWER);
        apply(&grant, epoch + 1);
        record_reply(1, session + 1, epoch + 1);
        leave(&grant, session + 1);
    }
    assert_int_equal(okv_reply_caches_next_session(&caches, 0), 3 * BASE + 1 + SILENT);
}

/* Above those of the log, which another database of the server may have driven up. */
COPIES_TEST(sessions_go_on_above_those_of_the_log)
{
    uint64_t last = UINT64_C(50) << 20;

    assert_int_equal(okv_reply_caches_next_session(&caches, SILENT), SILENT);
    assert_int_equal(okv_reply_caches_next_session(&caches, UINT64_C(9) << 40), UINT64_C(9) << 40);
    record_client(1);
    record_reply(1, last, 1);
    assert_int_equal(okv_reply_caches_next_session(&caches, UINT64_C(4) << 20), last + SILENT);
    assert_int_equal(okv_reply_caches_next_session(&caches, last + SILENT + 1), last + SILENT + 1);
    /* A client says the low half of its last one. */
    assert_int_equal(okv_reply_caches_next_session(&caches, last + (UINT64_C(1) << 31)),
                     last + SILENT);
}

/* ---- how many clients ---- */

COPIES_TEST(those_that_wrote_last_are_known)
{
    okv_reply_caches_follow(&caches);
    for (uint8_t client = 1; client <= 2 * LIMIT; client++)
        record_first(client);
    record_reply(1, 1, 2); /* its session is the oldest */
    record_reply(6, 6, 2);
    assert_int_equal(atomic_load(&caches.forgotten), 0);
    record_client(2 * LIMIT + 1);
    assert_int_equal(atomic_load(&caches.forgotten), 7); /* 8 is known, 2 to 5 and 7 are not */
    record_reply(2 * LIMIT + 1, 2 * LIMIT + 1, 1);
    okv_reply_caches_begin_epoch(&caches, BASE, 1);
    assert_int_equal(okv_reply_caches_count(&caches), LIMIT);
    struct okv_reply_cache_grant grant = connect(1, ++next_session, 1);
    assert_true(grant.resumed);
    expect(&grant, 2, OKV_REPLY_CACHE_ANSWER);
    leave(&grant, next_session);
    assert_true(resumes(6, 6));
    assert_true(resumes(8, 8));
    assert_true(resumes(9, 9));
    for (uint8_t client = 2; client <= 7; client++)
        if (client != 6)
            assert_false(resumes(client, client));
}

/* It goes on, and the log has its CLIENT already. To know a part of its writes is no use. */
COPIES_TEST(a_client_that_was_dropped_does_not_resume)
{
    okv_reply_caches_follow(&caches);
    for (uint8_t client = 1; client <= 2 * LIMIT + 1; client++)
        record_first(client);
    assert_int_equal(atomic_load(&caches.forgotten), LIMIT + 1);
    record_reply(1, 50, 2);
    assert_int_equal(atomic_load(&caches.forgotten), 50);
    okv_reply_caches_begin_epoch(&caches, BASE, 1);
    assert_true(resumes(2 * LIMIT, 2 * LIMIT));
    assert_false(resumes(1, 50));
    assert_false(resumes(2, 51)); /* it may have come as 51, with a write that the log has */
}

/* A snapshot brings them in any order. */
COPIES_TEST(the_later_of_two_caches_of_a_client_counts)
{
    okv_reply_caches_follow(&caches);
    record_owner(9, 1);
    record_reply(9, 9, 3);
    record_owner(5, 1);
    record_reply(5, 5, 7);
    okv_reply_caches_begin_epoch(&caches, BASE, 1);
    assert_int_equal(okv_reply_caches_count(&caches), 1);
    struct okv_reply_cache_grant grant = connect(1, ++next_session, 9);
    assert_true(grant.resumed);
    expect(&grant, 3, OKV_REPLY_CACHE_ANSWER);
    leave(&grant, next_session);
}

COPIES_TEST(a_start_may_find_more_clients)
{
    for (uint8_t client = 1; client <= 5 * LIMIT; client++)
        record_first(client);
    assert_int_equal(atomic_load(&caches.forgotten), 0);
    okv_reply_caches_follow(&caches);
    assert_int_equal(atomic_load(&caches.forgotten), 4 * LIMIT);
    okv_reply_caches_begin_epoch(&caches, BASE, 1);
    assert_true(resumes(4 * LIMIT + 1, 4 * LIMIT + 1));
    assert_false(resumes(4 * LIMIT, 4 * LIMIT));
}
