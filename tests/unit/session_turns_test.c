/* Whose turn it is when several have work: databases take turns, and nobody has to stand behind
 * those that wait. The order of events counts, never time. */
#include <inttypes.h>

#include "tests/support/test.h"

#include "server/command/admin.h"
#include "server/core/turn.h"
#include "server/session/admit.h"
#include "server/session/long_work.h"
#include "server/session/long_write.h"
#include "server/store/state.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "tests/support/session_fixture.h"

#define SLICE OKV_LONG_WORK_SLICE
#define LONG (3 * SLICE + 1) /* bytes of a value: four slices */
#define INDEX_BITS 16        /* more than the index has */
#define COLLIDING_KEY 56

static const struct okv_store_params params = {.length = UINT64_C(32) << 20,
                                               .max_value = 4 * SLICE};

static int setup(void **state)
{
    return fixture_setup_with(state, &params);
}

/* The second client is in a database of its own. */
static int setup_two(void **state)
{
    assert_int_equal(fixture_setup_databases(state, &params, 2), 0);
    struct fixture *fixture = *state;
    struct okv_sessions *sessions = fixture->worker.sessions;
    struct server_core *core = &fixture->core;

    okv_session_closed(sessions, fixture->clients[1].session, OKV_EDISCONNECTED);
    core->database = &core->server->databases[1];
    fixture_open(fixture, 1, 2, 0);
    fixture->clients[1].session->common.database = 1;
    core->database = core->server->databases;
    return 0;
}

/* Puts into the second database. */
static void put_in_second(struct fixture *fixture, const char *key, int fill, uint32_t length)
{
    fixture->core.database = &fixture->core.server->databases[1];
    server_core_put(&fixture->core, key, fill, length, 0);
    fixture->core.database = fixture->core.server->databases;
}

static void run_slice(struct fixture *fixture)
{
    assert_true(okv_long_work_run(fixture->worker.sessions) > 0);
}

/* However many long writes the other one has. */
TEST_WITH(databases_take_turns, setup_two, fixture_teardown)
{
    struct fixture *fixture = *state;
    const struct okv_long_write *one = &fixture->clients[1].session->long_writes[0];
    char key[3] = "a0";

    put_in_second(fixture, "b", 'b', LONG);
    for (uint16_t i = 0; i < OKV_LONG_WRITES_MAX; i++) {
        key[1] = (char)('0' + i);
        server_core_put(&fixture->core, key, 'a', LONG, 0);
        fixture_arrive_append(fixture, &fixture->clients[0], key, "1", i, 1);
    }
    fixture_arrive_append(fixture, &fixture->clients[1], "b", "1", 0, 1);
    for (unsigned i = 1; i <= 3; i++) {
        run_slice(fixture);
        run_slice(fixture);
        assert_int_equal(one->transfer.value.done, i * SLICE);
    }
    run_slice(fixture);
    run_slice(fixture);
    assert_int_equal(one->state, OKV_LONG_WRITE_ENDED);
    assert_int_equal(fixture->clients[0].session->long_writes[3].state, OKV_LONG_WRITE_RUNNING);
    while (okv_long_work_run(fixture->worker.sessions) > 0)
        fixture_next_pass(fixture);
    fixture_next_pass(fixture);
    assert_int_equal(fixture->clients[0].posted, OKV_LONG_WRITES_MAX);
}

/* The extent of a long value. */
static uint64_t source_of_append(struct fixture *fixture, const char *key)
{
    struct okv_store *store = &fixture->core.database->store;
    struct okv_store_long_value value = {.extent = 0};
    struct okv_store_outcome outcome;
    const struct okv_store_write append = {
        .key = key, .key_length = (uint32_t)strlen(key), .long_value = &value};

    assert_int_equal(okv_store_append(store, fixture->core.works, &append, &outcome),
                     OKV_STORE_LONG);
    uint64_t extent = value.source.offset;
    okv_store_long_release(store, &value);
    return extent;
}

