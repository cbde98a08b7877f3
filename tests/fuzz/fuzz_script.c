/*
 * A script of random words of Lua and of commands, to a server with a small table.
 *
 * It must end within its budget with one whole reply; one with an error must have changed nothing;
 * the next script must find the machine as it was; the table must pass its audit, and all memory
 * must come back.
 */
#include <time.h>

#include "server/resp/run/run.h"
#include "server/resp/run/shared.h"
#include "server/resp/script/engine.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/resp_count.h"
#include "tests/support/resp_fixture.h"
#include "tests/support/store_audit.h"

#define REGION (UINT64_C(1) << 20)
#define VALUE_MAX 5000u
#define TEXT_MAX 4096u
#define ALONE_MS 2u
#define WORDS (sizeof words / sizeof *words)

/* A byte of the input is one of these, or itself from 0xa0 on, less 0x80. */
static const char *const words[] = {"return ",
                                    "local a = ",
                                    "a ",
                                    "b ",
                                    "local b = ",
                                    "if ",
                                    " then ",
                                    " else ",
                                    " end ",
                                    "for i = 1, ",
                                    " do ",
                                    "while ",
                                    "repeat ",
                                    " until ",
                                    "function(x) ",
                                    "x ",
                                    "(",
                                    ")",
                                    "{",
                                    "}",
                                    "[",
                                    "]",
                                    ", ",
                                    " = ",
                                    " == ",
                                    " .. ",
                                    "#",
                                    " + ",
                                    " - ",
                                    " * ",
                                    " / ",
                                    " % ",
                                    " ^ ",
                                    " < ",
                                    " and ",
                                    " or ",
                                    "not ",
                                    "nil ",
                                    "true ",
                                    "false ",
                                    "0 ",
                                    "1 ",
                                    "2 ",
                                    "-1 ",
                                    "1e308 ",
                                    "0/0 ",
                                    "2147483648 ",
                                    "'' ",
                                    "'k' ",
                                    "'l' ",
                                    "'abc' ",
                                    "'%a+' ",
                                    "'(.-)' ",
                                    "'%b()' ",
                                    "'%d*$' ",
                                    "'\\0' ",
                                    "KEYS[1] ",
                                    "ARGV[1] ",
                                    "KEYS ",
                                    "redis.call(",
                                    "redis.pcall(",
                                    "redis.error_reply(",
                                    "redis.status_reply(",
                                    "redis.sha1hex(",
                                    "redis.setresp(",
                                    "redis.log(",
                                    "redis.set_repl(",
                                    "redis.acl_check_cmd(",
                                    "'get', ",
                                    "'set', ",
                                    "'append', ",
                                    "'incr', ",
                                    "'del', ",
                                    "'mget', ",
                                    "'mset', ",
                                    "'setrange', ",
                                    "'rename', ",
                                    "'copy', ",
                                    "'expire', ",
                                    "'ttl', ",
                                    "'bitop', 'and', ",
                                    "'bitfield', ",
                                    "'keys', '*'",
                                    "'scan', 0",
                                    "'dbsize'",
                                    "'time'",
                                    "'getex', ",
                                    "'setbit', ",
                                    "string.",
                                    "table.",
                                    "math.",
                                    "bit.",
                                    "cjson.",
                                    "cmsgpack.",
                                    "struct.",
                                    "load",
                                    "find(",
                                    "match(",
                                    "gmatch(",
                                    "gsub(",
                                    "rep(",
                                    "format(",
                                    "sub(",
                                    "byte(",
                                    "char(",
                                    "upper(",
                                    "insert(",
                                    "remove(",
                                    "sort(",
                                    "concat(",
                                    "encode(",
                                    "decode(",
                                    "pack(",
                                    "unpack(",
                                    "unpack_one(",
                                    "size(",
                                    "format=",
                                    "string=",
                                    "map=",
                                    "set=",
                                    "random(",
                                    "tohex(",
                                    "lshift(",
                                    "pcall(",
                                    "xpcall(",
                                    "error(",
                                    "setmetatable(",
                                    "getmetatable(",
                                    "rawset(",
                                    "rawget(",
                                    "getfenv(",
                                    "setfenv(",
                                    "load(",
                                    "loadstring(",
                                    "tostring(",
                                    "tonumber(",
                                    "select(",
                                    "next(",
                                    "pairs(",
                                    "ipairs(",
                                    "type(",
                                    "collectgarbage(",
                                    "_G",
                                    "__index",
                                    "__gc",
                                    "__metatable",
                                    "__newindex",
                                    "string",
                                    "redis",
                                    "('x'):rep(1000) ",
                                    " in ",
                                    "; ",
                                    "verbatim_string=",
                                    "{verbatim_string={format='txt'}} ",
                                    "big_number=",
                                    "double=",
                                    "err="};

/* Each look at the processor's time takes a microsecond: what is checked is the work, whatever time
 * sanitizers and the machine take for it. */
int __real_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time);

int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
    static uint64_t cpu_ns;

    if (id != CLOCK_THREAD_CPUTIME_ID)
        return __real_clock_gettime(id, time);
    cpu_ns += 1000;
    *time = (struct timespec){.tv_sec = (time_t)(cpu_ns / 1000000000u),
                              .tv_nsec = (long)(cpu_ns % 1000000000u)};
    return 0;
}

