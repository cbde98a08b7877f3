/* Rendezvous reads: values that the server READs from a client's memory, and the extents reserved
 * for them. */
#include "server/database/reply_cache.h"
#include "tests/support/test.h"

#include "server/clients/client_table.h"
#include "server/session/long_write.h"
#include "server/session/session.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"
#include "tests/support/server_core.h"

#define REGION_LENGTH (UINT64_C(4) << 20)
#define VALUE_MAX (UINT32_C(1) << 20)
#define SLICE 30000u
#define CLIENT 9
#define REQUEST_SLOTS 26u /* one for each letter */

/* A session over a transport that only records rendezvous reads. */
struct rendezvous_reads {
    struct server_core core;
    struct okv_session *session;
    struct okv_conn conn;
    uint64_t heap_used;    /* of an empty table */
    int rendezvous_answer; /* what the transport returns for rendezvous reads */
    unsigned recorded;     /* rendezvous reads so far */
    unsigned released;     /* messages */
    uint8_t keys[REQUEST_SLOTS][3];
    struct okv_rendezvous rendezvous[2 * OKV_RENDEZVOUS_MAX];
};

static int record_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous)
{
    struct rendezvous_reads *rendezvous_reads = conn->user;

    if (rendezvous_reads->rendezvous_answer)
        return rendezvous_reads->rendezvous_answer;
    assert_in_range(rendezvous_reads->recorded, 0, 2 * OKV_RENDEZVOUS_MAX - 1);
    rendezvous_reads->rendezvous[rendezvous_reads->recorded++] = *rendezvous;
    return 0;
}

static void record_release(struct okv_endpoint *endpoint, const struct okv_event *message)
{
    struct rendezvous_reads *rendezvous_reads = message->conn->user;

    (void)endpoint;
    rendezvous_reads->released++;
}

static const struct okv_transport_ops RENDEZVOUS_OPS = {
    .name = "rendezvous_reads", .rendezvous = record_rendezvous, .recv_release = record_release};

static uint64_t heap_used(const struct rendezvous_reads *rendezvous_reads)
{
    return okv_heap_used(&rendezvous_reads->core.database->store.heap);
}

static int rendezvous_reads_setup(void **state)
{
    static const struct okv_store_params params = {.length = REGION_LENGTH, .max_value = VALUE_MAX};
    struct rendezvous_reads *rendezvous_reads = calloc(1, sizeof *rendezvous_reads);

    assert_non_null(rendezvous_reads);
    server_core_open(&rendezvous_reads->core, &params);
    rendezvous_reads->session =
        server_core_session(&rendezvous_reads->core, 1, CLIENT, 0, REQUEST_SLOTS);
    rendezvous_reads->conn = (struct okv_conn){.ops = &RENDEZVOUS_OPS, .user = rendezvous_reads};
    rendezvous_reads->session->conn = &rendezvous_reads->conn;
    rendezvous_reads->heap_used = heap_used(rendezvous_reads);
    *state = rendezvous_reads;
    return 0;
}

static int rendezvous_reads_teardown(void **state)
{
    struct rendezvous_reads *rendezvous_reads = *state;

    okv_reply_cache_release(rendezvous_reads->core.database->reply_caches,
                            rendezvous_reads->session->reply_cache,
                            rendezvous_reads->session->common.id, 1, true);
    okv_client_table_remove(rendezvous_reads->core.server->clients,
                            &rendezvous_reads->session->common);
    okv_session_destroy(rendezvous_reads->session);
    server_core_close(&rendezvous_reads->core);
    free(rendezvous_reads);
    return 0;
}