/* They cost those that run nothing, and as long as one runs, the worker does not sleep. */
TEST_WITH(those_that_are_held_up_do_not_slow_others, setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    const struct okv_long_write *other = &fixture->clients[1].session->long_writes[0];
    struct okv_heap *heap = &fixture->core.database->store.heap;
    struct okv_heap_pin pin;

    server_core_put(&fixture->core, "a", 'a', LONG, 0);
    server_core_put(&fixture->core, "b", 'b', LONG, 0);
    uint64_t extent = source_of_append(fixture, "a");
    for (uint16_t i = 0; i < OKV_LONG_WRITES_MAX; i++)
        fixture_arrive_append(fixture, &fixture->clients[0], "a", "1", i, 1);
    assert_true(okv_heap_pin(heap, extent, &pin)); /* as a worker that appends does */
    fixture_arrive_append(fixture, &fixture->clients[1], "b", "1", 0, 1);
    for (unsigned i = 1; i <= 3; i++) {
        run_slice(fixture);
        assert_int_equal(other->transfer.value.done, i * SLICE);
    }
    run_slice(fixture);
    assert_int_equal(other->state, OKV_LONG_WRITE_ENDED);
    assert_int_equal(okv_long_work_run(fixture->worker.sessions), 0);
    assert_true(fixture->worker.sessions->is_held_up);
    okv_heap_unpin(heap, &pin);
    while (okv_long_work_run(fixture->worker.sessions) > 0)
        fixture_next_pass(fixture);
    fixture_next_pass(fixture);
    assert_int_equal(fixture->clients[0].posted, OKV_LONG_WRITES_MAX);
}

static uint64_t fill_heap(struct okv_heap *heap)
{
    uint64_t count = 0;

    while (okv_heap_alloc(heap, SLICE))
        count++;
    return count;
}

static void ping(struct fixture *fixture, struct client *client, uint16_t count)
{
    for (uint16_t i = 0; i < count; i++)
        fixture_arrive(fixture, client, OKV_OP_PING, i, i + 1u);
}

/* However many connections one of them has: here it had the share of all but the first request. */
TEST_WITH(short_requests_of_databases_take_turns, setup_two, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct okv_sessions *sessions = fixture->worker.sessions;
    struct client *one = &fixture->clients[0], *other = &fixture->clients[1];

    sessions->served[0] = OKV_DATABASE_SHARE - 1;
    ping(fixture, one, 3);
    ping(fixture, other, 3);
    okv_sessions_run_ready(sessions);
    assert_int_equal(one->posted, 1);
    assert_int_equal(other->posted, 3);
    assert_int_equal(fixture_next_pass(fixture), 2);
    assert_int_equal(one->posted, 3);
}

/* A request that comes while others of its database wait does not overtake them. */
TEST_WITH(who_waits_comes_before_who_arrives, setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct okv_sessions *sessions = fixture->worker.sessions;
    struct client *one = &fixture->clients[0], *other = &fixture->clients[1];

    sessions->served[0] = OKV_DATABASE_SHARE;
    ping(fixture, one, 2);
    okv_sessions_begin_pass(sessions);
    sessions->served[0] = OKV_DATABASE_SHARE - 1;
    ping(fixture, other, 1);
    okv_sessions_run_ready(sessions);
    assert_int_equal(one->posted, 1);
    assert_int_equal(other->posted, 0);
    okv_sessions_begin_pass(sessions);
    sessions->served[0] = OKV_DATABASE_SHARE - 1;
    okv_sessions_run_ready(sessions);
    assert_int_equal(other->posted, 1);
    assert_int_equal(one->posted, 1);
    fixture_next_pass(fixture);
    assert_int_equal(one->posted, 2);
}

/* Keys of one bucket, however far the index grows. Of such keys and values a page holds six. */
static void put_colliding(struct fixture *fixture, char keys[][COLLIDING_KEY + 1], unsigned count)
{
    uint64_t seed = fixture->core.database->store.table.hash_seed;

    for (unsigned number = 0, found = 0; found < count; number++) {
        char key[COLLIDING_KEY + 1];
        snprintf(key, sizeof key, "%0*u", COLLIDING_KEY, number);
        if (okv_hash_bucket(okv_hash_key(key, COLLIDING_KEY, seed), INDEX_BITS) != 0)
            continue;
        memcpy(keys[found++], key, sizeof key);
        server_core_put(&fixture->core, key, 'v', 500, 0);
    }
}

/* A long bucket is taken apart for each put, and that takes as long as many others. */
TEST_WITH(puts_into_a_long_bucket_use_up_the_share, setup, fixture_teardown)
{
    enum { KEYS = 100 };
    static char keys[KEYS][COLLIDING_KEY + 1];
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    put_colliding(fixture, keys, KEYS);
    for (uint16_t i = 0; i < 3; i++) {
        const struct okv_request_message put = {.opcode = OKV_OP_PUT,
                                                .slot = i,
                                                .sequence = i + 1u,
                                                .key = (const uint8_t *)keys[i],
                                                .key_length = COLLIDING_KEY,
                                                .value = (const uint8_t *)"longer",
                                                .value_length = 6};
        fixture_arrive_as(fixture, client, &put);
    }
    assert_int_equal(client->posted, 1);
    for (unsigned i = 2; i <= 3; i++) {
        assert_int_equal(fixture_next_pass(fixture), 1);
        assert_int_equal(client->posted, i);
    }
}

