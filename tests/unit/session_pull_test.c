/* Pulls: values that the server fetches from a client's memory, and the room reserved for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/session/session.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"
#include "tests/support/server_core.h"

#define REGION_LENGTH (UINT64_C(4) << 20)
#define VALUE_MAX (UINT32_C(1) << 20)
#define CLIENT 9
#define LANES 26u /* one for each letter */

/* A session over a transport that takes every pull down and does nothing. */
struct pulls {
    struct server_core core;
    struct okv_session *session;
    struct okv_conn conn;
    uint64_t heap_used; /* with nothing stored */
    int pull_answer;    /* what the transport says to further pulls */
    unsigned taken;     /* pulls that it was given */
    struct okv_pull pull[2 * OKV_PULLS_MAX];
};

static int take_pull(struct okv_conn *conn, const struct okv_pull *pull)
{
    struct pulls *pulls = conn->user;

    if (pulls->pull_answer)
        return pulls->pull_answer;
    assert_in_range(pulls->taken, 0, 2 * OKV_PULLS_MAX - 1);
    pulls->pull[pulls->taken++] = *pull;
    return 0;
}

static const struct okv_transport_ops PULL_OPS = {.name = "pulls", .pull = take_pull};

static uint64_t heap_used(const struct pulls *pulls)
{
    return okv_heap_used(&pulls->core.server->store.heap);
}

static int pulls_setup(void **state)
{
    static const struct okv_store_params params = {.length = REGION_LENGTH, .max_value = VALUE_MAX};
    struct pulls *pulls = calloc(1, sizeof *pulls);

    assert_non_null(pulls);
    server_core_open(&pulls->core, &params);
    pulls->session = server_core_session(&pulls->core, 1, CLIENT, 0, LANES);
    pulls->conn = (struct okv_conn){.ops = &PULL_OPS, .user = pulls};
    pulls->session->conn = &pulls->conn;
    pulls->heap_used = heap_used(pulls);
    *state = pulls;
    return 0;
}

static int pulls_teardown(void **state)
{
    struct pulls *pulls = *state;

    okv_ledger_give_back(&pulls->core.server->ledgers, pulls->session->ledger, pulls->session->id,
                         1, true);
    okv_session_destroy(pulls->session);
    server_core_close(&pulls->core);
    free(pulls);
    return 0;
}

/* Begins a pull of `length` bytes for a key of this letter; the message is gone afterwards. */
static int pull_begin(struct pulls *pulls, char letter, uint32_t length, uint16_t flags)
{
    uint8_t key[3] = {'k', 'e', (uint8_t)letter};
    struct okv_request_message request = {
        .opcode = OKV_OP_PUT,
        .slot = (uint16_t)(letter - 'a'),
        .sequence = (uint64_t)letter * 1000,
        .flags = flags | OKV_REQUEST_PULL,
        .key = key,
        .key_length = sizeof key,
        .value_length = length,
        .pull_address = (uint64_t)letter << 40,
        .pull_key = (uint32_t)letter,
    };
    int rc =
        okv_session_pull_begin(pulls->session, pulls->core.server, &pulls->core.work, &request);

    memset(key, '?', sizeof key);
    memset(&request, 0xEE, sizeof request);
    return rc;
}

/* The transport says how pull `number` ended; a good one has filled its place with `fill`. */
static void pull_end(struct pulls *pulls, unsigned number, int status, int fill)
{
    const struct okv_pull *pull = &pulls->pull[number];
    const struct okv_event event = {
        .type = OKV_EVENT_PULLED, .status = status, .conn = &pulls->conn, .cookie = pull->cookie};

    if (status == 0)
        memset((uint8_t *)pulls->core.server->region.base + pull->offset, fill, pull->length);
    okv_session_pull_end(pulls->session, pulls->core.server, &pulls->core.work, &event);
}

/* The one pull that waits to be answered is the one of this letter; answers it. */
static uint64_t pull_answer(struct pulls *pulls, char letter, int status)
{
    struct okv_session_pull *pull = okv_session_pull_ended(pulls->session);

    assert_non_null(pull);
    uint64_t version = pull->reply.version;
    assert_int_equal(pull->reply.opcode, OKV_OP_PUT);
    assert_int_equal(pull->reply.slot, letter - 'a');
    assert_int_equal(pull->reply.sequence, letter * 1000);
    assert_int_equal(pull->reply.status, status);
    assert_int_equal(pull->reply.value_length, 0);
    okv_session_pull_free(pulls->session, pull);
    return version;
}

static void expect_nothing_reserved(const struct pulls *pulls)
{
    assert_int_equal(heap_used(pulls), pulls->heap_used);
}