/* Begins a rendezvous read of `length` bytes for a key of this letter. The message stays. */
static int rendezvous_begin(struct rendezvous_reads *rendezvous_reads, char letter, uint32_t length,
                            uint16_t flags)
{
    uint8_t *key = rendezvous_reads->keys[letter - 'a'];
    const struct okv_event message = {.type = OKV_EVENT_RECV, .conn = &rendezvous_reads->conn};
    const struct okv_request_message request = {
        .opcode = OKV_OP_PUT,
        .slot = (uint16_t)(letter - 'a'),
        .sequence = (uint64_t)letter * 1000,
        .flags = flags | OKV_REQUEST_RENDEZVOUS,
        .key = key,
        .key_length = 3,
        .value_length = length,
        .rendezvous_address = (uint64_t)letter << 40,
        .rendezvous_key = (uint32_t)letter,
    };

    memcpy(key, (uint8_t[]){'k', 'e', (uint8_t)letter}, 3);
    return okv_long_write_begin_put(rendezvous_reads->session, &rendezvous_reads->core.executor,
                                    &message, &request);
}

/* Rendezvous read `number` ends with `status`. A successful one has filled its extent with `fill`.
 */
static void rendezvous_end(struct rendezvous_reads *rendezvous_reads, unsigned number, int status,
                           int fill)
{
    const struct okv_rendezvous *rendezvous = &rendezvous_reads->rendezvous[number];
    const struct okv_event event = {.type = OKV_EVENT_RENDEZVOUS_DONE,
                                    .status = status,
                                    .conn = &rendezvous_reads->conn,
                                    .cookie = rendezvous->cookie};

    if (status == 0)
        memset((uint8_t *)rendezvous_reads->core.database->region.base + rendezvous->offset, fill,
               rendezvous->length);
    unsigned released = rendezvous_reads->released;
    struct okv_long_write *write =
        okv_long_write_arrived(rendezvous_reads->session, &rendezvous_reads->core.executor, &event);
    while (write->state == OKV_LONG_WRITE_RUNNING) {
        assert_int_equal(rendezvous_reads->released, released);
        okv_long_write_run(write, &rendezvous_reads->core.executor, SLICE);
    }
    assert_int_equal(rendezvous_reads->released, released + 1);
}

/* Only the rendezvous read of this letter waits to be answered. Answers it. */
static uint64_t rendezvous_answer(struct rendezvous_reads *rendezvous_reads, char letter,
                                  int status)
{
    struct okv_long_write *rendezvous = okv_long_write_ended(rendezvous_reads->session);

    assert_non_null(rendezvous);
    uint64_t version = rendezvous->reply.version;
    assert_int_equal(rendezvous->reply.opcode, OKV_OP_PUT);
    assert_int_equal(rendezvous->reply.slot, letter - 'a');
    assert_int_equal(rendezvous->reply.sequence, letter * 1000);
    assert_int_equal(rendezvous->reply.status, status);
    assert_int_equal(rendezvous->reply.value_length, 0);
    okv_long_write_free(rendezvous);
    return version;
}

static void expect_nothing_reserved(const struct rendezvous_reads *rendezvous_reads)
{
    assert_int_equal(heap_used(rendezvous_reads), rendezvous_reads->heap_used);
}

#define RENDEZVOUS_TEST(name) TEST_WITH(name, rendezvous_reads_setup, rendezvous_reads_teardown)

RENDEZVOUS_TEST(a_rendezvous_puts_its_value)
{
    static const uint32_t lengths[] = {1, 200, 4096, 50000, 1 << 16, VALUE_MAX};
    struct rendezvous_reads *rendezvous_reads = *state;

    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', lengths[i], 0), 0);
        assert_int_equal(rendezvous_reads->rendezvous[0].address, (uint64_t)'a' << 40);
        assert_int_equal(rendezvous_reads->rendezvous[0].key, 'a');
        assert_int_equal(rendezvous_reads->rendezvous[0].length, lengths[i]);
        assert_true(
            okv_range_inside(rendezvous_reads->rendezvous[0].offset, lengths[i], REGION_LENGTH));
        assert_null(okv_long_write_ended(rendezvous_reads->session));
        server_core_expect(&rendezvous_reads->core, "kea", 0, 0, 0);
        rendezvous_end(rendezvous_reads, 0, 0, 'v');
        uint64_t version = rendezvous_answer(rendezvous_reads, 'a', OKV_OK);
        server_core_expect(&rendezvous_reads->core, "kea", 'v', lengths[i], version);
        assert_null(okv_long_write_ended(rendezvous_reads->session));
        server_core_delete(&rendezvous_reads->core, "kea");
        expect_nothing_reserved(rendezvous_reads);
        rendezvous_reads->recorded = 0;
    }
}

