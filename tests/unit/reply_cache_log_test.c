/* What a log knows of clients: written, recovered in any order, and kept by snapshots. */
#include "tests/support/test.h"

#include "server/database/reply_cache_log.h"
#include "server/wal/append.h"
#include "server/wal/frame.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

#define FIRST OKV_WAL_FRAME_HEADER /* offset of a frame's first record */
#define LIMIT 4
#define BASE 1000        /* above the sessions before a start */
#define SILENT (1 << 20) /* sessions without a record, at most */

/* A server's part, with a log that nobody writes. */
struct fixture {
    struct okv_reply_caches caches;
    struct okv_wal wal;
};

static void fixture_begin(struct fixture *fixture)
{
    memset(fixture, 0, sizeof *fixture);
    assert_int_equal(okv_reply_caches_init(&fixture->caches, LIMIT, 60000, 1), 0);
    fixture->caches.is_durable = true;
    assert_int_equal(okv_wal_batch_init(&fixture->wal.staged), 0);
    pthread_mutex_init(&fixture->wal.lock, NULL);
}

static void fixture_end(struct fixture *fixture)
{
    okv_reply_caches_fini(&fixture->caches);
    pthread_mutex_destroy(&fixture->wal.lock);
    okv_wal_batch_fini(&fixture->wal.staged);
}

static struct okv_reply_cache_grant connect(struct fixture *fixture, uint8_t client,
                                            uint64_t session_id, uint64_t resume)
{
    const struct okv_reply_cache_claim claim = {.owner = {.user = "alice", .client_id = {client}},
                                                .session_id = session_id,
                                                .resume = (uint32_t)resume,
                                                .credits = 4};
    struct okv_reply_cache_grant grant;

    assert_int_equal(okv_reply_cache_acquire(&fixture->caches, &claim, 1, &grant), 0);
    return grant;
}

static void leave(struct fixture *fixture, const struct okv_reply_cache_grant *grant,
                  uint64_t session_id)
{
    okv_reply_cache_release(&fixture->caches, grant->reply_cache, session_id, 1, false);
}

/* A write that was applied, or refused. */
static void apply(struct fixture *fixture, struct okv_reply_cache *reply_cache, uint16_t slot,
                  uint64_t sequence, uint64_t session_id, int status)
{
    struct okv_reply_message reply = {.opcode = OKV_OP_INCR,
                                      .slot = slot,
                                      .sequence = sequence,
                                      .status = status,
                                      .version = 1000 + sequence,
                                      .value = (const uint8_t *)"12345678",
                                      .value_length = 8};
    struct okv_reply_message known;
    uint8_t value[OKV_WRITE_REPLY_MAX];

    assert_int_equal(okv_reply_cache_begin(reply_cache, slot, sequence, &known, value),
                     OKV_REPLY_CACHE_APPLY);
    okv_reply_cache_log(reply_cache, &fixture->wal, session_id, &reply);
    okv_reply_cache_done(reply_cache, &reply);
}

static void expect(struct okv_reply_cache *reply_cache, uint16_t slot, uint64_t sequence,
                   enum okv_reply_cache_verdict verdict)
{
    struct okv_reply_message known;
    uint8_t value[OKV_WRITE_REPLY_MAX];

    assert_int_equal(okv_reply_cache_begin(reply_cache, slot, sequence, &known, value), verdict);
    if (verdict == OKV_REPLY_CACHE_APPLY) {
        okv_reply_cache_undone(reply_cache, slot);
        return;
    }
    if (verdict != OKV_REPLY_CACHE_ANSWER)
        return;
    assert_int_equal(known.status, 0);
    assert_int_equal(known.opcode, OKV_OP_INCR);
    assert_int_equal(known.version, 1000 + sequence);
    assert_int_equal(known.value_length, 8);
    assert_memory_equal(known.value, "12345678", 8);
}

enum { RECORDS_MAX = 64 };

static unsigned records_of(const struct okv_wal *wal, struct okv_wal_record *out)
{
    uint64_t at = FIRST;
    unsigned count = 0;

    while (at < wal->staged.used) {
        assert_true(count < RECORDS_MAX);
        assert_int_equal(
            okv_wal_record_decode(wal->staged.bytes, wal->staged.used, &at, &out[count++]), 0);
    }
    return count;
}

/* A start after what is in this log, read from its end or from its beginning. */
static void recover(struct fixture *next, const struct okv_wal *wal, bool backwards)
{
    struct okv_wal_record records[RECORDS_MAX];
    unsigned count = records_of(wal, records);

    fixture_begin(next);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(
            okv_reply_caches_recover(&next->caches, &records[backwards ? count - 1 - i : i]), 0);
}