static void a_pull_puts_what_it_brought(void **state)
{
    static const uint32_t lengths[] = {1, 200, 4096, 50000, 1 << 16, VALUE_MAX};
    struct pulls *pulls = *state;

    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(pull_begin(pulls, 'a', lengths[i], 0), 0);
        assert_int_equal(pulls->pull[0].address, (uint64_t)'a' << 40);
        assert_int_equal(pulls->pull[0].key, 'a');
        assert_int_equal(pulls->pull[0].length, lengths[i]);
        assert_true(okv_range_inside(pulls->pull[0].offset, lengths[i], REGION_LENGTH));
        assert_null(okv_session_pull_ended(pulls->session));
        server_core_expect(&pulls->core, "kea", 0, 0, 0);
        pull_end(pulls, 0, 0, 'v');
        uint64_t version = pull_answer(pulls, 'a', OKV_OK);
        server_core_expect(&pulls->core, "kea", 'v', lengths[i], version);
        assert_null(okv_session_pull_ended(pulls->session));
        server_core_delete(&pulls->core, "kea");
        expect_nothing_reserved(pulls);
        pulls->taken = 0;
    }
}

static void a_pull_that_fails_leaves_what_was_there(void **state)
{
    struct pulls *pulls = *state;

    assert_int_equal(pull_begin(pulls, 'a', 20000, 0), 0);
    pull_end(pulls, 0, 0, '1');
    uint64_t version = pull_answer(pulls, 'a', OKV_OK);
    uint64_t used = heap_used(pulls);
    assert_int_equal(pull_begin(pulls, 'a', 100000, 0), 0);
    assert_true(heap_used(pulls) > used);
    pull_end(pulls, 1, OKV_EPULL, 0);
    assert_int_equal(pull_answer(pulls, 'a', OKV_EPULL), 0);
    assert_int_equal(heap_used(pulls), used);
    server_core_expect(&pulls->core, "kea", '1', 20000, version);
    assert_int_equal(atomic_load(&pulls->core.server->stats.pulls_failed), 1);
}

/* The value came, and then the item must not be put. */
static void a_pull_whose_condition_fails_gives_its_place_back(void **state)
{
    struct pulls *pulls = *state;

    assert_int_equal(pull_begin(pulls, 'a', 20000, OKV_REQUEST_IF_ABSENT), 0);
    assert_int_equal(pull_begin(pulls, 'a', 30000, OKV_REQUEST_IF_ABSENT), 0);
    assert_int_equal(pull_begin(pulls, 'b', 40000, OKV_REQUEST_IF_VERSION), 0);
    pull_end(pulls, 1, 0, '1');
    uint64_t version = pull_answer(pulls, 'a', OKV_OK);
    pull_end(pulls, 0, 0, '0');
    assert_int_equal(pull_answer(pulls, 'a', OKV_EEXISTS), version);
    pull_end(pulls, 2, 0, '2');
    assert_int_equal(pull_answer(pulls, 'b', OKV_ENOTFOUND), 0);
    server_core_expect(&pulls->core, "kea", '1', 30000, version);
    server_core_expect(&pulls->core, "keb", 0, 0, 0);
    assert_int_equal(atomic_load(&pulls->core.server->stats.conditions_failed), 2);
    server_core_delete(&pulls->core, "kea");
    expect_nothing_reserved(pulls);
}

/* From the begin to the answer, whether the pull has ended or not. */
static void every_pull_has_a_place_until_it_is_answered(void **state)
{
    struct pulls *pulls = *state;

    for (unsigned i = 0; i < OKV_PULLS_MAX; i++)
        assert_int_equal(pull_begin(pulls, (char)('a' + i), 1000, 0), 0);
    uint64_t used = heap_used(pulls);
    assert_int_equal(pull_begin(pulls, 'x', 1000, 0), OKV_EAGAIN);
    pull_end(pulls, 2, 0, 'v');
    assert_int_equal(pull_begin(pulls, 'x', 1000, 0), OKV_EAGAIN);
    assert_int_equal(heap_used(pulls), used);
    assert_int_equal(pulls->taken, OKV_PULLS_MAX);
    pull_answer(pulls, 'c', OKV_OK);
    assert_int_equal(pull_begin(pulls, 'x', 1000, 0), 0);
    assert_int_equal(pulls->pull[OKV_PULLS_MAX].cookie, pulls->pull[2].cookie);
    for (unsigned i = OKV_PULLS_MAX + 1; i-- > 0;)
        if (i != 2)
            pull_end(pulls, i, OKV_EPULL, 0);
    server_core_delete(&pulls->core, "kec");
    expect_nothing_reserved(pulls);
}

static void a_pull_that_cannot_begin_reserves_nothing(void **state)
{
    static const int answers[] = {OKV_EAGAIN, OKV_EUNSUPPORTED, OKV_EDISCONNECTED};
    struct pulls *pulls = *state;

    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++) {
        pulls->pull_answer = answers[i];
        assert_int_equal(pull_begin(pulls, 'a', 1000, 0), answers[i]);
    }
    pulls->pull_answer = 0;
    assert_int_equal(pull_begin(pulls, 'a', VALUE_MAX + 1, 0), OKV_EVALUESIZE);
    assert_int_equal(pull_begin(pulls, 'a', UINT32_MAX, 0), OKV_EVALUESIZE);
    assert_int_equal(pulls->taken, 0);
    assert_int_equal(pulls->session->pull_count, 0);
    /* A connection that is gone refuses nothing. */
    assert_int_equal(atomic_load(&pulls->core.server->stats.puts_refused), 3);
    expect_nothing_reserved(pulls);
}

