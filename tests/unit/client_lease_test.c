/*
 * The read lease over a stub whose server is a member of a cluster, on a lease clock of the test's
 * own: what completes after the end of a lease does not count, of each kind of get, until a status
 * says that the lease had been renewed.
 */
#include "tests/support/test.h"

#include "client/handle.h"
#include "tests/support/pace.h"
#include "tests/support/stub_lease.h"

#define TIMEOUT_MS pace_ms(20)
#define PAGE (STUB_HEAP + 16384)

static void open_with(uint32_t hints, uint32_t timeout_ms, uint32_t reconnect)
{
    const struct okv_options options = {
        .depth = 4, .credits = 4, .timeout_ms = timeout_ms, .hints = hints, .reconnect = reconnect};

    handle = stub_open_with(&options);
}

/* ---- each kind of get ---- */

static unsigned shown; /* items, by a scan */

static int show(void *user, const struct okv_item *item)
{
    (void)user, (void)item;
    shown++;
    return 0;
}

static void write_expiring(void)
{
    struct okv_entry entry = stub_inline(keys[0], "value");

    entry.expiry_ms = STUB_CLOCK + 100000000;
    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
}

static void write_nothing(void)
{
}

static void write_extent(void)
{
    write_value(SHORT, true, EXTENT);
}

static void write_long(void)
{
    write_value(LONG, true, EXTENT);
}

static void write_overflow(void)
{
    struct okv_entry entry = stub_inline(keys[0], "value");
    struct stub_image first = {.offset = stub_place(BUCKET),
                               .bucket = BUCKET,
                               .version = STUB_VERSION,
                               .depth = STUB_DEPTH,
                               .chain = PAGE};
    struct stub_image second = first;

    second.offset = PAGE;
    second.chain = 0;
    second.page = 1;
    stub_write(&first, NULL, 0);
    stub_write(&second, &entry, 1);
}

static int call_get_short(void)
{
    return okv_get(handle, keys[0], strlen(keys[0]), got, 1, &length, NULL);
}

/* The second one has a hint. */
static int call_get_again(void)
{
    int rc = call_get();

    return rc ? rc : call_get();
}

static int call_head(void)
{
    struct okv_item_info info;

    return okv_head(handle, keys[0], strlen(keys[0]), &info);
}

static int call_range(void)
{
    return okv_get_range(handle, keys[0], strlen(keys[0]), 7, got, 100, &length, NULL);
}

static struct okv_command command_of_get(void)
{
    return (struct okv_command){.kind = OKV_GET,
                                .key = keys[0],
                                .key_length = strlen(keys[0]),
                                .buffer = got,
                                .buffer_size = LONG};
}

static int call_many(void)
{
    struct okv_command command = command_of_get();

    assert_int_equal(okv_call_many(handle, &command, results, 1), 0);
    return results[0].status;
}

static int call_submit(void)
{
    struct okv_command command = command_of_get();

    memset(seen, 0, sizeof seen);
    assert_int_equal(okv_submit(handle, &command, 1, NULL), 0);
    collect();
    return results[0].status;
}

static int call_scan(void)
{
    return okv_scan(handle, show, NULL);
}

struct kind {
    const char *name;
    void (*write)(void);
    int (*call)(void);
    uint32_t hints;
    int status;
};

static const struct kind kinds[] = {
    {"inline", write_inline, call_get, OKV_HINTS_NONE, OKV_OK},
    {"of a call of many", write_inline, call_many, OKV_HINTS_NONE, OKV_OK},
    {"submitted", write_inline, call_submit, OKV_HINTS_NONE, OKV_OK},
    {"that expires", write_expiring, call_get, OKV_HINTS_NONE, OKV_OK},
    {"miss", write_nothing, call_get, OKV_HINTS_NONE, OKV_ENOTFOUND},
    {"too small", write_inline, call_get_short, OKV_HINTS_NONE, OKV_ETOOSMALL},
    {"extent", write_extent, call_get, OKV_HINTS_NONE, OKV_OK},
    {"hint", write_extent, call_get_again, 0, OKV_OK},
    {"long", write_long, call_get, OKV_HINTS_NONE, OKV_OK},
    {"overflow page", write_overflow, call_get, OKV_HINTS_NONE, OKV_OK},
    {"head", write_long, call_head, OKV_HINTS_NONE, OKV_OK},
    {"range", write_long, call_range, OKV_HINTS_NONE, OKV_OK},
    {"scan", write_inline, call_scan, OKV_HINTS_NONE, OKV_OK},
};

