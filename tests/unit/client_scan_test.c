/* What goes through the whole table, over a stub transport: the server changes it between
 * two READs of a scan; a flush is as many requests as the server wants; a bench read keeps to
 * the index. */
#include "tests/support/test.h"

#include "tests/support/stub_client.h"

#define OVERFLOW_PAGE STUB_HEAP
#define EXTENT (STUB_HEAP + 8192)
/* READs of a scan: the status, again before the first chunk, the chunk. */
#define CHUNK_READ 3

static struct {
    char key[16];
    char value[16];
} shown[16];
static unsigned shown_count;
static char low[16], high[16]; /* of bucket 0; at depth 3 `high` is of bucket 4 */
static struct okv_counters counted;
static unsigned change_at; /* the number of the READ before which the table changes */

static int show(void *user, const struct okv_item *item)
{
    (void)user;
    assert_true(shown_count < 16 && item->key_length < 16 && item->value_length < 16);
    memset(&shown[shown_count], 0, sizeof shown[0]);
    memcpy(shown[shown_count].key, item->key, item->key_length);
    memcpy(shown[shown_count].value, item->value, item->value_length);
    shown_count++;
    return 0;
}

/* Scans; the items are these, in any order: pairs of key and value, then NULL. */
static void assert_scan_shows(const char *const *items)
{
    unsigned wanted = 0;

    shown_count = 0;
    stub.reads = 0;
    assert_int_equal(okv_scan(handle, show, NULL), OKV_OK);
    okv_counters(handle, &counted);
    for (; items[2 * wanted]; wanted++) {
        unsigned times = 0;
        for (unsigned i = 0; i < shown_count; i++)
            times += strcmp(shown[i].key, items[2 * wanted]) == 0 &&
                     strcmp(shown[i].value, items[2 * wanted + 1]) == 0;
        if (times != 1)
            fail_msg("%s = %s was shown %u times", items[2 * wanted], items[2 * wanted + 1], times);
    }
    assert_int_equal(shown_count, wanted);
    assert_int_equal(stub.reads_outside, 0);
}

static int setup(void **state)
{
    stub_key(low, 0, 3, 0);
    stub_key(high, 4, 3, 0);
    change_at = 0;
    return client_setup(state);
}

/* ---- pages and extents -------------------------------------------------- */

static void write_page(unsigned page, uint64_t version, const char *key, const char *value)
{
    struct okv_entry entry = stub_inline(key, value);
    struct stub_image image = {.offset = page == 0 ? stub_place(0) : OVERFLOW_PAGE,
                               .bucket = 0,
                               .version = version,
                               .chain = page == 0 ? OVERFLOW_PAGE : 0,
                               .depth = STUB_DEPTH,
                               .page = page};

    stub_write(&image, &entry, 1);
}

static void publish_first_page(unsigned n)
{
    if (n == CHUNK_READ + 2)
        write_page(0, STUB_VERSION + 1, low, "new");
}

#define SCAN_TEST(name) TEST_WITH(name, setup, client_teardown)

SCAN_TEST(pages_of_two_versions_are_not_mixed)
{
    handle = stub_open(4, 4, 5000);
    write_page(0, STUB_VERSION, low, "old");
    write_page(1, STUB_VERSION + 1, high, "new");
    stub.before_read = publish_first_page;
    assert_scan_shows((const char *const[]){low, "new", high, "new", NULL});
    assert_int_equal(counted.torn_buckets, 1);
}

static void replace_extent(unsigned n)
{
    if (n != CHUNK_READ + 1)
        return;
    struct okv_entry entries[] = {stub_inline(low, "small"),
                                  stub_reference(high, "newer", EXTENT + 64)};

    memset(stub.region + EXTENT, 0x55, 32);
    stub_bucket(0, STUB_DEPTH, entries, 2);
}

SCAN_TEST(a_replaced_extent_is_read_again)
{
    struct okv_entry entries[] = {stub_inline(low, "small"), stub_reference(high, "older", EXTENT)};

    handle = stub_open(4, 4, 5000);
    stub_bucket(0, STUB_DEPTH, entries, 2);
    stub.before_read = replace_extent;
    assert_scan_shows((const char *const[]){low, "small", high, "newer", NULL});
    assert_int_equal(counted.torn_extents, 1);
}

/* ---- an index that changes ---------------------------------------------- */

static void write_whole(void)
{
    struct okv_entry entries[] = {stub_inline(low, "1"), stub_inline(high, "2")};

    stub_bucket(0, STUB_DEPTH, entries, 2);
    stub_bucket(4, STUB_DEPTH, NULL, 0); /* the place was given up */
    stub_status(STUB_CLOCK, STUB_BUCKETS);
}