static void a_pull_without_room_is_refused(void **state)
{
    struct pulls *pulls = *state;
    unsigned begun = 0;
    int rc;

    while ((rc = pull_begin(pulls, 'a', VALUE_MAX, 0)) == 0)
        begun++;
    assert_int_equal(rc, OKV_EFULL); /* the region is four times as large, and not all is heap */
    assert_in_range(begun, 1, OKV_PULLS_MAX - 1);
    for (unsigned i = 0; i < begun; i++)
        pull_end(pulls, i, OKV_EPULL, 0);
    expect_nothing_reserved(pulls);
}

/* What an ended connection brought is not put, since nobody can be told. */
static void a_session_that_ends_gives_all_places_back(void **state)
{
    struct pulls *pulls = *state;

    for (unsigned i = 0; i < OKV_PULLS_MAX; i++)
        assert_int_equal(pull_begin(pulls, (char)('a' + i), 1000, 0), 0);
    pulls->session->closing = true;
    for (unsigned i = 0; i < OKV_PULLS_MAX; i++)
        pull_end(pulls, i, i % 2 ? OKV_EDISCONNECTED : 0, 'v');
    assert_int_equal(atomic_load(&pulls->core.server->store.totals.items), 0);
    expect_nothing_reserved(pulls);
}

/* What the ledger of `session` says to the write of this letter. */
static enum okv_ledger_verdict verdict_on(const struct okv_session *session, char letter,
                                          struct okv_reply_message *reply)
{
    static uint8_t value[OKV_LEDGER_VALUE_MAX];

    return okv_ledger_begin(session->ledger, (uint16_t)(letter - 'a'), (uint64_t)letter * 1000,
                            reply, value);
}

static void what_a_pull_came_to_is_remembered(void **state)
{
    struct pulls *pulls = *state;
    struct okv_reply_message reply;

    assert_int_equal(verdict_on(pulls->session, 'a', &reply), OKV_LEDGER_APPLY);
    assert_int_equal(pull_begin(pulls, 'a', 20000, 0), 0);
    assert_int_equal(verdict_on(pulls->session, 'a', &reply), OKV_LEDGER_WAIT);
    pull_end(pulls, 0, 0, 'v');
    assert_int_equal(verdict_on(pulls->session, 'a', &reply), OKV_LEDGER_ANSWER);
    assert_int_equal(reply.status, OKV_OK);
    assert_int_equal(reply.version, pull_answer(pulls, 'a', OKV_OK));
    /* One that was not put because of its condition has an answer as well. */
    assert_int_equal(verdict_on(pulls->session, 'b', &reply), OKV_LEDGER_APPLY);
    assert_int_equal(pull_begin(pulls, 'b', 20000, OKV_REQUEST_IF_VERSION), 0);
    pull_end(pulls, 1, 0, 'v');
    pull_answer(pulls, 'b', OKV_ENOTFOUND);
    assert_int_equal(verdict_on(pulls->session, 'b', &reply), OKV_LEDGER_ANSWER);
    assert_int_equal(reply.status, OKV_ENOTFOUND);
}

static void a_pull_that_failed_leaves_no_trace(void **state)
{
    struct pulls *pulls = *state;
    struct okv_reply_message reply;

    assert_int_equal(verdict_on(pulls->session, 'a', &reply), OKV_LEDGER_APPLY);
    assert_int_equal(pull_begin(pulls, 'a', 20000, 0), 0);
    pull_end(pulls, 0, OKV_EPULL, 0);
    assert_int_equal(verdict_on(pulls->session, 'a', &reply), OKV_LEDGER_APPLY);
    pull_answer(pulls, 'a', OKV_EPULL);
    assert_int_equal(pull_begin(pulls, 'a', 20000, 0), 0);
    pulls->session->closing = true;
    pull_end(pulls, 1, 0, 'v');
    assert_int_equal(verdict_on(pulls->session, 'a', &reply), OKV_LEDGER_APPLY);
}

#define PULL_TEST(test) cmocka_unit_test_setup_teardown(test, pulls_setup, pulls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PULL_TEST(a_pull_puts_what_it_brought),
        PULL_TEST(a_pull_that_fails_leaves_what_was_there),
        PULL_TEST(a_pull_whose_condition_fails_gives_its_place_back),
        PULL_TEST(every_pull_has_a_place_until_it_is_answered),
        PULL_TEST(a_pull_that_cannot_begin_reserves_nothing),
        PULL_TEST(a_pull_without_room_is_refused),
        PULL_TEST(a_session_that_ends_gives_all_places_back),
        PULL_TEST(what_a_pull_came_to_is_remembered),
        PULL_TEST(a_pull_that_failed_leaves_no_trace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