/* Calls it on a handle of its own, with the lease ending while READ `ends` is served. Returns the
 * status; the handle stays open. */
static int run(void **state, const struct kind *kind, bool at_once, unsigned ends)
{
    bool is_renewed = renews;

    lease_setup(state);
    renews = is_renewed;
    stub.has_now = at_once;
    kind->write();
    open_with(kind->hints, ends && !renews ? TIMEOUT_MS : PACE_GUARD_MS, OKV_RECONNECT_NEVER);
    ends_at = ends;
    shown = 0;
    int status = kind->call();
    okv_counters(handle, &counted);
    return status;
}

/* Once with READs that complete at once, once with others. */
LEASE_TEST(what_completes_after_the_lease_does_not_count)
{
    for (unsigned i = 0; i < 2 * sizeof kinds / sizeof *kinds; i++) {
        const struct kind *kind = &kinds[i / 2];
        print_message("%s\n", kind->name);
        renews = false;
        assert_int_equal(run(state, kind, i % 2, 0), kind->status);
        unsigned reads = stub.reads;
        uint64_t status_reads = counted.status_reads;
        stub_close(&handle);

        assert_int_equal(run(state, kind, i % 2, reads), OKV_ETIMEDOUT);
        assert_int_equal(shown, 0);
        assert_true(counted.status_reads > status_reads);
        stub_close(&handle);

        /* What was read is kept: only the status is READ again. */
        renews = true;
        assert_int_equal(run(state, kind, i % 2, reads), kind->status);
        assert_int_equal(counted.status_reads, status_reads + 1);
        assert_int_equal(stub.reads, reads + 1);
        assert_int_equal(shown, kind->call == call_scan);
        stub_close(&handle);
    }
}

/* ---- time ---- */

/* Two statuses in each second, each with the READ of a bucket, and a sample of the clock in 20
 * seconds. */
LEASE_TEST(a_lease_costs_few_reads)
{
    write_inline();
    open_with(OKV_HINTS_NONE, PACE_GUARD_MS, OKV_RECONNECT_NEVER);
    assert_int_equal(stub.sent, 1);
    heartbeat_ms = LEASE_MS / 10;
    for (unsigned i = 0; i < 30000; i++) {
        pass_ms(1);
        assert_int_equal(call_get(), OKV_OK);
    }
    okv_counters(handle, &counted);
    assert_int_equal(counted.bucket_reads, 30000);
    assert_in_range(counted.status_reads, 30000 / 438, 30000 / 390);
    assert_int_equal(stub.posts, 30000);
    assert_int_equal(stub.sent, 2);
}

LEASE_TEST(a_server_alone_costs_no_clock)
{
    stub.welcome.features = 0;
    stub.welcome.lease_ms = 0;
    stub_status(STUB_CLOCK, STUB_BUCKETS);
    write_inline();
    open_with(OKV_HINTS_NONE, PACE_GUARD_MS, OKV_RECONNECT_NEVER);
    clock_reads = 0;
    assert_int_equal(call_get(), OKV_OK);
    assert_int_equal(call_many(), OKV_OK);
    assert_int_equal(call_submit(), OKV_OK);
    pass_ms(100 * LEASE_MS);
    assert_int_equal(call_get(), OKV_OK);
    assert_int_equal(clock_reads, 0);
    assert_int_equal(stub.sent, 0);
    okv_counters(handle, &counted);
    assert_int_equal(counted.status_reads, 0);
}