RENDEZVOUS_TEST(a_failed_rendezvous_keeps_the_old_value)
{
    struct rendezvous_reads *rendezvous_reads = *state;

    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 20000, 0), 0);
    rendezvous_end(rendezvous_reads, 0, 0, '1');
    uint64_t version = rendezvous_answer(rendezvous_reads, 'a', OKV_OK);
    uint64_t used = heap_used(rendezvous_reads);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 100000, 0), 0);
    assert_true(heap_used(rendezvous_reads) > used);
    rendezvous_end(rendezvous_reads, 1, OKV_ERENDEZVOUS, 0);
    assert_int_equal(rendezvous_answer(rendezvous_reads, 'a', OKV_ERENDEZVOUS), 0);
    assert_int_equal(heap_used(rendezvous_reads), used);
    server_core_expect(&rendezvous_reads->core, "kea", '1', 20000, version);
    assert_int_equal(atomic_load(&rendezvous_reads->core.database->counts.rendezvous_failed), 1);
}

RENDEZVOUS_TEST(a_failed_condition_releases_the_extent)
{
    struct rendezvous_reads *rendezvous_reads = *state;

    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 20000, OKV_REQUEST_IF_ABSENT), 0);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 30000, OKV_REQUEST_IF_ABSENT), 0);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'b', 40000, OKV_REQUEST_IF_VERSION), 0);
    rendezvous_end(rendezvous_reads, 1, 0, '1');
    uint64_t version = rendezvous_answer(rendezvous_reads, 'a', OKV_OK);
    rendezvous_end(rendezvous_reads, 0, 0, '0');
    assert_int_equal(rendezvous_answer(rendezvous_reads, 'a', OKV_EEXISTS), version);
    rendezvous_end(rendezvous_reads, 2, 0, '2');
    assert_int_equal(rendezvous_answer(rendezvous_reads, 'b', OKV_ENOTFOUND), 0);
    server_core_expect(&rendezvous_reads->core, "kea", '1', 30000, version);
    server_core_expect(&rendezvous_reads->core, "keb", 0, 0, 0);
    assert_int_equal(atomic_load(&rendezvous_reads->core.database->counts.conditions_failed), 2);
    server_core_delete(&rendezvous_reads->core, "kea");
    expect_nothing_reserved(rendezvous_reads);
}

RENDEZVOUS_TEST(a_rendezvous_is_in_use_until_it_is_answered)
{
    struct rendezvous_reads *rendezvous_reads = *state;

    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++)
        assert_int_equal(rendezvous_begin(rendezvous_reads, (char)('a' + i), 1000, 0), 0);
    uint64_t used = heap_used(rendezvous_reads);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'x', 1000, 0), OKV_EAGAIN);
    rendezvous_end(rendezvous_reads, 2, 0, 'v');
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'x', 1000, 0), OKV_EAGAIN);
    assert_int_equal(heap_used(rendezvous_reads), used);
    assert_int_equal(rendezvous_reads->recorded, OKV_RENDEZVOUS_MAX);
    rendezvous_answer(rendezvous_reads, 'c', OKV_OK);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'x', 1000, 0), 0);
    assert_int_equal(rendezvous_reads->rendezvous[OKV_RENDEZVOUS_MAX].cookie,
                     rendezvous_reads->rendezvous[2].cookie);
    for (unsigned i = OKV_RENDEZVOUS_MAX + 1; i-- > 0;)
        if (i != 2)
            rendezvous_end(rendezvous_reads, i, OKV_ERENDEZVOUS, 0);
    server_core_delete(&rendezvous_reads->core, "kec");
    expect_nothing_reserved(rendezvous_reads);
}

