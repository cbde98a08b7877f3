/* The client over a stub transport: opening and closing, and the account of operations. */
#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"
#include "tests/support/stub_transport.h"
#include "tests/support/users_file.h"

#define LENGTH_OF(array) (sizeof(array) / sizeof *(array))
#define HELD 1000000000u /* polls that no test makes */
#define CREDITS 4
#define NAME_RULE "1 to 31 letters, digits, '.', '-' or '_', other than '.' and '..'"

static int setup(void **state)
{
    (void)state;
    stub_reset();
    stub.welcome.credits = CREDITS;
    return 0;
}

/* ---- opening ---- */

/* Opening fails with the code, leaves nothing behind, and the sentence contains `part`. */
static void expect_refusal(int code, const char *page)
{
    struct okv_options options = {.credits = CREDITS, .connect_timeout_ms = pace_ms(200)};
    okv *handle = (okv *)&options;
    char why[320] = "";

    assert_int_equal(okv_open(STUB_URI, &options, &handle, why, sizeof why), code);
    assert_null(handle);
    assert_true(strlen(why) > 0);
    if (!strstr(why, page))
        fail_msg("\"%s\" is not in \"%s\"", page, why);
    assert_int_equal(stub.connections, 0);
    assert_int_equal(stub.registrations, 0);
}

#define FIELD(name, value)                                                                      \
    {                                                                                           \
        offsetof(struct okv_welcome, name), sizeof(((struct okv_welcome *)NULL)->name), (value) \
    }

TEST_WITH(welcome_that_makes_no_sense, setup, NULL)
{
    static const struct {
        size_t offset;
        size_t size;
        uint64_t value;
    } wrong[] = {
        FIELD(slot_size, OKV_SLOT_SIZE_MIN - 1),
        FIELD(slot_size, OKV_SLOT_SIZE_MAX + 1),
        FIELD(slot_size, OKV_SLOT_SIZE_DEFAULT + 1),
        FIELD(credits, 0),
        FIELD(credits, CREDITS + 1),
        FIELD(bucket_size, 128),
        FIELD(bucket_size, 8192),
        FIELD(directory_offset, STUB_REGION - OKV_DIRECTORY_SIZE + 1),
        FIELD(directory_offset, UINT64_MAX),
        FIELD(bucket_count, 0),
        FIELD(bucket_count, OKV_BUCKETS_MAX + 1),
        FIELD(segment_buckets, OKV_SEGMENT_BUCKETS_MIN / 2),
        FIELD(segment_buckets, OKV_SEGMENT_BUCKETS_MIN + 1),
        FIELD(segment_buckets, 1u << 31),
        FIELD(clock_ms, 0),
        FIELD(features, 4),
        FIELD(boot_id, 0),
        FIELD(region_address, UINT64_MAX - STUB_REGION + 1),
        FIELD(max_key, 0),
        FIELD(max_key, OKV_KEY_MAX + 1),
        FIELD(max_value, OKV_VALUE_MAX + 1),
    };

    for (unsigned i = 0; i < LENGTH_OF(wrong); i++) {
        memcpy((uint8_t *)&stub.welcome + wrong[i].offset, &wrong[i].value, wrong[i].size);
        expect_refusal(OKV_EPROTO, "welcome that makes no sense");
        setup(state);
    }
    struct okv_wire_welcome *wire = (struct okv_wire_welcome *)stub.raw.bytes;
    okv_welcome_encode(&stub.welcome, wire);
    for (stub.raw.length = 1; stub.raw.length < sizeof *wire; stub.raw.length++)
        expect_refusal(OKV_EPROTO, "welcome");
    wire->length = okv_le16_of(sizeof *wire - 1);
    expect_refusal(OKV_EPROTO, "welcome");
    wire->version = okv_le16_of(OKV_WIRE_VERSION + 1);
    expect_refusal(OKV_EVERSION, "another protocol version");
    wire->magic = okv_le32_of(1);
    expect_refusal(OKV_EPROTO, "welcome");
}