static void add(void *to, const struct okv_wal_record *record)
{
    bool knows_client = true;

    okv_wal_add_reply(to, NULL, &knows_client, record);
}

TEST(a_client_goes_on_after_a_start)
{
    struct fixture fixture, next;

    for (unsigned way = 0; way < 4; way++) {
        fixture_begin(&fixture);
        struct okv_reply_cache_grant grant = connect(&fixture, 1, 100, 0);
        assert_false(grant.resumed);
        apply(&fixture, grant.reply_cache, 0, 5, 100, 0);
        apply(&fixture, grant.reply_cache, 2, 6, 100, 0);
        apply(&fixture, grant.reply_cache, 0, 7, 100, 0);
        apply(&fixture, grant.reply_cache, 2, 8, 100, OKV_ECONFLICT);
        leave(&fixture, &grant, 100);
        if (way & 2) { /* from a snapshot */
            fixture.wal.staged.used = FIRST;
            okv_reply_caches_save(&fixture.caches, add, &fixture.wal);
        }
        recover(&next, &fixture.wal, way & 1);
        assert_int_equal(okv_reply_caches_next_session(&next.caches, 0), 100 + SILENT);
        okv_reply_caches_adopt(&next.caches, BASE, 1);
        grant = connect(&next, 1, 2000, 100);
        assert_true(grant.resumed);
        expect(grant.reply_cache, 0, 7, OKV_REPLY_CACHE_ANSWER);
        expect(grant.reply_cache, 0, 5, OKV_REPLY_CACHE_STALE);
        expect(grant.reply_cache, 2, 6, OKV_REPLY_CACHE_ANSWER);
        expect(grant.reply_cache, 2, 8, OKV_REPLY_CACHE_APPLY); /* it changed nothing */
        expect(grant.reply_cache, 1, 9, OKV_REPLY_CACHE_APPLY);
        leave(&next, &grant, 2000);
        fixture_end(&fixture);
        fixture_end(&next);
    }
}

TEST(a_client_that_changed_nothing_goes_on)
{
    struct fixture fixture;

    fixture_begin(&fixture);
    okv_reply_caches_forget(&fixture.caches, 99);
    struct okv_reply_cache_grant grant = connect(&fixture, 1, 2000, 100);
    assert_true(grant.resumed);
    leave(&fixture, &grant, 2000);
    grant = connect(&fixture, 1, 2001, 100); /* the welcome of 2000 was lost */
    assert_true(grant.resumed);
    leave(&fixture, &grant, 2001);
    grant = connect(&fixture, 2, 2002, 99); /* what it changed may have been forgotten */
    assert_false(grant.resumed);
    leave(&fixture, &grant, 2002);
    grant = connect(&fixture, 3, 2003, 0);
    assert_false(grant.resumed);
    leave(&fixture, &grant, 2003);
    fixture_end(&fixture);

    fixture_begin(&fixture);
    fixture.caches.is_durable = false;
    grant = connect(&fixture, 1, 2000, 100);
    assert_false(grant.resumed);
    leave(&fixture, &grant, 2000);
    fixture_end(&fixture);
}

/* Those who wrote last are known, and nobody else resumes. */
TEST(more_clients_than_may_be)
{
    enum { CLIENTS = LIMIT + 2 };
    struct fixture fixture, next;

    fixture_begin(&fixture);
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct okv_reply_cache_grant grant = connect(&fixture, (uint8_t)i, 100 + i, 0);
        apply(&fixture, grant.reply_cache, 0, 5, 100 + i, 0);
        leave(&fixture, &grant, 100 + i);
    }
    recover(&next, &fixture.wal, false);
    assert_int_equal(okv_reply_caches_next_session(&next.caches, 0), 100 + CLIENTS - 1 + SILENT);
    okv_reply_caches_adopt(&next.caches, BASE, 1);
    assert_int_equal(okv_reply_caches_count(&next.caches), LIMIT);
    fixture.wal.staged.used = FIRST; /* a snapshot keeps it so */
    okv_reply_caches_save(&next.caches, add, &fixture.wal);
    fixture_end(&next);
    recover(&next, &fixture.wal, false);
    okv_reply_caches_adopt(&next.caches, BASE, 1);
    for (unsigned i = CLIENTS; i-- > 0;) {
        struct okv_reply_cache_grant grant = connect(&next, (uint8_t)i, 2000 - i, 100 + i);
        assert_int_equal(grant.resumed, i >= CLIENTS - LIMIT);
        leave(&next, &grant, 2000 - i);
    }
    fixture_end(&fixture);
    fixture_end(&next);
}