static void write_divided(void)
{
    struct okv_entry entries[] = {stub_inline(low, "1"), stub_inline(high, "2")};

    stub_bucket(4, STUB_DEPTH + 1, &entries[1], 1);
    stub_bucket(0, STUB_DEPTH + 1, &entries[0], 1);
    stub_status(STUB_CLOCK, STUB_BUCKETS + 1);
}

static void split(unsigned n)
{
    if (n == change_at)
        write_divided();
}

static void merge(unsigned n)
{
    if (n == change_at)
        write_whole();
}

SCAN_TEST(a_split_at_any_read_leaves_nothing_out)
{
    handle = stub_open(4, 4, 5000);
    stub.before_read = split;
    for (change_at = 1; change_at < CHUNK_READ + 4; change_at++) {
        write_whole();
        assert_scan_shows((const char *const[]){low, "1", high, "2", NULL});
    }
}

SCAN_TEST(a_merge_at_any_read_shows_nothing_twice)
{
    handle = stub_open(4, 4, 5000);
    stub.before_read = merge;
    for (change_at = 1; change_at < CHUNK_READ + 4; change_at++) {
        write_divided();
        assert_scan_shows((const char *const[]){low, "1", high, "2", NULL});
    }
}

static int end_early(void *user, const struct okv_item *item)
{
    (void)user, (void)item;
    return 0;
}

static void hang_up_late(unsigned n)
{
    if (n == 20)
        stub_hang_up();
}

/* One image may be that of any number of classes: a server that says so is asked now and then
 * whether it is there. */
SCAN_TEST(a_scan_ends_with_its_server)
{
    /* level 40, at its beginning, of this start of the server: client/scan/scan.c */
    uint64_t mark = STUB_BOOT * UINT64_C(0x9e3779b97f4a7c15) >> 53;
    uint64_t cursor = mark << 53 | (40 + 1);

    stub.welcome.region_length = stub.block.region_length = UINT64_C(1) << 60;
    stub_bucket(0, 0, NULL, 0);
    handle = stub_open(4, 4, 60000);
    stub.before_read = hang_up_late;
    assert_int_equal(okv_scan_from(handle, &cursor, end_early, NULL), OKV_EDISCONNECTED);
    assert_int_not_equal(cursor, 0);
}

SCAN_TEST(a_bucket_that_stays_torn_ends_the_scan)
{
    handle = stub_open(4, 4, 50);
    stub.region[stub_place(2) + 10] ^= 1;
    assert_int_equal(okv_scan(handle, show, NULL), OKV_ECORRUPT);
    assert_string_equal(okv_why(handle), "");
}

static void publish_late(unsigned n)
{
    if (n == 1500)
        stub.region[stub_place(2) + 10] ^= 1;
}

/* A server that was stopped in the middle of copying the image goes on. */
SCAN_TEST(a_bucket_is_waited_for)
{
    handle = stub_open(4, 4, 60000);
    stub.region[stub_place(2) + 10] ^= 1;
    stub.before_read = publish_late;
    assert_int_equal(okv_scan(handle, show, NULL), OKV_OK);
    assert_true(stub.reads >= 1500);
}

/* All READs but those of opening, and of each kind. */
SCAN_TEST(each_read_is_counted)
{
    struct okv_entry entries[] = {stub_inline(low, "small"), stub_reference(high, "long", EXTENT)};

    handle = stub_open(4, 4, 5000);
    stub_bucket(0, STUB_DEPTH, entries, 2);
    okv_counters(handle, &counted);
    assert_int_equal(counted.reads, 0);
    assert_int_equal(counted.directory_reads, 0);
    stub.before_read = publish_late;
    stub.region[stub_place(2) + 10] ^= 1;
    assert_scan_shows((const char *const[]){low, "small", high, "long", NULL});
    assert_int_equal(counted.reads, stub.reads);
    assert_int_equal(counted.reads, counted.bucket_reads + counted.extent_reads +
                                        counted.directory_reads + counted.status_reads);
    assert_true(counted.status_reads > 0 && counted.directory_reads > 0);
}

/* The READ that is refused finds the goodbye that is waiting. */
SCAN_TEST(a_scan_hears_the_goodbye)
{
    for (unsigned i = 0; i < 2; i++) {
        int failure = i ? OKV_ESHUTDOWN : OKV_EDISCONNECTED;
        setup(state);
        handle = stub_open(4, 4, 5000);
        if (i)
            stub_goodbye();
        stub.read_result = OKV_EDISCONNECTED;
        assert_int_equal(okv_scan(handle, show, NULL), failure);
        assert_true(strlen(okv_why(handle)) > 0);
        assert_int_equal(okv_ping(handle), failure);
        stub_close(&handle);
    }
}

