/*
 * The read lease over a stub whose server is a member of a cluster, on a lease clock of the test's
 * own: what completes after the end of a lease does not count, of each kind of get, until a status
 * says that the lease had been renewed.
 */
#include <time.h>

#include "tests/support/test.h"

#include "client/handle.h"
#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_values.h"

#define SERVER_AHEAD_US UINT64_C(777000000)
#define LEASE_MS 1000u
#define EPOCH 3
#define TIMEOUT_MS pace_ms(20)
#define PAGE (STUB_HEAP + 16384)

static uint64_t lease_ns;     /* CLOCK_BOOTTIME and CLOCK_MONOTONIC_RAW of the client */
static unsigned clock_reads;  /* of these */
static unsigned ends_at;      /* the lease ends while this READ is served; 0: never */
static bool renews;           /* a READ of the status after that finds the next lease */
static unsigned heartbeat_ms; /* how often the lease is renewed; 0: it is not */
static uint64_t renewed_ms;

int __real_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time);

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    if (id != CLOCK_BOOTTIME && id != CLOCK_MONOTONIC_RAW)
        return __real_clock_gettime(id, time);
    clock_reads++;
    *time = (struct timespec){.tv_sec = (time_t)(lease_ns / 1000000000u),
                              .tv_nsec = (long)(lease_ns % 1000000000u)};
    return 0;
}

static void pass_ms(uint64_t ms)
{
    lease_ns += ms * 1000000u;
}

/* ---- the server ---- */

static uint64_t server_us(void)
{
    return lease_ns / 1000 + SERVER_AHEAD_US;
}

static void publish(uint64_t valid_until_us, uint64_t epoch)
{
    const struct okv_table_status status = {
        .clock_ms = STUB_CLOCK,
        .bucket_count = STUB_BUCKETS,
        .lease = {.valid_until_us = valid_until_us, .epoch = epoch, .flags = OKV_LEASE_MEMBER},
    };

    okv_status_encode(&status, STUB_BOOT,
                      (struct okv_wire_status *)(stub.region + OKV_STATUS_OFFSET));
}

static void renew(void)
{
    publish(server_us() + LEASE_MS * 1000, EPOCH);
}

static bool answer(const struct stub_request *request, struct stub_reply *reply)
{
    static okv_le64 clock;

    clock = okv_le64_of(server_us());
    if (request->message.opcode == OKV_OP_PING)
        reply->message.value = (const uint8_t *)&clock;
    return true;
}

static void before_read(unsigned n)
{
    if (heartbeat_ms && lease_ns / 1000000 - renewed_ms >= heartbeat_ms) {
        renewed_ms = lease_ns / 1000000;
        renew();
    }
    if (n == ends_at)
        pass_ms(LEASE_MS + 100);
    else if (ends_at && n > ends_at && renews && stub.last_read == OKV_STATUS_OFFSET)
        renew();
}

static int setup(void **state)
{
    values_setup(state);
    lease_ns = UINT64_C(5000000000000);
    renewed_ms = lease_ns / 1000000;
    ends_at = heartbeat_ms = 0;
    renews = false;
    stub.welcome.features = OKV_FEATURE_LEASE;
    stub.welcome.lease_ms = LEASE_MS;
    stub.welcome.epoch = EPOCH;
    stub.welcome.lease_clock_us = server_us();
    stub.welcome.valid_until_us = server_us() + LEASE_MS * 1000;
    stub.answer = answer;
    stub.before_read = before_read;
    renew();
    return 0;
}

static void open_with(uint32_t hints, uint32_t timeout_ms, uint32_t reconnect)
{
    const struct okv_options options = {
        .depth = 4, .credits = 4, .timeout_ms = timeout_ms, .hints = hints, .reconnect = reconnect};

    handle = stub_open_with(&options);
}

#define LEASE_TEST(name) TEST_WITH(name, setup, client_teardown)

/* ---- each kind of get ---- */

static unsigned shown; /* items, by a scan */

static int show(void *user, const struct okv_item *item)
{
    (void)user, (void)item;
    shown++;
    return 0;
}