RENDEZVOUS_TEST(a_rendezvous_that_cannot_begin_reserves_nothing)
{
    static const int answers[] = {OKV_EAGAIN, OKV_EUNSUPPORTED, OKV_EDISCONNECTED};
    struct rendezvous_reads *rendezvous_reads = *state;

    for (unsigned i = 0; i < sizeof answers / sizeof *answers; i++) {
        rendezvous_reads->rendezvous_answer = answers[i];
        assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 1000, 0), answers[i]);
    }
    rendezvous_reads->rendezvous_answer = 0;
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', VALUE_MAX + 1, 0), OKV_EVALUESIZE);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', UINT32_MAX, 0), OKV_EVALUESIZE);
    atomic_store(&rendezvous_reads->session->rights, OKV_RIGHT_READ);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 1000, 0), OKV_EDENIED);
    assert_int_equal(rendezvous_reads->recorded, 0);
    assert_int_equal(rendezvous_reads->session->long_write_count, 0);
    /* An ended connection counts no refusal, nor does a right that is missing. */
    assert_int_equal(atomic_load(&rendezvous_reads->core.database->counts.puts_refused), 3);
    expect_nothing_reserved(rendezvous_reads);
}

RENDEZVOUS_TEST(a_rendezvous_without_room_is_refused)
{
    struct rendezvous_reads *rendezvous_reads = *state;

    server_core_put(&rendezvous_reads->core, "1", 'v', VALUE_MAX, 0);
    server_core_put(&rendezvous_reads->core, "2", 'v', VALUE_MAX, 0);
    server_core_put(&rendezvous_reads->core, "3", 'v', VALUE_MAX, 0);
    uint64_t used = heap_used(rendezvous_reads);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', VALUE_MAX, 0), OKV_EFULL);
    assert_int_equal(heap_used(rendezvous_reads), used);
    assert_int_equal(atomic_load(&rendezvous_reads->core.database->reserved), 0);
    assert_int_equal(rendezvous_reads->recorded, 0);
}

/* A quarter of the region is a value of VALUE_MAX. A session leaves as much of it as it takes. */
/* Others that have a little all the time do not keep it out. */
RENDEZVOUS_TEST(one_rendezvous_read_at_a_time_exceeds_the_share)
{
    struct rendezvous_reads *rendezvous_reads = *state;

    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 1, 0), 0);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'b', VALUE_MAX, 0), 0);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'c', VALUE_MAX, 0), OKV_EAGAIN);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'c', 1, 0), 0);
    for (unsigned i = 0; i < 3; i++) {
        rendezvous_end(rendezvous_reads, i, OKV_ERENDEZVOUS, 0);
        rendezvous_answer(rendezvous_reads, (uint8_t)('a' + i), OKV_ERENDEZVOUS);
    }
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'd', VALUE_MAX, 0), 0);
    rendezvous_end(rendezvous_reads, 3, OKV_ERENDEZVOUS, 0);
    assert_int_equal(rendezvous_reads->session->reserved, 0);
    expect_nothing_reserved(rendezvous_reads);
}

RENDEZVOUS_TEST(rendezvous_reads_have_their_share_of_the_memory)
{
    struct rendezvous_reads *rendezvous_reads = *state;
    atomic_bool *is_exceeded = &rendezvous_reads->core.database->is_exceeded;

    atomic_store(is_exceeded, true);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', VALUE_MAX / 3, 0), 0);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'b', VALUE_MAX / 3 - 7, 0), OKV_EAGAIN);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'b', VALUE_MAX / 3 - 8, 0), 0);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'c', 1, 0), OKV_EAGAIN);
    /* Another session has what is left of it. */
    struct okv_session *session = rendezvous_reads->session;
    uint64_t mine = session->reserved;
    session->reserved = 0;
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'c', VALUE_MAX / 3 + 1, 0), OKV_EAGAIN);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'c', VALUE_MAX / 3, 0), 0);
    session->reserved += mine;
    for (unsigned i = 0; i < 3; i++)
        rendezvous_end(rendezvous_reads, i, OKV_ERENDEZVOUS, 0);
    atomic_store(is_exceeded, false);
    assert_int_equal(session->reserved, 0);
    assert_int_equal(atomic_load(&rendezvous_reads->core.database->reserved), 0);
    assert_int_equal(atomic_load(&rendezvous_reads->core.database->counts.puts_refused), 0);
    expect_nothing_reserved(rendezvous_reads);
}

