/* Long work: long writes take turns, others are served in between, and nothing is left of a session
 * that ends. The order of events counts, never time. */
#include "tests/support/test.h"

#include "server/session/long_work.h"
#include "server/session/long_write.h"
#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "tests/support/session_fixture.h"
#include "tests/support/store_audit.h"

#define SLICE OKV_LONG_WORK_SLICE
#define LONG (3 * SLICE + 1) /* bytes of a value: four slices */
#define TAIL 9u
#define TAIL_BYTES "123456789"

static int setup(void **state)
{
    static const struct okv_store_params params = {.length = UINT64_C(32) << 20,
                                                   .max_value = 4 * SLICE};

    return fixture_setup_with(state, &params);
}

static uint64_t heap_used(const struct fixture *fixture)
{
    return okv_heap_used(&fixture->core.database->store.heap);
}

/* ---- requests ---- */

static void arrive_append(struct fixture *fixture, struct client *client, const char *key,
                          uint16_t request_slot, uint64_t sequence)
{
    fixture_arrive_append(fixture, client, key, TAIL_BYTES, request_slot, sequence);
}

static void arrive_rendezvous(struct fixture *fixture, struct client *client, const char *key)
{
    const struct okv_request_message put = {
        .opcode = OKV_OP_PUT,
        .sequence = 1,
        .flags = OKV_REQUEST_RENDEZVOUS,
        .key = (const uint8_t *)key,
        .key_length = (uint32_t)strlen(key),
        .value_length = LONG,
    };

    fixture_arrive_as(fixture, client, &put);
}

/* A put of LONG bytes, which have arrived. */
static void arrive_long_put(struct fixture *fixture, struct client *client, const char *key)
{
    arrive_rendezvous(fixture, client, key);
    memset((uint8_t *)fixture->core.database->region.base + client->rendezvous.offset, 'p', LONG);
    fixture_rendezvous_done(fixture, client, (unsigned)client->rendezvous.cookie, 0);
}

static void run_slice(struct fixture *fixture)
{
    assert_true(okv_long_work_run(fixture->worker.sessions) > 0);
}

static bool is_at_work(const struct fixture *fixture)
{
    const struct okv_long_work *work = fixture->worker.sessions->long_work;

    for (unsigned i = 0; i < fixture->core.server->database_count; i++)
        if (!TAILQ_EMPTY(&work[i].running) || !TAILQ_EMPTY(&work[i].held_up))
            return true;
    return false;
}

/* Passes until all long work is done and answered; their number. */
static unsigned finish(struct fixture *fixture)
{
    unsigned passes = 0;

    for (; is_at_work(fixture); passes++)
        fixture_next_pass(fixture);
    return passes;
}

/* The last reply of the client: an append that made a value of this length. */
static void expect_appended(const struct client *client, uint64_t length)
{
    assert_true(client->posted > 0);
    const struct okv_reply_message *reply = &client->replies[client->posted - 1];

    assert_int_equal(reply->opcode, OKV_OP_APPEND);
    assert_int_equal(reply->status, OKV_OK);
    assert_int_equal(reply->value_length, 8);
    assert_int_equal(okv_get_u64(client->values[client->posted - 1]), length);
}

/* The value is `length` bytes of `fill` and the tail `tails` times, as a reader would accept it:
 * the audit compares the checksum. */
struct expected {
    const char *key;
    int fill;
    uint32_t length;
    unsigned tails;
    unsigned found;
};

static void visit(void *context, const struct okv_entry *entry)
{
    struct expected *expected = context;

    if (entry->key_length != strlen(expected->key) ||
        memcmp(entry->key, expected->key, entry->key_length) != 0)
        return;
    expected->found++;
    assert_int_equal(entry->value_length, expected->length + expected->tails * TAIL);
    for (uint32_t i = 0; i < expected->length; i++)
        assert_int_equal(entry->value[i], (uint8_t)expected->fill);
    for (unsigned i = 0; i < expected->tails; i++)
        assert_memory_equal(entry->value + expected->length + i * TAIL, TAIL_BYTES, TAIL);
}

static void expect_stored(struct fixture *fixture, const char *key, int fill, uint32_t length,
                          unsigned tails)
{
    const struct okv_region *region = &fixture->core.database->region;
    const struct okv_store *store = &fixture->core.database->store;
    struct expected expected = {key, fill, length, tails, 0};
    struct store_audit audit;

    store_audit_run(region->base, region->length, store->table.inline_max, visit, &expected,
                    &audit);
    assert_int_equal(expected.found, length > 0);
    assert_int_equal(heap_used(fixture), audit.class_bytes);
    assert_int_equal(atomic_load(&store->heap.pin_count), 0);
    assert_int_equal(atomic_load(&fixture->core.database->reserved), 0);
}