static void refuse_further(unsigned n)
{
    if (n == 2)
        stub.read_result = OKV_EDISCONNECTED; /* behind status and directory */
}

SCAN_TEST(a_bench_read_that_is_refused_fails_the_handle)
{
    uint64_t latencies[4];

    handle = stub_open(4, 4, 5000);
    stub.before_read = refuse_further;
    assert_int_equal(okv_bench_read(handle, STUB_BUCKET_SIZE, 4, 4, latencies, NULL),
                     OKV_EDISCONNECTED);
    assert_int_equal(stub.reads, 2);
    assert_true(strlen(okv_why(handle)) > 0);
    assert_int_equal(okv_ping(handle), OKV_EDISCONNECTED);
}

SCAN_TEST(a_scan_says_why_it_has_no_memory)
{
    handle = stub_open(4, 4, 5000);
    stub.register_result = OKV_EPERM;
    assert_int_equal(okv_scan(handle, show, NULL), OKV_EPERM);
}

/* ---- flush -------------------------------------------------------------- */

static uint8_t step[sizeof(struct okv_wire_flush)];

static bool answer_flush(const struct stub_request *request, struct stub_reply *reply)
{
    const struct okv_request_message *message = &request->message;
    bool first = message->argument == 0;

    assert_int_equal(message->opcode, OKV_OP_FLUSH);
    assert_int_equal(message->value_length, first ? 0 : 8);
    if (!first) {
        assert_int_equal(message->argument, 77);
        assert_int_equal(okv_get_u64(message->value), 3);
    }
    okv_put_u64(step, first ? 77 : 0);
    okv_put_u64(step + 8, first ? 3 : 4);
    reply->message.value = step;
    reply->message.value_length = sizeof step;
    return true;
}

SCAN_TEST(a_flush_goes_on_where_the_server_says)
{
    handle = stub_open(4, 4, 5000);
    stub.answer = answer_flush;
    assert_int_equal(okv_flush(handle), OKV_OK);
    assert_int_equal(stub.sent, 2);
    assert_int_equal(okv_flush(NULL), OKV_EINVAL);
}

SCAN_TEST(a_flush_without_an_answer_may_have_happened)
{
    handle = stub_open(4, 4, 20);
    stub.answer = no_answer;
    assert_int_equal(okv_flush(handle), OKV_EUNKNOWN);
}

static unsigned flush_failure;

static bool answer_one_step(const struct stub_request *request, struct stub_reply *reply)
{
    if (flush_failure == 0)
        stub.send_result = OKV_EDISCONNECTED; /* of the next */
    if (flush_failure == 1)
        stub.no_buffers = HELD;
    if (flush_failure == 2 && request->message.argument) {
        reply->message.status = OKV_ECORRUPT;
        reply->message.value_length = 0;
        return true;
    }
    return answer_flush(request, reply);
}

/* The first step removed items; the second did not even leave, or was refused. */
SCAN_TEST(a_flush_that_fails_on_its_way_may_have_happened)
{
    for (flush_failure = 0; flush_failure < 3; flush_failure++) {
        setup(state);
        handle = stub_open(4, 4, 50);
        stub.answer = answer_one_step;
        assert_int_equal(okv_flush(handle), OKV_EUNKNOWN);
        assert_int_equal(stub.sent, flush_failure == 2 ? 2 : 1);
        stub_close(&handle);
    }
}

/* ---- cursors ------------------------------------------------------------ */

static int stop(void *user, const struct okv_item *item)
{
    return show(user, item), 7;
}

SCAN_TEST(a_cursor_is_of_one_start_of_the_server)
{
    struct okv_entry entries[2] = {stub_inline(low, "low"), stub_inline(high, "high")};
    uint64_t cursor = 0;

    stub_bucket(0, STUB_DEPTH, entries, 2);
    handle = stub_open_lasting(4, 4, 5000);
    shown_count = 0;
    assert_int_equal(okv_scan_from(handle, &cursor, stop, NULL), 7);
    uint64_t first = cursor;
    stub_hang_up(); /* another connection to the same table */
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(okv_scan_from(handle, &cursor, stop, NULL), 7);
    assert_int_equal(okv_scan_from(handle, &cursor, stop, NULL), 0);
    assert_int_equal(cursor, 0);
    assert_int_equal(shown_count, 2);
    assert_string_not_equal(shown[0].key, shown[1].key);
    for (uint64_t boot_id = STUB_BOOT + 1; boot_id < STUB_BOOT + 20; boot_id++) {
        stub_hang_up();
        stub_restart(boot_id);
        cursor = first;
        assert_int_equal(okv_ping(handle), OKV_OK);
        assert_int_equal(okv_scan_from(handle, &cursor, stop, NULL), OKV_EINVAL);
        assert_true(cursor == first);
    }
}