/* A value that arrives after the connection ended is not put, because no reply can leave. */
RENDEZVOUS_TEST(a_session_that_ends_releases_all_extents)
{
    struct rendezvous_reads *rendezvous_reads = *state;

    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++)
        assert_int_equal(rendezvous_begin(rendezvous_reads, (char)('a' + i), 1000, 0), 0);
    rendezvous_reads->session->closing = true;
    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++)
        rendezvous_end(rendezvous_reads, i, i % 2 ? OKV_EDISCONNECTED : 0, 'v');
    assert_int_equal(atomic_load(&rendezvous_reads->core.database->store.totals.items), 0);
    expect_nothing_reserved(rendezvous_reads);
}

/* The reply cache's verdict on the write of this letter. */
static enum okv_reply_cache_verdict verdict_on(const struct okv_session *session, char letter,
                                               struct okv_reply_message *reply)
{
    static uint8_t value[OKV_WRITE_REPLY_MAX];

    return okv_reply_cache_begin(session->reply_cache, (uint16_t)(letter - 'a'),
                                 (uint64_t)letter * 1000, reply, value);
}

RENDEZVOUS_TEST(the_reply_of_a_rendezvous_is_remembered)
{
    struct rendezvous_reads *rendezvous_reads = *state;
    struct okv_reply_message reply;

    assert_int_equal(verdict_on(rendezvous_reads->session, 'a', &reply), OKV_REPLY_CACHE_APPLY);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 20000, 0), 0);
    assert_int_equal(verdict_on(rendezvous_reads->session, 'a', &reply), OKV_REPLY_CACHE_WAIT);
    rendezvous_end(rendezvous_reads, 0, 0, 'v');
    assert_int_equal(verdict_on(rendezvous_reads->session, 'a', &reply), OKV_REPLY_CACHE_ANSWER);
    assert_int_equal(reply.status, OKV_OK);
    assert_int_equal(reply.version, rendezvous_answer(rendezvous_reads, 'a', OKV_OK));
    /* A failed condition is a reply as well. */
    assert_int_equal(verdict_on(rendezvous_reads->session, 'b', &reply), OKV_REPLY_CACHE_APPLY);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'b', 20000, OKV_REQUEST_IF_VERSION), 0);
    rendezvous_end(rendezvous_reads, 1, 0, 'v');
    rendezvous_answer(rendezvous_reads, 'b', OKV_ENOTFOUND);
    assert_int_equal(verdict_on(rendezvous_reads->session, 'b', &reply), OKV_REPLY_CACHE_ANSWER);
    assert_int_equal(reply.status, OKV_ENOTFOUND);
}

RENDEZVOUS_TEST(a_failed_rendezvous_is_not_remembered)
{
    struct rendezvous_reads *rendezvous_reads = *state;
    struct okv_reply_message reply;

    assert_int_equal(verdict_on(rendezvous_reads->session, 'a', &reply), OKV_REPLY_CACHE_APPLY);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 20000, 0), 0);
    rendezvous_end(rendezvous_reads, 0, OKV_ERENDEZVOUS, 0);
    assert_int_equal(verdict_on(rendezvous_reads->session, 'a', &reply), OKV_REPLY_CACHE_APPLY);
    rendezvous_answer(rendezvous_reads, 'a', OKV_ERENDEZVOUS);
    assert_int_equal(rendezvous_begin(rendezvous_reads, 'a', 20000, 0), 0);
    rendezvous_reads->session->closing = true;
    rendezvous_end(rendezvous_reads, 1, 0, 'v');
    assert_int_equal(verdict_on(rendezvous_reads->session, 'a', &reply), OKV_REPLY_CACHE_APPLY);
}