/* ---- the tests ---- */

#define LONG_TEST(name) TEST_WITH(name, setup, fixture_teardown)

LONG_TEST(others_are_served_between_slices)
{
    struct fixture *fixture = *state;
    struct client *busy = &fixture->clients[0], *other = &fixture->clients[1];

    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    arrive_append(fixture, busy, "a", 1, 1);
    arrive_long_put(fixture, busy, "p");
    for (unsigned i = 1; is_at_work(fixture); i++) {
        fixture_arrive(fixture, other, OKV_OP_INCR, 0, i);
        assert_int_equal(other->posted, i);
        assert_int_equal(busy->posted, 0);
        fixture_next_pass(fixture);
        assert_int_equal(other->flushed, i);
    }
    assert_int_equal(other->posted, 7); /* four slices each, the last of both in one */
    assert_int_equal(busy->posted, 2);
    assert_int_equal(busy->released, 2);
    expect_stored(fixture, "a", 'a', LONG, 1);
    expect_stored(fixture, "p", 'p', LONG, 0);
}

LONG_TEST(long_writes_take_turns)
{
    struct fixture *fixture = *state;
    struct okv_long_write *first = &fixture->clients[0].session->long_writes[0];
    struct okv_long_write *second = &fixture->clients[1].session->long_writes[0];

    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    arrive_append(fixture, &fixture->clients[0], "a", 0, 1);
    arrive_long_put(fixture, &fixture->clients[1], "p");
    for (unsigned i = 1; i <= 3; i++) {
        run_slice(fixture);
        assert_int_equal(first->transfer.value.done, i * SLICE);
        assert_int_equal(second->transfer.value.done, (i - 1) * SLICE);
        run_slice(fixture);
        assert_int_equal(first->transfer.value.done, i * SLICE);
        assert_int_equal(second->transfer.value.done, i * SLICE);
    }
    assert_int_equal(first->state, OKV_LONG_WRITE_RUNNING);
    run_slice(fixture); /* has room for the rest of both */
    assert_int_equal(first->state, OKV_LONG_WRITE_ENDED);
    assert_int_equal(second->state, OKV_LONG_WRITE_ENDED);
    assert_int_equal(okv_long_work_run(fixture->worker.sessions), 0);
    fixture_next_pass(fixture);
    expect_appended(&fixture->clients[0], LONG + TAIL);
    assert_int_equal(fixture->clients[1].posted, 1);
    assert_int_equal(fixture->clients[1].replies[0].status, OKV_OK);
}

/* A write that is short counts as a sixteenth of a slice. */
LONG_TEST(short_turns_count)
{
    struct fixture *fixture = *state;
    char key[3] = "a0";

    for (uint16_t i = 0; i < OKV_LONG_WRITES_MAX; i++) {
        key[1] = (char)('0' + i);
        server_core_put(&fixture->core, key, 'a', i < 3 ? 5000 : LONG, 0);
        arrive_append(fixture, &fixture->clients[0], key, i, 1);
    }
    run_slice(fixture);
    const struct okv_long_write *writes = fixture->clients[0].session->long_writes;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(writes[i].state, OKV_LONG_WRITE_ENDED);
    assert_int_equal(writes[3].transfer.value.done, SLICE / 16 * 13);
    finish(fixture);
    assert_int_equal(fixture->clients[0].posted, OKV_LONG_WRITES_MAX);
}

/* Their value before is the one that the other made. */
LONG_TEST(appends_to_one_value_wait_for_each_other)
{
    struct fixture *fixture = *state;

    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    for (uint16_t i = 0; i < 3; i++) {
        arrive_append(fixture, &fixture->clients[0], "a", i, 1);
        arrive_append(fixture, &fixture->clients[1], "a", i, 1);
    }
    assert_in_range(finish(fixture), 6 * 4, 6 * 4 + 6);
    assert_int_equal(fixture->clients[0].posted + fixture->clients[1].posted, 6);
    expect_stored(fixture, "a", 'a', LONG, 6);
}