static void reject(uint32_t reason)
{
    struct okv_reject answer = {.version = 7, .reason = reason};

    okv_reject_encode(&answer, (struct okv_wire_reject *)stub.raw.bytes);
    stub.raw.length = sizeof(struct okv_wire_reject);
    stub.raw.rejected = true;
    stub.connect_result = OKV_EREFUSED;
}

TEST_WITH(rejections_are_explained, setup, NULL)
{
#define EXPECT_REASON(number, name, code, text) \
    reject(number);                             \
    expect_refusal(OKV_E##code, "refused by " STUB_URI ": " text);
    OKV_REJECT_LIST(EXPECT_REASON)
#undef EXPECT_REASON
    reject(OKV_REJECT_VERSION);
    expect_refusal(OKV_EVERSION, "speaks 7, this client 3");
    reject(99);
    expect_refusal(OKV_EREFUSED, "does not know");
    stub.raw.length--;
    expect_refusal(OKV_EPROTO, "refused by " STUB_URI " in a way that is not okv's");
    memset(stub.raw.bytes, 0, sizeof stub.raw.bytes);
    expect_refusal(OKV_EREFUSED, "without a reason");
    stub.raw.length = 0;
    expect_refusal(OKV_EREFUSED, "without a reason");
}

TEST_WITH(every_failure_has_a_sentence, setup, NULL)
{
    for (int code = OKV_ERROR_LAST; code < 0; code++) {
        if (code == OKV_EAGAIN) /* from a transport that is to be asked again */
            continue;
        stub.connect_result = code;
        expect_refusal(code, "");
        stub.connect_result = 0;
        stub.set_remote_result = code;
        expect_refusal(code, "a region that is not there");
        stub.set_remote_result = 0;
        stub.register_result = code;
        expect_refusal(code, "ulimit -l");
        stub.register_result = 0;
    }
    stub.read_result = OKV_EIO;
    expect_refusal(OKV_EIO, "a first READ failed");
    stub.read_result = 0;
    stub.read_status = OKV_EDISCONNECTED;
    expect_refusal(OKV_EDISCONNECTED, "a first READ failed");
    setup(state);
    stub.poll_result = OKV_EIO;
    expect_refusal(OKV_EIO, "a first READ failed");
    stub.poll_result = 0;
    stub.delay = HELD;
    expect_refusal(OKV_ETIMEDOUT, "a first READ failed");
}

static void damage_superblock(unsigned n)
{
    (void)n;
    stub.region[40] ^= 1;
}

static void format_of_tomorrow(unsigned n)
{
    (void)n;
    stub.region[8] = OKV_FORMAT_VERSION + 1;
}

static unsigned hang_up_at;

static void hang_up(unsigned n)
{
    if (n == hang_up_at)
        stub_hang_up();
}

TEST_WITH(table_is_the_one_described, setup, NULL)
{
    stub.block.boot_id++;
    expect_refusal(OKV_EPROTO, "described another table");
    setup(state);
    stub.block.region_length++;
    expect_refusal(OKV_EPROTO, "described another table");
    setup(state);
    stub.block.hash_seed++;
    expect_refusal(OKV_EPROTO, "described another table");
    setup(state);
    stub.block.bucket_size *= 2;
    expect_refusal(OKV_EPROTO, "described another table");
    setup(state);
    stub.block.segment_buckets *= 2;
    expect_refusal(OKV_EPROTO, "described another table");
    setup(state);
    stub.block.directory_offset += 8;
    expect_refusal(OKV_EPROTO, "described another table");
    setup(state);
    stub.before_read = damage_superblock;
    expect_refusal(OKV_EPROTO, "described another table");
    stub.before_read = format_of_tomorrow;
    expect_refusal(OKV_EVERSION, "another format version");
    setup(state);
    stub.before_read = hang_up;
    hang_up_at = 1;
    expect_refusal(OKV_EDISCONNECTED, "a first READ failed");
    setup(state);
    stub.before_read = hang_up;
    hang_up_at = 2;
    expect_refusal(OKV_EDISCONNECTED, "directory");
}

/* Whether it asks for a proof or not, it has none. */
TEST_WITH(a_server_that_cannot_prove_itself_is_refused, setup, NULL)
{
    struct users_file file;
    char why[320] = "";
    okv *handle = NULL;

    users_file_open(&file);
    const struct okv_options options = {.user = "alice",
                                        .key_file = users_file_key(&file, "alice", KEY_A)};
    for (unsigned challenges = 0; challenges < 3; challenges++) {
        stub.challenges = challenges;
        assert_int_equal(okv_open(STUB_URI, &options, &handle, why, sizeof why), OKV_EDENIED);
        assert_null(handle);
        assert_non_null(strstr(why, "does not know the key of user alice"));
        assert_int_equal(stub.hello.key_id != 0, challenges > 0);
    }
    /* One that never ends to ask. */
    stub.challenges = 1000;
    assert_int_equal(okv_open(STUB_URI, &options, &handle, why, sizeof why), OKV_EDENIED);
    assert_true(stub.challenges > 900);
    users_file_close(&file);
}

/* Whatever comes between, the attempt ends with what the server says of a proof. */
TEST_WITH(a_proof_that_is_never_new_to_the_server_is_refused, setup, NULL)
{
    struct users_file file;
    char why[320] = "";
    okv *handle = NULL;

    users_file_open(&file);
    const struct okv_options options = {.user = "alice",
                                        .key_file = users_file_key(&file, "alice", KEY_A)};
    for (unsigned challenges = 0; challenges < 4; challenges++) {
        stub.challenges = challenges;
        stub.stale = 1000;
        assert_int_equal(okv_open(STUB_URI, &options, &handle, why, sizeof why), OKV_EREFUSED);
        assert_null(handle);
        assert_non_null(strstr(why, "saw this proof before, or has no room"));
        assert_in_range(stub.stale, 900, 999);
    }
    users_file_close(&file);
}

TEST_WITH(a_challenge_needs_a_user, setup, NULL)
{
    char why[320] = "";
    okv *handle = NULL;

    stub.challenges = 1;
    assert_int_equal(okv_open(STUB_URI, NULL, &handle, why, sizeof why), OKV_EDENIED);
    assert_non_null(strstr(why, "--key-file"));
}

TEST_WITH(arguments_of_open, setup, NULL)
{
    static const struct {
        struct okv_options options;
        const char *why;
    } wrong[] = {
        {{.depth = 1025}, "options->depth: 1025 is not 1 to 1024"},
        {{.credits = 1025}, "options->credits: 1025 is not 1 to 1024"},
        {{.hints = (1u << 20) + 1}, "options->hints: 1048577 is not 1 to 2^20, nor OKV_HINTS_NONE"},
        {{.hints = OKV_HINTS_NONE - 1},
         "options->hints: 4294967294 is not 1 to 2^20, nor OKV_HINTS_NONE"},
        {{.reconnect = OKV_RECONNECT_IF_KEPT + 1},
         "options->reconnect: 3 is not 0, nor OKV_RECONNECT_NEVER or OKV_RECONNECT_IF_KEPT"},
        {{.keepalive_ms = 199},
         "options->keepalive_ms: 199 is not 200 to 600000, nor OKV_KEEPALIVE_NONE"},
        {{.keepalive_ms = 600001},
         "options->keepalive_ms: 600001 is not 200 to 600000, nor OKV_KEEPALIVE_NONE"},
        {{.report_ms = 99}, "options->report_ms: 99 is not 100 to 600000, nor OKV_REPORT_NONE"},
        {{.report_ms = 600001},
         "options->report_ms: 600001 is not 100 to 600000, nor OKV_REPORT_NONE"},
        {{.reserved = {[6] = 1}}, "options->reserved: it is not zero"},
        {{.user = "alice"}, "options->key_file: it is NULL, and a user has a key file"},
        {{.key_file = "/key"}, "options->user: it is NULL, and a user has a key file"},
        {{.user = "a/b", .key_file = "/key"}, "options->user: \"a/b\" is not " NAME_RULE},
        {{.user = ".", .key_file = "/key"}, "options->user: \".\" is not " NAME_RULE},
        {{.database = "a/b"}, "options->database: \"a/b\" is not " NAME_RULE},
        {{.database = ".."}, "options->database: \"..\" is not " NAME_RULE},
    };
    char why[320];
    okv *handle = (okv *)why;

    assert_int_equal(okv_open(NULL, NULL, &handle, why, sizeof why), OKV_EINVAL);
    assert_null(handle);
    assert_string_equal(why, "uri: it is NULL");
    assert_int_equal(okv_open(STUB_URI, NULL, NULL, NULL, 0), OKV_EINVAL);
    assert_int_equal(okv_open(STUB_URI, NULL, NULL, why, sizeof why), OKV_EINVAL);
    assert_string_equal(why, "out: it is NULL");
    for (unsigned i = 0; i < LENGTH_OF(wrong); i++) {
        handle = (okv *)why;
        why[0] = '\0';
        assert_int_equal(okv_open(STUB_URI, &wrong[i].options, &handle, why, sizeof why),
                         OKV_EINVAL);
        assert_null(handle);
        assert_string_equal(why, wrong[i].why);
    }
    assert_int_equal(okv_open("http://x", NULL, &handle, why, sizeof why), OKV_EURI);
    assert_null(handle);
    assert_true(strlen(why) > 0);
    assert_int_equal(okv_open("http://x", NULL, &handle, why, 4), OKV_EURI);
    assert_int_equal(strlen(why), 3);
    assert_int_equal(okv_open("local:///a?uids=any", NULL, &handle, why, sizeof why), OKV_EURI);
    assert_non_null(strstr(why, "uids is for the --listen"));
    assert_int_equal(okv_open("local:///a?mode=0666", NULL, &handle, why, sizeof why), OKV_EURI);
    assert_non_null(strstr(why, "mode is for the --listen"));
}

TEST_WITH(a_fresh_handle_has_no_sentence_and_the_servers_limits, setup, NULL)
{
    struct okv_options options = {.credits = CREDITS};
    char why[320] = "before";
    struct okv_info info;
    okv *handle;

    assert_int_equal(okv_open(STUB_URI, &options, &handle, why, sizeof why), OKV_OK);
    assert_string_equal(why, "");
    assert_string_equal(okv_why(handle), "");
    assert_int_equal(stub.hello.credits, CREDITS);
    assert_int_equal(okv_pending(handle), 0);
    okv_info(handle, &info);
    assert_int_equal(info.boot_id, STUB_BOOT);
    assert_int_equal(info.credits, CREDITS);
    assert_int_equal(info.bucket_bytes, STUB_BUCKET_SIZE);
    assert_int_equal(info.buckets, STUB_BUCKETS);
    assert_int_equal(info.max_value, STUB_REGION);
    stub_close(&handle);
    okv_close(&handle);
    okv_close(NULL);
}

/* ---- the account ---- */

TEST_WITH(depth_is_the_limit, setup, NULL)
{
    struct okv_result result;
    okv *handle = stub_open(3, 2, 60000);

    for (uint64_t tag = 0; tag < 3; tag++) {
        assert_int_equal(okv_submit_put(handle, "key", 3, "", 0, tag), 0);
        assert_int_equal(okv_pending(handle), tag + 1);
    }
    assert_int_equal(okv_submit_ping(handle, 3), OKV_EAGAIN);
    assert_int_equal(okv_submit_get(handle, "key", 3, NULL, 0, 3), OKV_EAGAIN);
    for (uint32_t left = 3; left > 0;) { /* a result that was not polled keeps its entry */
        int n = okv_poll(handle, &result, 1);
        assert_true(n >= 0);
        left -= (uint32_t)n;
        assert_int_equal(okv_pending(handle), left);
        assert_int_equal(okv_submit_ping(handle, 4), n ? OKV_OK : OKV_EAGAIN);
        if (n)
            left++;
        if (result.tag == 4 && n)
            break;
    }
    stub_close(&handle);
}

TEST_WITH(close_drops_what_is_under_way, setup, NULL)
{
    static char buffer[32][8];
    okv *handle;

    stub.max_reads = 4;
    handle = stub_open(32, 4, 60000);
    stub.delay = HELD;
    for (uint64_t tag = 0; tag < 32; tag++) {
        int rc = tag % 2 ? okv_submit_put(handle, "key", 3, "value", 5, tag)
                         : okv_submit_get(handle, "key", 3, buffer[tag], 8, tag);
        assert_int_equal(rc, 0);
    }
    stub_close(&handle);
}

/* ---- a random mix ---- */

#define MIX 600

struct mix {
    okv *handle;
    uint64_t random;
    uint32_t torn; /* 0, or which of the offsets is damaged, from 1 */
    uint32_t submitted;
    uint32_t ended;
    int expected[MIX];
    unsigned seen[MIX];
    char *buffer[MIX];
};

#define MIX_LONG 20000 /* longer than an operation's own buffer */

static struct mix mix;
static char mix_keys[4][16]; /* inline, in an extent, missing, in a long extent; of bucket 1 */
static char mix_long[MIX_LONG + 1];

static uint32_t mix_random(uint32_t below)
{
    mix.random = mix.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(mix.random >> 33) % below;
}

/* Some READs find a byte wrong, which is right again for the next. */
static void mix_tear(unsigned n)
{
    static const uint64_t offsets[] = {STUB_INDEX + STUB_BUCKET_SIZE + 40, STUB_HEAP + 3,
                                       STUB_HEAP + 4096 + 17000};

    (void)n;
    if (mix.torn)
        stub.region[offsets[mix.torn - 1]] ^= 1;
    mix.torn = mix_random(4) ? 0 : 1 + mix_random(3);
    if (mix.torn)
        stub.region[offsets[mix.torn - 1]] ^= 1;
    stub.delay = mix_random(4) ? 0 : mix_random(5);
}

/* A get that is handed to the server has the answer that the table has. */
static bool mix_answer(const struct stub_request *request, struct stub_reply *reply)
{
    if (request->message.opcode == OKV_OP_GET) {
        const void *key = request->message.key;
        bool missing = memcmp(key, mix_keys[2], request->message.key_length) == 0;
        bool too_long = memcmp(key, mix_keys[3], request->message.key_length) == 0;
        reply->message.status = missing ? OKV_ENOTFOUND : too_long ? OKV_ETOOSMALL : OKV_OK;
        reply->message.value = (const uint8_t *)"value";
        reply->message.value_length = reply->message.status ? 0 : 5;
    }
    stub.no_buffers = mix_random(8) ? 0 : mix_random(6);
    stub.delay = mix_random(2) ? 0 : mix_random(8);
    return true;
}

static const char *mix_value(uint32_t key)
{
    return key == 3 ? mix_long : "value";
}

static int mix_submit(uint32_t tag)
{
    uint32_t key = mix_random(4);
    const char *text = mix_keys[key];
    struct okv_command command = {
        .kind = 1 + mix_random(8), .tag = tag, .key = text, .key_length = strlen(text)};

    mix.expected[tag] = OKV_OK;
    switch (mix_random(2) ? (uint32_t)OKV_GET : command.kind) {
    case OKV_GET:
        command.kind = OKV_GET;
        command.buffer_size = mix_random(4) ? strlen(mix_value(key)) : 4;
        command.buffer = mix.buffer[tag] = calloc(1, command.buffer_size);
        assert_non_null(command.buffer);
        mix.expected[tag] = command.buffer_size == 4 ? OKV_ETOOSMALL : OKV_OK;
        /* fall through */
    case OKV_HEAD:
        if (key == 2)
            mix.expected[tag] = OKV_ENOTFOUND;
        break;
    case OKV_PUT:
    case OKV_APPEND:
        command.value = "value";
        command.value_length = 5;
        break;
    case OKV_TOUCH:
        command.ttl_ms = 1000;
        break;
    case OKV_PING:
        command.key = NULL;
        command.key_length = 0;
        command.value = tag % 2 ? "echo" : NULL;
        command.value_length = tag % 2 ? 4 : 0;
        break;
    default:
        break;
    }
    int rc = okv_submit(mix.handle, &command, 1, NULL);
    if (rc) {
        free(mix.buffer[tag]);
        mix.buffer[tag] = NULL;
    }
    return rc;
}

static void mix_poll(void)
{
    struct okv_result results[8];
    int n = okv_poll(mix.handle, results, 1 + (int)mix_random(8));

    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        uint64_t tag = results[i].tag;
        assert_true(tag < mix.submitted);
        assert_int_equal(++mix.seen[tag], 1);
        assert_int_equal(results[i].status, mix.expected[tag]);
        if (mix.buffer[tag] && results[i].status == OKV_OK)
            assert_memory_equal(mix.buffer[tag], mix_value(results[i].length == MIX_LONG ? 3 : 0),
                                results[i].length);
        free(mix.buffer[tag]);
        mix.buffer[tag] = NULL;
    }
    mix.ended += (uint32_t)n;
    assert_int_equal(okv_pending(mix.handle), mix.submitted - mix.ended);
}