static void arrive_gets(struct fixture *fixture, const char *key, uint32_t *sequence,
                        unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct okv_request_message get = {.opcode = OKV_OP_GET,
                                                .slot = (uint16_t)i,
                                                .sequence = ++*sequence,
                                                .key = (const uint8_t *)key,
                                                .key_length = COLLIDING_KEY};
        fixture_arrive_as(fixture, &fixture->clients[0], &get);
    }
}

/* Whether they find something in its last page or nothing at all. What is in its first page is as
 * cheap as elsewhere. */
TEST_WITH(gets_from_a_long_bucket_use_up_the_share, setup, fixture_teardown)
{
    enum { KEYS = 100 };
    static char keys[KEYS][COLLIDING_KEY + 1];
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    uint32_t sequence = 0;

    put_colliding(fixture, keys, KEYS);
    server_core_delete(&fixture->core, keys[KEYS - 2]);
    for (unsigned i = KEYS - 2; i < KEYS; i++) {
        unsigned before = client->posted;
        arrive_gets(fixture, keys[i], &sequence, 3);
        assert_int_equal(client->posted, before + 1);
        assert_int_equal(client->replies[before].status, i == KEYS - 1 ? 0 : OKV_ENOTFOUND);
        for (unsigned k = 2; k <= 3; k++) {
            assert_int_equal(fixture_next_pass(fixture), 1);
            assert_int_equal(client->posted, before + k);
        }
        okv_sessions_begin_pass(fixture->worker.sessions);
    }
    unsigned before = client->posted;
    arrive_gets(fixture, keys[0], &sequence, 3);
    assert_int_equal(client->posted, before + 3);
}

/* However short their values are. */
TEST_WITH(long_writes_pay_for_a_long_bucket, setup, fixture_teardown)
{
    enum { KEYS = 120, PUTS = 4 };
    static char keys[KEYS][COLLIDING_KEY + 1];
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    unsigned ended = 0;

    put_colliding(fixture, keys, KEYS);
    for (uint16_t i = 0; i < PUTS; i++) {
        const struct okv_request_message put = {.opcode = OKV_OP_PUT,
                                                .flags = OKV_REQUEST_RENDEZVOUS,
                                                .slot = i,
                                                .sequence = i + 1u,
                                                .key = (const uint8_t *)keys[i],
                                                .key_length = COLLIDING_KEY,
                                                .value_length = 1};
        fixture_arrive_as(fixture, client, &put);
        fixture_rendezvous_done(fixture, client, i, 0);
    }
    run_slice(fixture);
    for (unsigned i = 0; i < PUTS; i++)
        ended += client->session->long_writes[i].state == OKV_LONG_WRITE_ENDED;
    assert_int_equal(ended, PUTS - 1);
}

/* Writes the admin command with this index; after the last one an unknown command, and returns
 * NULL. */
static const char *admin_text(unsigned index, char line[64])
{
    const char *text = okv_admin_command(index);

    snprintf(line, 64, "%s", text ? text : "nonsense");
    if (strchr(line, '%'))
        *strchr(line, '%') = '0';
    return text;
}

/* Asks for the operation with this key, or for each command if it has none. */
static void ask(struct fixture *fixture, unsigned opcode, const char *key)
{
    const struct okv_opcode_facts *facts = okv_opcode_facts(opcode);
    struct client *client = &fixture->clients[0];
    static uint32_t sequence;

    char line[64] = "value";
    bool has_more = true;

    for (unsigned i = 0; has_more; i++) {
        has_more = opcode == OKV_OP_ADMIN && admin_text(i, line);
        struct okv_request_message request = {.opcode = opcode, .sequence = ++sequence};
        if (facts->has_key) {
            request.key = (const uint8_t *)key;
            request.key_length = (uint32_t)strlen(key);
        }
        if (facts->has_value && opcode != OKV_OP_FLUSH) {
            request.value = (const uint8_t *)line;
            request.value_length = (uint32_t)strlen(line);
        }
        unsigned before = client->posted;
        fixture_arrive_as(fixture, client, &request);
        while (client->posted == before)
            fixture_next_pass(fixture);
        client->count = client->posted = 0;
    }
}