LONG_TEST(beyond_the_long_writes_of_a_session_requests_wait)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    server_core_put(&fixture->core, "a", 'a', SLICE, 0);
    for (uint16_t i = 0; i < 2 * OKV_LONG_WRITES_MAX; i++)
        arrive_append(fixture, client, "a", i, 1);
    assert_int_equal(client->session->long_write_count, OKV_LONG_WRITES_MAX);
    assert_int_equal(client->session->deferred_count, OKV_LONG_WRITES_MAX);
    finish(fixture);
    assert_int_equal(client->posted, 2 * OKV_LONG_WRITES_MAX);
    assert_int_equal(client->released, 2 * OKV_LONG_WRITES_MAX);
    expect_stored(fixture, "a", 'a', SLICE, 2 * OKV_LONG_WRITES_MAX);
}

/* The put has an effect before the append, which its value then has at the end. */
LONG_TEST(a_put_meanwhile_makes_an_append_begin_again)
{
    static const uint32_t lengths[] = {2 * SLICE, 100, 0};

    for (unsigned i = 0; i < 3; i++) {
        struct fixture *fixture = *state;
        server_core_put(&fixture->core, "a", 'a', LONG, 0);
        arrive_append(fixture, &fixture->clients[0], "a", 0, 1 + i);
        run_slice(fixture);
        run_slice(fixture);
        if (lengths[i])
            server_core_put(&fixture->core, "a", 'b', lengths[i], 0);
        else
            server_core_delete(&fixture->core, "a");
        finish(fixture);
        expect_appended(&fixture->clients[0], lengths[i] + TAIL);
        if (lengths[i])
            expect_stored(fixture, "a", 'b', lengths[i], 1);
    }
}

LONG_TEST(a_touch_meanwhile_does_not)
{
    struct fixture *fixture = *state;
    const struct okv_request_message touch = {.opcode = OKV_OP_TOUCH,
                                              .sequence = 1,
                                              .ttl_ms = 100000000,
                                              .key = (const uint8_t *)"a",
                                              .key_length = 1};

    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    arrive_append(fixture, &fixture->clients[0], "a", 0, 1);
    for (unsigned i = 0; i < 3; i++)
        run_slice(fixture);
    fixture_arrive_as(fixture, &fixture->clients[1], &touch);
    assert_int_equal(finish(fixture), 1);
    expect_appended(&fixture->clients[0], LONG + TAIL);
    assert_int_equal(atomic_load(&fixture->core.database->store.totals.expiring), 1);
}

LONG_TEST(a_right_that_is_lost_meanwhile_counts)
{
    struct fixture *fixture = *state;

    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    arrive_append(fixture, &fixture->clients[0], "a", 0, 1);
    arrive_long_put(fixture, &fixture->clients[1], "p");
    run_slice(fixture);
    for (unsigned i = 0; i < 2; i++)
        atomic_store(&fixture->clients[i].session->rights, OKV_RIGHT_READ);
    finish(fixture);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fixture->clients[i].posted, 1);
        assert_int_equal(fixture->clients[i].replies[0].status, OKV_EDENIED);
    }
    expect_stored(fixture, "a", 'a', LONG, 0);
    expect_stored(fixture, "p", 'p', 0, 0);
}

/* In each state of an append: not begun, waiting, after each slice. */
LONG_TEST(nothing_is_left_of_a_session_that_ends)
{
    for (unsigned slices = 0; slices < 5; slices++) {
        struct fixture *fixture = *state;
        struct client *client = &fixture->clients[0];
        server_core_put(&fixture->core, "a", 'a', LONG, 0);
        arrive_append(fixture, client, "a", 0, 1);
        arrive_append(fixture, client, "a", 1, 1);
        for (unsigned i = 0; i < slices; i++)
            run_slice(fixture);
        if (slices % 2)
            okv_session_end(fixture->worker.sessions, client->session, OKV_SESSION_END_BY_CLIENT);
        if (slices == 3)
            run_slice(fixture); /* it is dropped here, otherwise when the connection has closed */
        okv_session_closed(fixture->worker.sessions, client->session, OKV_EDISCONNECTED);
        assert_int_equal(client->posted, 0);
        assert_int_equal(client->released, 2);
        assert_false(is_at_work(fixture));
        expect_stored(fixture, "a", 'a', LONG, slices == 4);
        fixture_open(fixture, 0, 1, 1);
    }
}