struct server {
    struct resp_fixture fixture;
    struct okv_resp_client *client;
};

static void configure(struct okv_server *server)
{
    server->config.alone_ms = ALONE_MS;
}

static size_t make_text(struct fuzz_input *input, char text[TEXT_MAX])
{
    size_t used = 0;

    while (input->left > 0) {
        uint8_t byte = fuzz_u8(input);
        char letter[2] = {(char)(byte & 0x7f), '\0'};
        const char *word = byte < WORDS ? words[byte] : letter;
        size_t length = byte < WORDS ? strlen(word) : 1;
        if (used + length > TEXT_MAX)
            break;
        memcpy(text + used, word, length);
        used += length;
    }
    return used;
}

/* A whole one: its lengths are those that it announces. */
static void check_one_reply(const struct okv_resp_buffer *out)
{
    struct resp_count count = {.replies = 0};

    resp_count_add(&count, (const char *)out->bytes, out->used);
    FUZZ_CHECK(count.replies == 1 && count.missing == 0 && count.bulk == 0 && !count.line_used);
}

static const struct okv_resp_buffer *run(struct server *server, const struct okv_resp_arg *args,
                                         uint32_t count)
{
    struct okv_exclusive *exclusive = server->fixture.core.server->exclusive;
    struct okv_resp_client *client = server->client;
    uint64_t ticket = 0;
    int rc = OKV_RESP_GOES_ON;

    client->out.used = 0;
    FUZZ_CHECK(okv_exclusive_share(exclusive, &ticket));
    for (unsigned tries = 0; rc; tries++) {
        FUZZ_CHECK(tries < 100000);
        atomic_store(&exclusive->rest_ns, 0);
        okv_turn_begin(&client->resp->turn);
        rc = okv_resp_run(client, args, count);
    }
    okv_exclusive_unshare(exclusive);
    FUZZ_CHECK(client->out.used > 0 && !client->out.has_failed);
    check_one_reply(&client->out);
    return &client->out;
}

static const struct okv_resp_buffer *eval(struct server *server, const char *text, size_t length)
{
    const struct okv_resp_arg args[] = {{(const uint8_t *)"EVAL", 4},
                                        {(const uint8_t *)text, (uint32_t)length},
                                        {(const uint8_t *)"1", 1},
                                        {(const uint8_t *)"k", 1},
                                        {(const uint8_t *)"v", 1}};

    return run(server, args, 5);
}

/* Looks at all that a script could have left. */
static void check_machine(struct server *server)
{
    static const char text[] =
        "for _, t in ipairs({_G, string, table, math, bit, cjson, cmsgpack, struct, redis, "
        "getmetatable(''), getmetatable(getmetatable(''))}) do if next(t) then return 'written' "
        "end end "
        "local all = {tostring((pcall(loadstring('return a')))), type(redis.call), ('x'):upper(), "
        "cjson.encode({1}), "
        "bit.tohex(255), #cmsgpack.pack({}), struct.size('i4'), table.concat({1, 2}, ','), "
        "tostring(getmetatable('').__index == nil), math.floor(1.5), ('aXb'):gsub('X', '-')} "
        "return table.concat(all, ' ')";
    static const char expected[] = "false function X [1] 000000ff 1 4 1,2 true 1 a-b 1\r\n";
    const struct okv_resp_buffer *reply = eval(server, text, sizeof text - 1);
    const char *end = memchr(reply->bytes, '\n', reply->used);

    FUZZ_CHECK(end &&
               (size_t)((const char *)reply->bytes + reply->used - end - 1) == sizeof expected - 1);
    FUZZ_CHECK(memcmp(end + 1, expected, sizeof expected - 1) == 0);
}

static void audit(struct okv_database *database)
{
    struct store_audit found;

    store_audit_run(database->region.base, REGION, database->store.table.inline_max, NULL, NULL,
                    &found);
    FUZZ_CHECK(found.items == atomic_load(&database->store.totals.items));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct okv_store_params params = {
        .length = REGION, .max_value = VALUE_MAX, .bucket_size = OKV_BUCKET_SIZE_MIN};
    static struct server server;
    struct fuzz_input input = {data, size};
    char text[TEXT_MAX];
    size_t length = make_text(&input, text);

    resp_fixture_open_with(&server.fixture, &params, configure);
    server.client = resp_fixture_client(&server.fixture);
    struct okv_store *store = &server.fixture.core.server->databases[0].store;
    check_machine(&server);
    server.client->protocol = size % 2 ? 3 : 2;
    uint64_t changes = atomic_load(&store->totals.changes);
    const struct okv_resp_buffer *reply = eval(&server, text, length);
    bool is_error = reply->bytes[0] == '-' && memmem(reply->bytes, reply->used, "script: ", 8);
    FUZZ_CHECK(!is_error || atomic_load(&store->totals.changes) == changes);
    FUZZ_CHECK(server.fixture.resp.turn.alone <= ALONE_MS * 1000000 + 2 * OKV_TURN_STEP_MAX);
    FUZZ_CHECK(server.fixture.resp.turn.longest <= 2 * OKV_TURN_STEP_MAX);
    check_machine(&server);
    audit(&server.fixture.core.server->databases[0]);
    resp_fixture_end(server.client);
    resp_fixture_close(&server.fixture);
    return 0;
}