/* On a long value, in a long bucket, with many buckets: of each operation and each command. */
TEST_WITH(no_operation_takes_longer_than_a_step, setup, fixture_teardown)
{
    enum { KEYS = 120, FILLERS = 20000 };
    static char keys[KEYS][COLLIDING_KEY + 1];
    struct fixture *fixture = *state;
    struct okv_stats *stats = &fixture->core.server->stats;
    char name[16];

    put_colliding(fixture, keys, KEYS);
    for (unsigned i = 0; i < FILLERS; i++) {
        snprintf(name, sizeof name, "%u", i);
        server_core_put(&fixture->core, name, 'v', 10, 0);
    }
    for (unsigned opcode = 1; opcode < OKV_OP_GOODBYE; opcode++) {
        if (!okv_opcode_facts(opcode)->right || opcode == OKV_OP_REPORT || opcode == OKV_OP_HITS ||
            okv_opcode_is_peer(opcode))
            continue;
        server_core_put(&fixture->core, "long", 'v', LONG, 0);
        ask(fixture, opcode, "long");
        ask(fixture, opcode, keys[KEYS - 1]);
        if (atomic_load(&stats->longest_step) > OKV_TURN_STEP_MAX)
            fail_msg("operation %u: a step of %" PRIuFAST64, opcode,
                     atomic_load(&stats->longest_step));
    }
    assert_true(atomic_load(&stats->longest_step) > OKV_TURN_ITEM);
}

/* Making room takes many steps, and others are served between them. */
TEST_WITH(making_room_takes_a_step_of_each_pass, setup_two, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0], *other = &fixture->clients[1];
    struct okv_stats *stats = &fixture->core.server->stats;
    struct okv_request_message put = {.opcode = OKV_OP_PUT,
                                      .flags = OKV_REQUEST_RENDEZVOUS,
                                      .key = (const uint8_t *)"p",
                                      .key_length = 1,
                                      .value_length = LONG};
    char name[16];
    unsigned passes = 0;

    for (unsigned i = 0; i < 20000; i++) { /* which the steps look at */
        snprintf(name, sizeof name, "%u", i);
        server_core_put(&fixture->core, name, 'v', 10, 1000000);
    }
    assert_true(fill_heap(&fixture->core.database->store.heap) > 0);
    for (put.slot = 0; put.slot < 3; put.slot++) {
        put.sequence = put.slot + 1u;
        fixture_arrive_as(fixture, client, &put);
    }
    assert_int_equal(client->posted, 0);
    assert_true(fixture->worker.sessions->served[0] >= OKV_DATABASE_SHARE);
    while (client->posted < 3) {
        fixture_arrive(fixture, other, OKV_OP_PING, 0, ++passes); /* of the other database */
        assert_int_equal(other->posted, 1);
        other->posted = other->count = 0;
        fixture_next_pass(fixture);
    }
    assert_true(passes > OKV_STORE_SHORT_STEPS);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(client->replies[i].status, OKV_EFULL);
    assert_in_range(atomic_load(&stats->longest_step), 1, OKV_TURN_STEP_MAX);
}

TEST_WITH(a_long_write_that_makes_room_waits_between_the_steps, setup, fixture_teardown)
{
    struct fixture *fixture = *state;
    unsigned passes = 0;

    for (unsigned i = 0; i < 2; i++) {
        const char *key = i ? "b" : "a";
        server_core_put(&fixture->core, key, 'v', LONG, 0);
        fixture_arrive_append(fixture, &fixture->clients[i], key, "1", 0, 1);
    }
    assert_true(fill_heap(&fixture->core.database->store.heap) > 0);
    for (; fixture->clients[0].posted + fixture->clients[1].posted < 2; passes++)
        fixture_next_pass(fixture);
    assert_true(passes > 2);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fixture->clients[i].replies[0].status, OKV_EFULL);
}

/* Freed memory of one database does not keep that of the other from being wiped. */
TEST_WITH(databases_are_wiped_in_turns, setup_two, fixture_teardown)
{
    struct fixture *fixture = *state;
    struct okv_database *databases = fixture->core.server->databases;
    uint64_t offset = okv_heap_alloc(&databases[1].store.heap, 2 * SLICE);

    fixture->core.server->config.wipe = true;
    for (unsigned i = 0; i < 2; i++)
        databases[i].store.heap.wipes = true;
    okv_heap_free(&databases[0].store.heap, okv_heap_alloc(&databases[0].store.heap, 8 * SLICE));
    okv_heap_free(&databases[1].store.heap, offset);
    for (unsigned i = 0; i < 4; i++)
        run_slice(fixture);
    assert_false(okv_heap_has_unwiped(&databases[1].store.heap));
    assert_true(okv_heap_has_unwiped(&databases[0].store.heap));
    while (okv_long_work_run(fixture->worker.sessions) > 0)
        ;
    assert_false(okv_heap_has_unwiped(&databases[0].store.heap));
}