/* The client resends what the old connection had begun. */
LONG_TEST(a_resent_append_is_applied_once)
{
    struct fixture *fixture = *state;
    struct client *first = &fixture->clients[0], *second = &fixture->clients[1];

    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    arrive_append(fixture, first, "a", 0, 1);
    arrive_append(fixture, first, "b", 1, 1);
    finish(fixture);
    expect_appended(first, LONG + TAIL);
    arrive_append(fixture, first, "a", 2, 1);
    run_slice(fixture);
    okv_session_closed(fixture->worker.sessions, second->session, OKV_EDISCONNECTED);
    fixture_open(fixture, 1, 1, 1); /* replaces the first */
    arrive_append(fixture, second, "a", 0, 1);
    expect_appended(second, LONG + TAIL); /* from the reply cache */
    arrive_append(fixture, second, "a", 2, 1);
    assert_int_equal(second->posted, 1); /* the other is still at it */
    run_slice(fixture);
    assert_true(first->closed);
    assert_int_equal(first->released, 3);
    while (second->posted < 2)
        fixture_next_pass(fixture);
    expect_appended(second, LONG + 2 * TAIL);
    assert_int_equal(first->posted, 2);
    assert_int_equal(stat_of(&fixture->core.database->counts.appends), 3);
    expect_stored(fixture, "a", 'a', LONG, 2);
}

LONG_TEST(an_append_without_room_is_refused)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    struct okv_heap *heap = &fixture->core.database->store.heap;

    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    uint64_t filler[64], count = 0;
    while (count < 64 && (filler[count] = okv_heap_alloc(heap, SLICE * 3)))
        count++;
    assert_in_range(count, 1, 63);
    arrive_append(fixture, client, "a", 0, 1);
    finish(fixture);
    assert_int_equal(client->posted, 1);
    assert_int_equal(client->replies[0].status, OKV_EFULL);
    while (count > 0)
        okv_heap_free(heap, filler[--count]);
    expect_stored(fixture, "a", 'a', LONG, 0);
}

/* Memory that others have reserved. */
LONG_TEST(an_append_waits_for_its_share_of_the_memory)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    atomic_uint_fast64_t *reserved = &fixture->core.database->reserved;

    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    atomic_store(reserved, UINT64_C(8) << 20);
    atomic_store(&fixture->core.database->is_exceeded, true);
    arrive_append(fixture, client, "a", 0, 1);
    for (unsigned i = 0; i < 10; i++) {
        fixture->worker.sessions->is_held_up = false;
        assert_int_equal(okv_long_work_run(fixture->worker.sessions), 0);
        assert_true(fixture->worker.sessions->is_held_up); /* it is tried again soon */
    }
    atomic_store(reserved, 0);
    finish(fixture);
    expect_appended(client, LONG + TAIL);
    atomic_store(&fixture->core.database->is_exceeded, false);
    expect_stored(fixture, "a", 'a', LONG, 1);
}

/* The memory of a deleted value is wiped by slices, and a put that needs it waits. */
LONG_TEST(writes_wait_for_memory_that_is_being_wiped)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    struct okv_heap *heap = &fixture->core.database->store.heap;

    heap->wipes = fixture->core.server->config.wipe = true;
    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    server_core_put(&fixture->core, "b", 'b', 100, 0);
    uint64_t filler[64], count = 0, rest[512], rests = 0;
    while (count < 64 && (filler[count] = okv_heap_alloc(heap, SLICE * 3)))
        count++;
    while (rests < 512 && (rest[rests] = okv_heap_alloc(heap, 65536)))
        rests++;
    assert_in_range(count, 1, 63);
    assert_in_range(rests, 1, 511);
    server_core_delete(&fixture->core, "a");
    arrive_rendezvous(fixture, client, "p");
    assert_int_equal(client->session->deferred_count, 1);
    assert_true(okv_heap_has_unwiped(heap));
    unsigned passes = 0;
    for (; client->rendezvous_reads == 0; passes++) {
        fixture->worker.sessions->is_held_up = false;
        fixture_arrive(fixture, &fixture->clients[1], OKV_OP_PING, 0, passes + 1);
        fixture_next_pass(fixture);
        assert_int_equal(fixture->clients[1].posted, passes + 1);
        assert_int_equal(fixture->worker.sessions->is_held_up, client->rendezvous_reads == 0);
    }
    assert_int_equal(passes, 4);
    assert_false(okv_heap_has_unwiped(heap));
    assert_int_equal(atomic_load(&fixture->core.database->counts.puts_refused), 0);
    fixture_rendezvous_done(fixture, client, 0, 0);
    finish(fixture);
    assert_int_equal(client->posted, 1);
    while (count > 0)
        okv_heap_free(heap, filler[--count]);
    while (rests > 0)
        okv_heap_free(heap, rest[--rests]);
    while (okv_heap_has_unwiped(heap))
        fixture_next_pass(fixture);
    expect_stored(fixture, "b", 'b', 100, 0);
}
