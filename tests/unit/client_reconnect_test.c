/* A connection that is lost and made again: docs/connections.md section 4, row by row. */
#include <time.h>

#include "tests/support/test.h"

#include "client/handle.h"
#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_values.h"

#define LONG_MS (2 * PACE_GUARD_MS)
/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)
#define OTHER_BOOT (STUB_BOOT + 1)

static struct okv_counters counters(void)
{
    struct okv_counters now;

    okv_counters(handle, &now);
    return now;
}

static const struct stub_request *request(unsigned n)
{
    return &stub.requests[n % STUB_REQUESTS];
}

/* Polls until the condition holds; it has to. */
#define POLL_UNTIL(condition)                          \
    do {                                               \
        uint64_t until = pace_guard_end();             \
        while (!(condition) && okv_clock_ns() < until) \
            assert_true(collect_once() >= 0);          \
        assert_true(condition);                        \
    } while (0)

static void write_item(const char *text)
{
    struct okv_entry entry = stub_inline("key", text);

    stub_bucket(okv_hash_bucket(okv_hash_key("key", 3, STUB_SEED), STUB_DEPTH), STUB_DEPTH, &entry,
                1);
}

/* ---- reads ---- */

#define RECONNECT_TEST(name) TEST_WITH(name, values_setup, client_teardown)

RECONNECT_TEST(reads_are_repeated)
{
    write_item("old");
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.delay = HELD;
    get_submit(0);
    get_submit(1);
    assert_int_equal(stub.reads_under_way, 2);
    stub_hang_up();
    collect();
    for (unsigned tag = 0; tag < 2; tag++) {
        assert_int_equal(results[tag].status, OKV_OK);
        assert_memory_equal(buffer[tag], "old", 3);
    }
    assert_int_equal(stub.connects, 2);
    assert_int_equal(counters().reconnects, 1);
    assert_string_equal(okv_why(handle), "");
}

/* What is left to READ of a value belongs to the connection that is gone. */
RECONNECT_TEST(half_read_values_are_read_again)
{
    stub.max_reads = 1;
    handle = stub_open_lasting(4, 4, LONG_MS);
    write_value(LONG, true, EXTENT);
    stub.delay = HELD;
    assert_int_equal(okv_submit_get(handle, keys[0], strlen(keys[0]), got, sizeof got, 1), 0);
    stub_release_first();
    assert_int_equal(collect_once(), 0);
    assert_int_equal(counters().extent_reads, 1);
    stub_hang_up();
    stub.delay = 0;
    struct okv_entry entry = stub_inline(keys[0], "short");
    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
    collect();
    assert_int_equal(results[1].status, OKV_OK);
    assert_int_equal(results[1].length, 5);
    assert_memory_equal(got, "short", 5);
    assert_int_equal(counters().extent_reads, 1);
}

RECONNECT_TEST(reads_are_of_the_new_table)
{
    write_item("old");
    handle = stub_open_lasting(4, 4, LONG_MS);
    assert_int_equal(get(), OKV_OK);
    assert_memory_equal(buffer[0], "old", 3);
    stub_hang_up();
    stub_restart(OTHER_BOOT);
    write_item("new");
    assert_int_equal(get(), OKV_OK);
    assert_memory_equal(buffer[0], "new", 3);
    struct okv_info info;
    okv_info(handle, &info);
    assert_int_equal(info.boot_id, OTHER_BOOT);
    assert_int_equal(stub.hello.resume, STUB_SESSION);
}

RECONNECT_TEST(pings_are_sent_again)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.answer = no_answer;
    assert_int_equal(okv_submit_ping(handle, 0), OKV_OK);
    stub_hang_up();
    stub_restart(STUB_BOOT); /* even where nothing is known of the client */
    stub.answer = NULL;
    collect();
    assert_int_equal(results[0].status, OKV_OK);
    assert_int_equal(stub.sent, 2);
    assert_int_equal(counters().resent, 0);
}

/* ---- writes ---- */

RECONNECT_TEST(write_is_sent_again_as_it_was)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    assert_int_equal(okv_ping(handle), OKV_OK);
    stub.answer = no_answer;
    put_submit(0);
    put_submit(1);
    stub_hang_up();
    stub.welcome.resumed = 1;
    stub.answer = NULL;
    collect();
    assert_int_equal(stub.sent, 5);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(results[i].status, OKV_OK);
        assert_int_equal(results[i].version, 77);
        assert_int_equal(request(1 + i)->message.slot, request(3 + i)->message.slot);
        assert_int_equal(request(1 + i)->message.sequence, request(3 + i)->message.sequence);
        assert_memory_equal(request(1 + i)->bytes, request(3 + i)->bytes, 40);
    }
    assert_int_not_equal(request(1)->message.slot, request(2)->message.slot);
    assert_int_equal(stub.hello.resume, STUB_SESSION);
    assert_int_equal(counters().resent, 2);
}