static void write_inline(void)
{
    struct okv_entry entry = stub_inline(keys[0], "value");

    stub_bucket(BUCKET, STUB_DEPTH, &entry, 1);
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

static int call_get(void)
{
    return okv_get(handle, keys[0], strlen(keys[0]), got, LONG, &length, NULL);
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

    setup(state);
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

/* ---- a server that no longer serves, and others that may ---- */

static unsigned moved_at; /* the connect that finds the next primary; earlier ones find a copy */

static void before_connect(const struct okv_uri *uri)
{
    (void)uri;
    stub.welcome.lease_clock_us = server_us();
    stub.welcome.valid_until_us = stub.connects < moved_at ? 0 : server_us() + LEASE_MS * 1000;
    if (stub.connects != moved_at || moved_at == 1)
        return;
    stub.welcome.epoch = EPOCH + 1;
    publish(stub.welcome.valid_until_us, EPOCH + 1);
}

/* The handle has two servers, and is connected to the only one that lets it in. */
static void open_two(uint32_t timeout_ms)
{
    const struct okv_options options = {.depth = 4,
                                        .credits = 4,
                                        .timeout_ms = timeout_ms,
                                        .hints = OKV_HINTS_NONE,
                                        .keepalive_ms = 200};

    stub.welcome.credits = 4;
    stub.before_connect = before_connect;
    moved_at = 1;
    assert_int_equal(okv_open("okv://a,b/n", &options, &handle, NULL, 0), OKV_OK);
    stub.reads = stub.connects = 0;
    moved_at = 2;
}

static struct okv_info info_of(void)
{
    struct okv_info info;

    okv_info(handle, &info);
    return info;
}

LEASE_TEST(the_handle_tells_epoch_and_lease)
{
    open_two(PACE_GUARD_MS);
    assert_int_equal(info_of().epoch, EPOCH);
    assert_in_range(info_of().lease_ms, LEASE_MS / 2, LEASE_MS);
    pass_ms(LEASE_MS / 2);
    assert_in_range(info_of().lease_ms, 1, LEASE_MS / 2);
    pass_ms(LEASE_MS);
    assert_int_equal(info_of().lease_ms, 0);
}

/* A status takes a while. */
static void after_read(unsigned n)
{
    (void)n;
    pass_ms(LEASE_MS / 5);
}

/* It goes on serving READs. */
LEASE_TEST(a_server_that_stopped_is_left_after_a_lease_more)
{
    write_inline();
    open_two(PACE_GUARD_MS);
    assert_int_equal(call_get(), OKV_OK);
    pass_ms(LEASE_MS);
    stub.after_read = after_read;
    uint64_t begun_ns = lease_ns;
    assert_int_equal(call_get(), OKV_OK);
    assert_true(lease_ns - begun_ns >= LEASE_MS * 3 / 4 * UINT64_C(1000000));
    assert_int_equal(info_of().epoch, EPOCH + 1);
    assert_int_equal(stub.connects, moved_at);
}

LEASE_TEST(a_server_that_stopped_is_left_by_who_only_writes)
{
    open_two(PACE_GUARD_MS);
    stub.after_read = after_read;
    stub.answer = no_answer;
    put_submit(0);
    pass_ms(LEASE_MS);
    for (uint64_t until = pace_guard_end(); stub.connects == 0 && okv_clock_ns() < until;)
        collect_once();
    stub.answer = answer;
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN); /* the stub's next server does not resume */
    assert_int_equal(info_of().epoch, EPOCH + 1);
}

/* As over TCP. */
LEASE_TEST(a_server_that_stopped_and_serves_no_reads_is_left)
{
    write_inline();
    open_two(PACE_GUARD_MS);
    stub.delay = HELD;
    get_submit(0);
    for (uint64_t until = pace_guard_end(); stub.connects == 0 && okv_clock_ns() < until;) {
        pass_ms(10);
        pace_sleep_ms(1);
        collect_once();
    }
    stub.delay = 0;
    collect();
    assert_int_equal(results[0].status, OKV_ENOTFOUND);
    assert_int_equal(info_of().epoch, EPOCH + 1);
}

LEASE_TEST(a_server_that_renews_late_is_kept)
{
    write_inline();
    open_two(PACE_GUARD_MS);
    for (unsigned i = 0; i < 5; i++) {
        pass_ms(5 * LEASE_MS); /* idle */
        renew();
        assert_int_equal(call_get(), OKV_OK);
        pass_ms(LEASE_MS + LEASE_MS / 2);
        ends_at = stub.reads + 1;
        renews = true;
        assert_int_equal(call_get(), OKV_OK);
        ends_at = 0;
    }
    assert_int_equal(stub.connects, 0);
}

/* While the handle was idle, nothing looked after the lease. */
LEASE_TEST(a_server_is_asked_before_it_is_left)
{
    open_two(PACE_GUARD_MS);
    stub.answer = no_answer;
    for (unsigned i = 0; i < 3; i++) {
        pass_ms(5 * LEASE_MS);
        put_submit(i);
        stub.reads = 0;
        for (uint64_t until = pace_guard_end(); stub.reads == 0 && okv_clock_ns() < until;)
            collect_once();
        struct stub_reply late = stub_reply_to(stub.sent - 1);
        stub_say(&late);
        collect();
        assert_int_equal(results[i].status, OKV_OK);
    }
    assert_int_equal(stub.connects, 0);
}

LEASE_TEST(who_observes_a_copy_stays)
{
    const struct okv_options options = {
        .depth = 4, .credits = 4, .timeout_ms = PACE_GUARD_MS, .keepalive_ms = 200, .observe = 1};

    stub.welcome.credits = 4;
    stub.welcome.features |= OKV_FEATURE_OBSERVE;
    stub.welcome.valid_until_us = 0;
    publish(0, EPOCH);
    assert_int_equal(okv_open("okv://a,b/n", &options, &handle, NULL, 0), OKV_OK);
    stub.connects = 0;
    stub.answer = no_answer;
    assert_int_equal(okv_submit_ping(handle, 0), OKV_OK);
    for (uint64_t until = okv_clock_ns() + pace_ms(100) * UINT64_C(1000000);
         okv_clock_ns() < until;) {
        pass_ms(10);
        pace_sleep_ms(1);
        collect_once();
    }
    assert_int_equal(stub.connects, 0);
}

/* It has handed over. */
LEASE_TEST(a_server_that_is_no_primary_any_more_is_left_at_once)
{
    write_inline();
    open_two(PACE_GUARD_MS);
    pass_ms(LEASE_MS);
    publish(0, EPOCH);
    uint64_t begun_ns = lease_ns;
    assert_int_equal(call_get(), OKV_OK);
    assert_int_equal(info_of().epoch, EPOCH + 1);
    assert_int_equal(lease_ns, begun_ns);
}