static void mix_table(void)
{
    struct okv_entry entries[3];

    for (unsigned i = 0; i < 4; i++)
        stub_key(mix_keys[i], 1, STUB_DEPTH, i);
    memset(mix_long, 'l', MIX_LONG);
    entries[0] = stub_inline(mix_keys[0], "value");
    entries[1] = stub_reference(mix_keys[1], "value", STUB_HEAP);
    entries[2] = stub_reference(mix_keys[3], mix_long, STUB_HEAP + 4096);
    stub_bucket(1, STUB_DEPTH, entries, 3);
}

static void mix_run(uint32_t depth, uint32_t credits, uint64_t seed)
{
    struct okv_options options = {.depth = depth, .credits = credits, .timeout_ms = 60000};

    setup(NULL);
    memset(&mix, 0, sizeof mix);
    mix.random = seed;
    stub.max_reads = 1 + mix_random(6);
    options.hints = mix_random(2) ? OKV_HINTS_NONE : 4;
    mix.handle = stub_open_with(&options);
    mix_table();
    stub.before_read = mix_tear;
    stub.answer = mix_answer;
    while (mix.ended < MIX) {
        if (mix.submitted < MIX && mix_random(3)) {
            bool room = mix.submitted - mix.ended < depth;
            assert_int_equal(mix_submit(mix.submitted), room ? OKV_OK : OKV_EAGAIN);
            mix.submitted += room;
        } else {
            mix_poll();
        }
    }
    struct okv_counters counted;
    okv_counters(mix.handle, &counted);
    assert_int_equal(counted.requests, stub.sent);
    assert_int_equal(counted.replies, stub.sent);
    assert_int_equal(counted.gets, counted.hits + counted.misses);
    assert_int_equal(counted.requests, MIX - counted.gets + counted.fallbacks);
    assert_true(counted.torn_buckets > 0);
    assert_string_equal(okv_why(mix.handle), "");
    stub_close(&mix.handle);
}

TEST_WITH(every_operation_ends_once, setup, NULL)
{
    static const uint32_t depths[] = {1, 2, 32}, credits[] = {1, 3, 16};
    uint64_t seed = random_seed();

    for (unsigned i = 0; i < 9; i++)
        mix_run(depths[i / 3], credits[i % 3], seed + i);
}