/* A client whose first reply cache was forgotten has a second one. */
TEST(the_last_reply_cache_counts)
{
    struct fixture fixture, next;

    fixture_begin(&fixture);
    struct okv_reply_cache_grant grant = connect(&fixture, 1, 100, 0);
    apply(&fixture, grant.reply_cache, 0, 5, 100, 0);
    okv_reply_cache_release(&fixture.caches, grant.reply_cache, 100, 1, true);
    grant = connect(&fixture, 1, 200, 0);
    apply(&fixture, grant.reply_cache, 0, 6, 200, 0);
    leave(&fixture, &grant, 200);
    recover(&next, &fixture.wal, true);
    okv_reply_caches_adopt(&next.caches, BASE, 1);
    grant = connect(&next, 1, 2000, 200);
    assert_true(grant.resumed);
    expect(grant.reply_cache, 0, 6, OKV_REPLY_CACHE_ANSWER);
    leave(&next, &grant, 2000);
    fixture_end(&fixture);
    fixture_end(&next);
}

/* A reply without its client, a slot that the client does not have. */
TEST(records_that_make_no_sense)
{
    const struct okv_wal_reply of = {.client = 300, .session = 1, .slot = 3, .opcode = 1};
    const struct okv_wal_reply beyond = {.client = 400, .slot = 1000, .opcode = 1};
    struct okv_reply_cache_owner owner = {.user = "alice", .client_id = {9}};
    uint8_t key[OKV_WAL_REPLY_SIZE], since[OKV_WAL_CLIENT_VALUE_SIZE] = {1};
    struct fixture fixture;

    fixture_begin(&fixture);
    struct okv_wal_record record = {
        .kind = OKV_WAL_REPLY, .key = key, .key_length = sizeof key, .version = 1, .sequence = 1};
    okv_wal_reply_encode(&of, key);
    assert_int_equal(okv_reply_caches_recover(&fixture.caches, &record), 0);
    okv_wal_reply_encode(&beyond, key);
    assert_int_equal(okv_reply_caches_recover(&fixture.caches, &record), 0);
    record = (struct okv_wal_record){.kind = OKV_WAL_CLIENT,
                                     .key = &owner,
                                     .key_length = sizeof owner,
                                     .value = since,
                                     .value_length = sizeof since,
                                     .version = 400,
                                     .slots = 2};
    assert_int_equal(okv_reply_caches_recover(&fixture.caches, &record), 0);
    assert_int_equal(okv_reply_caches_next_session(&fixture.caches, 0), 400 + SILENT);
    okv_reply_caches_adopt(&fixture.caches, BASE, 1);
    assert_int_equal(okv_reply_caches_count(&fixture.caches), 1);
    fixture_end(&fixture);
}

/* A reply from before the start was repeated in a session that left no record. */
TEST(a_recovered_client_is_forgotten_for_good)
{
    struct fixture fixture, next;

    fixture_begin(&fixture);
    struct okv_reply_cache_grant grant = connect(&fixture, 1, 100, 0);
    apply(&fixture, grant.reply_cache, 0, 5, 100, 0);
    leave(&fixture, &grant, 100);
    grant = connect(&fixture, 1, 101, 100);
    expect(grant.reply_cache, 0, 5, OKV_REPLY_CACHE_ANSWER);
    leave(&fixture, &grant, 101);
    recover(&next, &fixture.wal, false);
    okv_reply_caches_adopt(&next.caches, BASE, 1);
    okv_reply_caches_expire(&next.caches, 100000);
    grant = connect(&next, 1, 2000, 101);
    assert_false(grant.resumed);
    leave(&next, &grant, 2000);
    fixture_end(&fixture);
    fixture_end(&next);
}

/* A client tells the id of a session that another one has. */
TEST(clients_do_not_share_a_name)
{
    struct fixture fixture, next;

    fixture_begin(&fixture);
    struct okv_reply_cache_grant first = connect(&fixture, 1, 2000, 0);
    struct okv_reply_cache_grant second = connect(&fixture, 2, 2001, 2000);
    apply(&fixture, first.reply_cache, 0, 5, 2000, 0);
    apply(&fixture, second.reply_cache, 0, 9, 2001, 0);
    leave(&fixture, &first, 2000);
    leave(&fixture, &second, 2001);
    recover(&next, &fixture.wal, false);
    okv_reply_caches_adopt(&next.caches, 3000, 1);
    first = connect(&next, 1, 4000, 2000);
    assert_true(first.resumed);
    expect(first.reply_cache, 0, 5, OKV_REPLY_CACHE_ANSWER);
    second = connect(&next, 2, 4001, 2000);
    assert_true(second.resumed);
    expect(second.reply_cache, 0, 9, OKV_REPLY_CACHE_ANSWER);
    leave(&next, &first, 4000);
    leave(&next, &second, 4001);
    fixture_end(&fixture);
    fixture_end(&next);
}