RECONNECT_TEST(write_is_unknown_where_nothing_is_known)
{
    for (unsigned i = 0; i < 3; i++) {
        client_setup(state);
        handle = stub_open_lasting(4, 4, LONG_MS);
        stub.answer = no_answer;
        put_submit(0);
        stub_hang_up();
        if (i == 1) { /* another database that claims to know */
            stub_restart(OTHER_BOOT);
            stub.welcome.hash_seed = ++stub.block.hash_seed;
        }
        if (i == 2) /* as many request slots as before is part of knowing */
            stub.welcome.credits = 2;
        stub.welcome.resumed = i > 0;
        stub.answer = NULL;
        collect();
        assert_int_equal(results[0].status, OKV_EUNKNOWN);
        assert_int_equal(stub.sent, 1);
        put_submit(1);
        collect();
        assert_int_equal(results[1].status, OKV_OK);
        assert_int_equal(request(1)->message.sequence, 2);
        stub_close(&handle);
    }
}

RECONNECT_TEST(unsent_write_is_sent)
{
    handle = stub_open_lasting(4, 1, LONG_MS);
    stub.answer = no_answer;
    put_submit(0); /* has the only request slot */
    put_submit(1);
    stub_hang_up();
    stub.answer = NULL;
    stub_restart(OTHER_BOOT);
    assert_int_equal(okv_submit_delete(handle, "key", 3, 2), OKV_OK);
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    assert_int_equal(results[1].status, OKV_OK);
    assert_int_equal(results[2].status, OKV_OK);
    assert_int_equal(stub.sent, 3);
}

RECONNECT_TEST(failed_post_is_repeated)
{
    static const int failures[] = {OKV_EDISCONNECTED, OKV_EIO};

    for (unsigned i = 0; i < 2; i++) {
        client_setup(state);
        handle = stub_open_lasting(4, 4, LONG_MS);
        stub.send_result = failures[i];
        put_submit(0);
        stub.send_result = 0;
        collect(); /* one that may have left is unknown to a server that forgot */
        assert_int_equal(results[0].status, i ? OKV_EUNKNOWN : OKV_OK);
        assert_int_equal(stub.connects, 2);
        stub_close(&handle);
    }
}

/* What the new server does not take is told as its own refusals are. */
RECONNECT_TEST(smaller_server)
{
    static uint8_t large[20000];
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub_hang_up();
    stub.refusals = 1;
    assert_int_equal(collect_once(), 0);
    assert_int_equal(okv_submit_put(handle, "key", 3, large, sizeof large, 0), OKV_OK);
    assert_int_equal(okv_submit_put(handle, "key", 3, large, 100, 1), OKV_OK);
    const struct okv_command ping = {
        .kind = OKV_PING, .tag = 2, .value = large, .value_length = 9000};
    assert_int_equal(okv_submit(handle, &ping, 1, NULL), OKV_OK);
    stub.welcome.max_value = 1000;
    stub.welcome.slot_size = OKV_SLOT_SIZE_MIN;
    collect();
    assert_int_equal(results[0].status, OKV_EVALUESIZE);
    assert_int_equal(results[1].status, OKV_OK);
    assert_int_equal(results[2].status, OKV_EVALUESIZE);
}

/* ---- only where the items are ---- */

static void restart_empty(void)
{
    stub_restart(OTHER_BOOT);
    stub.welcome.hash_seed = stub.block.hash_seed = STUB_SEED + 1;
}

static okv *open_if_kept(void)
{
    const struct okv_options options = {.depth = 4,
                                        .credits = 4,
                                        .timeout_ms = LONG_MS,
                                        .hints = OKV_HINTS_NONE,
                                        .reconnect = OKV_RECONNECT_IF_KEPT};

    return stub_open_with(&options);
}

RECONNECT_TEST(kept_items_are_waited_for)
{
    write_item("value");
    handle = open_if_kept();
    stub_hang_up();
    assert_int_equal(get(), OKV_OK);
    stub_hang_up();
    stub_restart(OTHER_BOOT);
    write_item("value");
    stub.refusals = 1;
    assert_int_equal(get(), OKV_OK);
    assert_memory_equal(buffer[0], "value", 5);
    assert_int_equal(counters().reconnects, 2);
}