/* An old status that comes late says nothing new: only its end of the lease counts. */
LEASE_TEST(a_server_that_stands_still_is_not_believed)
{
    write_inline();
    open_with(OKV_HINTS_NONE, TIMEOUT_MS, OKV_RECONNECT_NEVER);
    for (unsigned ms = 0; ms < 800; ms += 50) {
        assert_int_equal(call_get(), OKV_OK);
        pass_ms(50);
    }
    pass_ms(201);
    assert_int_equal(call_get(), OKV_ETIMEDOUT);
    assert_int_equal(call_many(), OKV_ETIMEDOUT);
    renew();
    assert_int_equal(call_get(), OKV_OK);
}

/* The server's clock goes on while its reply is under way. */
LEASE_TEST(the_way_of_a_reply_is_no_time_of_the_server)
{
    okv_le64 clock = okv_le64_of(server_us());

    write_inline();
    stub.answer = no_answer;
    open_with(OKV_HINTS_NONE, TIMEOUT_MS, OKV_RECONNECT_NEVER);
    struct stub_reply late = stub_reply_to(0);
    late.message.value = (const uint8_t *)&clock;
    pass_ms(LEASE_MS / 2);
    renew();
    stub_say(&late);
    assert_int_equal(call_get(), OKV_OK);
    assert_int_equal(handle->lease.clock.taken, 2);
    pass_ms(LEASE_MS + 1);
    assert_int_equal(call_get(), OKV_ETIMEDOUT);
}

/* ---- what a status contradicts ---- */

/* A copy may have been the primary in between. */
LEASE_TEST(another_epoch_ends_the_connection)
{
    write_inline();
    open_with(OKV_HINTS_NONE, TIMEOUT_MS, 0);
    assert_int_equal(call_get(), OKV_OK);
    pass_ms(LEASE_MS);
    publish(server_us() + LEASE_MS * 1000, EPOCH + 2);
    assert_int_equal(call_get(), OKV_ETIMEDOUT); /* the welcome is of the old epoch still */
    stub.welcome.epoch = EPOCH + 2;
    stub.welcome.lease_clock_us = server_us();
    stub.welcome.valid_until_us = server_us() + LEASE_MS * 1000;
    handle->timeout_ns = PACE_GUARD_NS;
    assert_int_equal(call_get(), OKV_OK);
}

/* What is READ before it serves may be older than what its predecessor published. */
LEASE_TEST(a_server_that_does_not_serve_yet_is_no_server)
{
    write_inline();
    open_with(OKV_HINTS_NONE, TIMEOUT_MS, 0);
    pass_ms(LEASE_MS);
    publish(server_us() + LEASE_MS * 1000, EPOCH + 2);
    stub.welcome.epoch = EPOCH + 2;
    stub.welcome.valid_until_us = 0;
    assert_int_equal(call_get(), OKV_ETIMEDOUT);
    assert_non_null(strstr(okv_why(handle), "is not the primary"));
    stub.welcome.lease_clock_us = server_us();
    stub.welcome.valid_until_us = server_us() + LEASE_MS * 1000;
    handle->timeout_ns = PACE_GUARD_NS;
    assert_int_equal(call_get(), OKV_OK);
}

/* The client's clocks stood still, the server's went on: what they said of it is void. */
LEASE_TEST(a_clock_that_stood_still_is_noticed)
{
    write_inline();
    open_with(OKV_HINTS_NONE, TIMEOUT_MS, OKV_RECONNECT_NEVER);
    assert_int_equal(call_get(), OKV_OK);
    stub.answer = no_answer;
    pass_ms(LEASE_MS);
    publish(server_us() + 10 * LEASE_MS * 1000, EPOCH); /* its clock is 9 s further */
    assert_int_equal(call_get(), OKV_ETIMEDOUT);
    assert_int_equal(handle->lease.clock.taken, 0);
    assert_true(handle->lease.ping.is_owed);
    uint64_t clock_us = server_us() + 9 * LEASE_MS * 1000;
    struct stub_reply late = stub_reply_to(stub.sent - 1);
    okv_le64 bytes = okv_le64_of(clock_us);
    late.message.value = (const uint8_t *)&bytes;
    stub_say(&late);
    assert_int_equal(call_get(), OKV_OK);
}