/* ---- bench read -------------------------------------------------------------- */

#define HEARTBEAT_LENGTH (3 * STUB_BUCKET_SIZE)

static unsigned sent_a_bench_read[2]; /* READs in each segment */

/* Looks at the READ before this one. */
static void look_at_place(unsigned n)
{
    static const uint64_t segments[] = {STUB_INDEX, STUB_SEGMENT_1};

    if (n < 4)
        return;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t offset = stub.last_read - segments[i];
        if (stub.last_read >= segments[i] && offset + HEARTBEAT_LENGTH <= STUB_SEGMENT_SIZE) {
            sent_a_bench_read[i]++;
            return;
        }
    }
    fail_msg("a READ at %llu", (unsigned long long)stub.last_read);
}

SCAN_TEST(a_bench_read_keeps_to_the_index)
{
    uint64_t latencies[500];

    memset(sent_a_bench_read, 0, sizeof sent_a_bench_read);
    stub_segment(1, STUB_SEGMENT_1);
    stub_status(STUB_CLOCK, 2 * STUB_SEGMENT_BUCKETS);
    handle = stub_open(4, 4, 5000);
    stub.before_read = look_at_place;
    assert_int_equal(okv_bench_read(handle, HEARTBEAT_LENGTH, 500, 1, latencies, NULL), OKV_OK);
    stub.before_read = NULL;
    assert_true(sent_a_bench_read[0] > 100 && sent_a_bench_read[1] > 100);
    assert_int_equal(okv_bench_read(handle, STUB_SEGMENT_SIZE + 1, 1, 1, latencies, NULL),
                     OKV_EINVAL);
    assert_int_equal(okv_bench_read(handle, STUB_SEGMENT_SIZE, 1, 1, latencies, NULL), OKV_OK);
}

/* What has ended is followed by as many at once: as many posts as rounds of `depth`. */
SCAN_TEST(raw_reads_share_a_doorbell)
{
    uint64_t latencies[10], total = 0;

    handle = stub_open(4, 4, 5000);
    unsigned posts = stub.posts;
    assert_int_equal(okv_bench_read(handle, STUB_BUCKET_SIZE, 1, 1, latencies, NULL), OKV_OK);
    unsigned others = stub.posts - posts - 1; /* of the status and the directory */
    posts = stub.posts;
    assert_int_equal(okv_bench_read(handle, STUB_BUCKET_SIZE, 10, 4, latencies, &total), OKV_OK);
    assert_int_equal(stub.posts - posts - others, 3);
    for (unsigned i = 0; i < 10; i++)
        assert_true(latencies[i] <= total);
}

/* Checks what a transport with bare READs is asked for; `bare_result` is its answer. */
static int bare_result;
static int bare_read(struct okv_conn *conn, struct okv_bare_reads *reads)
{
    (void)conn;
    assert_int_equal(reads->length, STUB_BUCKET_SIZE);
    assert_int_equal(reads->count, 10);
    assert_int_equal(reads->depth, 4);
    assert_true(reads->timeout_ns == UINT64_C(5000000000));
    for (unsigned i = 0; i < 10; i++) {
        assert_true(reads->offsets[i] >= STUB_INDEX &&
                    reads->offsets[i] + STUB_BUCKET_SIZE <= STUB_INDEX + STUB_SEGMENT_SIZE);
        reads->latencies_ns[i] = i + 1;
    }
    reads->total_ns = 42;
    return bare_result;
}

/* Whatever they end with, the connection is as it was. */
SCAN_TEST(bare_reads_are_the_transports)
{
    static const int ends[][2] = {{OKV_EINVAL, OKV_EPROTO}, /* the directory leads out */
                                  {OKV_ETIMEDOUT, OKV_ETIMEDOUT},
                                  {OKV_EDISCONNECTED, OKV_EDISCONNECTED},
                                  {OKV_EIO, OKV_EIO}};
    uint64_t latencies[10], total = 0;

    stub.bare_read = bare_read;
    handle = stub_open(4, 4, 5000);
    bare_result = OKV_OK;
    assert_int_equal(okv_bench_read(handle, STUB_BUCKET_SIZE, 10, 4, latencies, &total), OKV_OK);
    assert_true(total == 42 && latencies[0] == 1 && latencies[9] == 10);
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++) {
        total = 0;
        bare_result = ends[i][0];
        assert_int_equal(okv_bench_read(handle, STUB_BUCKET_SIZE, 10, 4, latencies, &total),
                         ends[i][1]);
        assert_true(total == 0);
        assert_int_equal(okv_ping(handle), OKV_OK);
    }
    struct okv_counters counters;
    okv_counters(handle, &counters);
    assert_int_equal(counters.reconnects, 0);
}