RECONNECT_TEST(lost_items_end_the_handle)
{
    handle = open_if_kept();
    stub.answer = no_answer;
    put_submit(0);
    stub_hang_up();
    restart_empty();
    get_submit(1);
    while (okv_pending(handle) > 0) {
        assert_true(collect_once() >= 0);
        assert_true(stub.connects <= 2);
    }
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    assert_int_equal(results[1].status, OKV_ELOST);
    assert_int_equal(get(), OKV_ELOST);
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_ELOST);
    assert_non_null(strstr(okv_why(handle), STUB_URI " restarted without the items"));
    assert_int_equal(stub.connects, 2);
    assert_int_equal(counters().reconnects, 0);
}

struct records {
    unsigned counts[OKV_LEVEL_NOTICE + 1];
    char last[OKV_LEVEL_NOTICE + 1][512];
};

static void keep_record(void *user, int level, const char *text)
{
    struct records *records = user;

    records->counts[level]++;
    snprintf(records->last[level], sizeof records->last[level], "%s", text);
}

RECONNECT_TEST(a_log_is_told_of_connections)
{
    static struct records records;
    const struct okv_options options = {.depth = 4,
                                        .credits = 4,
                                        .timeout_ms = LONG_MS,
                                        .hints = OKV_HINTS_NONE,
                                        .reconnect = OKV_RECONNECT_IF_KEPT,
                                        .log = keep_record,
                                        .log_user = &records};
    records = (struct records){0};
    handle = stub_open_with(&options);
    assert_int_equal(records.counts[OKV_LEVEL_NOTICE], 1);
    assert_non_null(strstr(records.last[OKV_LEVEL_NOTICE], STUB_URI ": connected by "));
    assert_int_equal(records.counts[OKV_LEVEL_WARNING], 0);
    write_item("value");
    stub_hang_up();
    stub.refusals = 5;
    assert_int_equal(get(), OKV_OK);
    assert_int_equal(records.counts[OKV_LEVEL_NOTICE], 2);
    /* That it was lost, and attempts 1, 2 and 4. */
    assert_int_equal(records.counts[OKV_LEVEL_WARNING], 4);
    assert_non_null(strstr(records.last[OKV_LEVEL_WARNING], STUB_URI ": not connected: "));
    assert_int_equal(records.counts[OKV_LEVEL_ERROR], 0);
    stub_hang_up();
    restart_empty();
    assert_int_equal(get(), OKV_ELOST);
    assert_int_equal(records.counts[OKV_LEVEL_ERROR], 1);
    assert_non_null(strstr(records.last[OKV_LEVEL_ERROR], "restarted without the items"));
}

RECONNECT_TEST(lost_items_are_no_matter_to_others)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub_hang_up();
    restart_empty();
    assert_int_equal(get(), OKV_ENOTFOUND);
    assert_int_equal(counters().reconnects, 1);
}

/* ---- results that were given ---- */

RECONNECT_TEST(abandoned_writes_are_not_sent_again)
{
    handle = stub_open_lasting(2, 1, SHORT_MS);
    stub.answer = no_answer;
    put_submit(0);
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    stub_hang_up();
    stub.welcome.resumed = 1;
    stub.answer = NULL;
    put_submit(1); /* has the request slot */
    collect();
    assert_int_equal(results[1].status, OKV_OK);
    assert_int_equal(stub.sent, 2);
    assert_int_equal(request(0)->message.slot, request(1)->message.slot);
    assert_int_equal(request(1)->message.sequence, 2);
}

/* It was not answered, and its time passed while the next connection was made. */
RECONNECT_TEST(write_may_expire_meanwhile)
{
    handle = stub_open_lasting(2, 1, SHORT_MS);
    stub.answer = no_answer;
    put_submit(0);
    stub_hang_up();
    stub.welcome.resumed = 1;
    stub.refusals = 1;
    assert_int_equal(collect_once(), 0);
    stub.delay = HELD; /* the next connection is verified after all that */
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    assert_int_equal(stub.connects, 3);
    stub.answer = NULL;
    stub_release_events(0);
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(stub.connects, 3);
    assert_int_equal(stub.sent, 2);
    assert_int_equal(request(1)->message.opcode, OKV_OP_PING);
}

/* A get of a handle with a short deadline, for which a busy machine may be too slow. */
static int patient_get(void)
{
    uint64_t until = pace_guard_end();
    int status;

    do
        status = get();
    while (status == OKV_ETIMEDOUT && okv_clock_ns() < until);
    return status;
}

static int patient_ping_submit(uint64_t tag)
{
    struct okv_command ping = {.kind = OKV_PING, .tag = tag, .timeout_ms = LONG_MS};

    return okv_submit(handle, &ping, 1, NULL);
}

RECONNECT_TEST(abandoned_reads_give_their_slots_back)
{
    write_item("value");
    handle = stub_open_lasting(1, 1, SHORT_MS);
    for (unsigned i = 0; i < 6; i++) { /* more often than there are slots */
        stub.delay = HELD;
        get_submit(i);
        collect();
        assert_int_equal(results[i].status, OKV_ETIMEDOUT);
        POLL_UNTIL(stub.connections == 1); /* on a slow machine it has had silence already */
        stub_hang_up();
        stub.delay = 0;
        POLL_UNTIL(stub.connects >= i + 2 && stub.connections == 1);
        assert_int_equal(stub.reads_under_way <= 1, true);
    }
    assert_int_equal(patient_get(), OKV_OK);
}

/* Where they have all of them, a call waits for one, and hears what became of the connection. */
RECONNECT_TEST(abandoned_reads_do_not_keep_all_slots)
{
    write_item("value");
    handle = stub_open_lasting(1, 1, SHORT_MS);
    stub.delay = HELD;
    for (unsigned i = 0; i < 4; i++) /* more than there are slots */
        assert_int_equal(get(), OKV_ETIMEDOUT);
    assert_int_equal(stub.reads_under_way, 2);
    assert_int_equal(okv_submit_ping(handle, 0), OKV_EAGAIN);
    stub_hang_up();
    assert_int_equal(patient_get(), OKV_OK);
    assert_int_equal(stub.connects, 2);
    stub.delay = HELD;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(get(), OKV_ETIMEDOUT);
    stub_hang_up();
    assert_int_equal(patient_ping_submit(0), OKV_OK);
    collect();
    assert_int_equal(results[0].status, OKV_OK);
}

/* Also where something else is under way. */
RECONNECT_TEST(freed_slots_are_usable)
{
    handle = stub_open_lasting(2, 1, SHORT_MS);
    stub.delay = HELD;
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(get(), OKV_ETIMEDOUT);
    assert_int_equal(patient_ping_submit(0), OKV_OK);
    assert_int_equal(okv_submit_get(handle, "key", 3, buffer[1], sizeof buffer[1], 1), OKV_EAGAIN);
    stub_release_events(0);
    get_submit(1);
    collect();
    assert_int_equal(results[0].status, OKV_OK);
    assert_int_equal(results[1].status, OKV_ENOTFOUND);
}

/* Only the keepalive tells that the host is gone. */
RECONNECT_TEST(abandoned_reads_of_a_silent_host)
{
    struct okv_options options = {
        .depth = 1, .credits = 1, .timeout_ms = SHORT_MS, .keepalive_ms = 4 * SHORT_MS};
    uint64_t until = pace_guard_end();

    write_item("value");
    handle = stub_open_with(&options);
    stub.silent = true;
    stub.delay = HELD;
    int rc = get();
    assert_int_equal(get(), OKV_ETIMEDOUT); /* these have the two slots */
    while (rc == OKV_ETIMEDOUT && okv_clock_ns() < until)
        rc = get();
    assert_int_equal(rc, OKV_OK);
    assert_int_equal(stub.connects, 2);
    stub.silent = false;
}

/* ---- handles that were idle ---- */

#define IDLE() nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL)

static bool answer_the_next(const struct stub_request *sent, struct stub_reply *reply)
{
    (void)sent, (void)reply;
    return stub.connects > 1;
}

RECONNECT_TEST(idle_handle_hears_the_goodbye_first)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.answer = answer_the_next;
    stub_goodbye();
    IDLE();
    put_submit(0);
    collect();
    assert_int_equal(results[0].status, OKV_OK);
    assert_int_equal(stub.connects, 2);
    assert_int_equal(stub.sent, 1);
}

static int count_item(void *user, const struct okv_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

static int idle_call(unsigned way)
{
    uint64_t latencies[4];
    unsigned items = 0;
    char text[256];

    switch (way) {
    case 0:
        return okv_put(handle, "key", 3, "value", 5, NULL);
    case 1:
        return get();
    case 2:
        return okv_scan(handle, count_item, &items);
    case 3:
        return okv_bench_read(handle, STUB_BUCKET_SIZE, 4, 4, latencies, NULL);
    case 4:
        return okv_flush(handle);
    default:
        return okv_stat(handle, text, sizeof text, &length);
    }
}

/* Its end would show only to who looks for it; what is posted there gets lost. */
RECONNECT_TEST(idle_handle_checks_its_connection_first)
{
    for (unsigned way = 0; way < 6; way++) {
        client_setup(state);
        handle = stub_open_lasting(4, 4, 1000);
        stub.shy = true;
        stub_hang_up();
        stub_restart(OTHER_BOOT);
        write_item("value");
        IDLE();
        assert_int_equal(idle_call(way), OKV_OK);
        assert_int_equal(stub.connects, 2);
        stub_close(&handle);
    }
}
