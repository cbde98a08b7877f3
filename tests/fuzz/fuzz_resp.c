/*
 * A client of Redis that sends any bytes in any pieces, to a server with two small tables.
 *
 * The parser must make the same requests of them at once and in pieces. The server must give one
 * reply to each, in order and in a form that is one of RESP, end every connection whose client has
 * said all, and give all memory back; both tables must pass their audit.
 */
#include <errno.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/clients/admission.h"
#include "server/identity/authority.h"
#include "server/resp/resp.h"
#include "server/resp/run/client.h"
#include "shared/base/error.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/fuzz_time.h"
#include "tests/support/resp_fixture.h"
#include "tests/support/store_audit.h"

#define REGION (UINT64_C(1) << 20)
#define VALUE_MAX 5000u
#define PASSES_MAX 10000u /* of the server after the last byte */
#define DEPTH_MAX 10      /* of replies in replies */

static const char users_text[] = "[alice]\n"
                                 "key = QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=\n"
                                 "default = read, write\n"
                                 "second = read\n";

/* ---- pieces ---- */

/* Of one length after the other, which a byte of the input chooses. 0: all at once. */
struct pieces {
    uint32_t random;
};

static size_t next_piece(struct pieces *pieces, size_t left)
{
    static const uint8_t most[] = {1, 2, 3, 7, 16, 40, 100, 255};

    if (pieces->random == 0)
        return left;
    pieces->random = pieces->random * 1664525u + 1013904223u;
    size_t length = 1 + (pieces->random >> 8) % most[pieces->random >> 29];
    pieces->random |= 1;
    return length < left ? length : left;
}

/* ---- the parser ---- */

/* What was parsed. */
struct parsed {
    uint64_t digest;
    unsigned requests; /* that have arguments, up to the one that ends the connection */
    size_t used;
    int rc;
    bool is_over, may_kill; /* QUIT; CLIENT, SHUTDOWN */
};

static void digest(struct parsed *parsed, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < length; i++)
        parsed->digest = (parsed->digest ^ at[i]) * UINT64_C(0x100000001b3);
}

static bool is_word(const struct okv_resp_arg *arg, const char *word)
{
    return arg->length == strlen(word) &&
           strncasecmp((const char *)arg->text, word, arg->length) == 0;
}

static void note_request(struct parsed *parsed, const struct okv_resp_parser *parser,
                         const uint8_t *bytes)
{
    for (uint32_t i = 0; i < parser->count; i++) {
        const struct okv_resp_arg *arg = &parser->args[i];
        FUZZ_CHECK(arg->text >= bytes && arg->text + arg->length <= bytes + parser->position);
        digest(parsed, &arg->length, sizeof arg->length);
        digest(parsed, arg->text, arg->length);
    }
    digest(parsed, "", 1);
    parsed->used += parser->position;
    if (parser->count == 0 || parsed->is_over)
        return;
    bool is_http = is_word(&parser->args[0], "POST") || is_word(&parser->args[0], "HOST:");
    parsed->requests += !is_http; /* which has no reply */
    parsed->is_over = is_http || is_word(&parser->args[0], "QUIT");
    parsed->may_kill = parsed->may_kill || is_word(&parser->args[0], "CLIENT") ||
                       is_word(&parser->args[0], "SHUTDOWN");
}

/* Parses all requests of which bytes are there, each time in memory of exactly their length. */
static void parse(struct okv_resp_parser *parser, struct parsed *parsed, const uint8_t *bytes,
                  size_t length)
{
    do {
        size_t left = length - parsed->used;
        uint8_t *moved = malloc(left ? left : 1);
        FUZZ_CHECK(moved);
        if (left)
            memcpy(moved, bytes + parsed->used, left);
        parsed->rc = okv_resp_parse(parser, moved, left);
        FUZZ_CHECK(parsed->rc == 0 || parsed->rc == 1 || parsed->rc == OKV_EPROTO);
        if (parsed->rc == 1) {
            FUZZ_CHECK(parser->position > 0 && parser->position <= left);
            note_request(parsed, parser, moved);
            okv_resp_parser_reset(parser);
        }
        free(moved);
    } while (parsed->rc == 1 && parsed->used < length);
}

static struct parsed parse_in(struct pieces pieces, const uint8_t *bytes, size_t length,
                              bool is_unauthenticated)
{
    struct okv_resp_parser parser = {.is_unauthenticated = is_unauthenticated};
    struct parsed parsed = {.digest = 1};
    size_t given = 0;

    while (given < length && parsed.rc >= 0) {
        given += next_piece(&pieces, length - given);
        parse(&parser, &parsed, bytes, given);
    }
    if (parsed.rc < 0)
        digest(&parsed, parser.problem, strlen(parser.problem));
    okv_resp_parser_fini(&parser);
    return parsed;
}

/* ---- replies ---- */

struct replies {
    struct okv_resp_buffer bytes;
    size_t at;
};

static int64_t read_head(struct replies *replies, uint8_t *type)
{
    const uint8_t *bytes = replies->bytes.bytes;
    uint64_t number = 0;
    bool is_negative = false;

    FUZZ_CHECK(replies->at < replies->bytes.used);
    *type = bytes[replies->at++];
    bool is_line = *type == '+' || *type == '-';
    for (;; replies->at++) {
        FUZZ_CHECK(replies->at + 1 < replies->bytes.used);
        uint8_t byte = bytes[replies->at];
        if (byte == '\r')
            break;
        FUZZ_CHECK(byte != '\n' && (is_line || byte == '-' || (byte >= '0' && byte <= '9')));
        if (!is_line && byte == '-')
            is_negative = true;
        else if (!is_line)
            number = number * 10 + byte - '0';
    }
    FUZZ_CHECK(bytes[replies->at + 1] == '\n');
    replies->at += 2;
    return (int64_t)(is_negative ? 0 - number : number);
}

static void read_reply(struct replies *replies, unsigned depth)
{
    uint8_t type;
    int64_t number = read_head(replies, &type);

    FUZZ_CHECK(depth < DEPTH_MAX && strchr("+-:$*_%~=", type));
    if (type == '$' || type == '=') {
        FUZZ_CHECK(number >= -1);
        if (number < 0)
            return;
        replies->at += (size_t)number + 2;
        FUZZ_CHECK(replies->at <= replies->bytes.used);
        FUZZ_CHECK(memcmp(replies->bytes.bytes + replies->at - 2, "\r\n", 2) == 0);
    } else if (type == '*' || type == '%' || type == '~') {
        for (int64_t i = 0; i < number * (type == '%' ? 2 : 1); i++)
            read_reply(replies, depth + 1);
    }
}

static unsigned count_replies(struct replies *replies)
{
    unsigned count = 0;

    for (; replies->at < replies->bytes.used; count++)
        read_reply(replies, 0);
    return count;
}

/* ---- the server ---- */

struct server {
    struct resp_fixture fixture;
    int fd;
    struct replies replies;
    bool has_ended;
};

static bool is_ready(void *context, int fd)
{
    (void)context;
    (void)fd;
    return false;
}

static void begin(struct server *server, uint8_t choice)
{
    const struct okv_store_params params = {
        .length = REGION,
        .max_value = VALUE_MAX,
        .bucket_size = OKV_BUCKET_SIZE_MIN << choice % 5,
        .wipe = choice & 0x20,
    };
    const struct okv_admission_limits limits = {.clients = 3};
    static const char *const names[] = {OKV_DATABASE_DEFAULT, "second"};

    memset(server, 0, sizeof *server);
    signal(OKV_SERVER_END_SIGNAL, SIG_IGN); /* SHUTDOWN */
    resp_fixture_open(&server->fixture, &params);
    struct okv_server *core = server->fixture.core.server;
    FUZZ_CHECK(okv_admission_init(core->admission, &limits) == 0);
    if (choice & 0x40) {
        FUZZ_CHECK(okv_identity_init() == 0);
        core->config.users = "users";
        pthread_mutex_init(&core->authority->lock, NULL);
        FUZZ_CHECK(okv_users_parse("users", users_text, strlen(users_text), names, 2,
                                   &core->authority->users, NULL) == 0);
    }
    server->fd = resp_fixture_connect(&server->fixture);
}

static void pass(struct server *server)
{
    struct okv_server *core = server->fixture.core.server;
    struct okv_resp_buffer *bytes = &server->replies.bytes;
    ssize_t n;

    resp_fixture_poll(&server->fixture);
    for (unsigned i = 0; i < core->database_count; i++)
        okv_heap_wipe(&core->databases[i].store.heap, 1000);
    do {
        uint8_t *room = okv_resp_buffer_room(bytes, 65536);
        FUZZ_CHECK(room);
        n = recv(server->fd, room, 65536, MSG_DONTWAIT);
        FUZZ_CHECK(n >= 0 || errno == EAGAIN || errno == ECONNRESET);
        bytes->used += n > 0 ? (size_t)n : 0;
    } while (n > 0);
    server->has_ended = server->has_ended || n == 0 || (n < 0 && errno == ECONNRESET);
}

/* Sends all in pieces, among which time passes. */
static void send_all(struct server *server, struct pieces pieces, const uint8_t *bytes,
                     size_t length)
{
    while (length > 0 && !server->has_ended) {
        size_t piece = next_piece(&pieces, length);
        ssize_t n = send(server->fd, bytes, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
        FUZZ_CHECK(n > 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
        bytes += n > 0 ? (size_t)n : 0;
        length -= n > 0 ? (size_t)n : 0;
        resp_fixture_pass(&server->fixture, (pieces.random >> 4) % 300);
        pass(server);
    }
    shutdown(server->fd, SHUT_WR);
    for (unsigned passes = 0; !server->has_ended; passes++) {
        FUZZ_CHECK(passes < PASSES_MAX);
        pass(server);
    }
}

static void audit(struct okv_database *database)
{
    struct okv_store *store = &database->store;
    struct store_audit found;

    while (okv_heap_wipe(&store->heap, REGION) > 0)
        ;
    store_audit_run(database->region.base, REGION, store->table.inline_max, NULL, NULL, &found);
    FUZZ_CHECK(found.items == atomic_load(&store->totals.items));
    FUZZ_CHECK(found.user_bytes == atomic_load(&store->totals.user_bytes));
    FUZZ_CHECK(found.references == atomic_load(&store->totals.references));
    FUZZ_CHECK(found.overflow_pages == atomic_load(&store->totals.overflow_pages));
    FUZZ_CHECK(found.expiring == atomic_load(&store->totals.expiring));
    uint64_t segment = (uint64_t)store->table.segment_buckets * store->table.bucket_size;
    FUZZ_CHECK(okv_heap_used(&store->heap) ==
               found.class_bytes + (store->reserve ? store_size_class(segment) : 0));
}

static void end(struct server *server)
{
    struct okv_server *core = server->fixture.core.server;

    FUZZ_CHECK(atomic_load(&server->fixture.worker.resp->clients) == 0);
    FUZZ_CHECK(atomic_load(&core->stats.resp_clients) == 0 && core->admission->clients == 0);
    for (unsigned i = 0; i < core->database_count; i++)
        audit(&core->databases[i]);
    close(server->fd);
    okv_resp_buffer_fini(&server->replies.bytes);
    okv_admission_fini(core->admission);
    if (core->config.users) {
        okv_users_destroy(core->authority->users);
        pthread_mutex_destroy(&core->authority->lock);
    }
    resp_fixture_close(&server->fixture);
}

/* The lower limits end with AUTH, so what a stranger's requests are is not known beforehand. */
static void check_replies(struct server *server, const struct parsed *parsed,
                          bool is_unauthenticated)
{
    unsigned count = count_replies(&server->replies);
    unsigned due = parsed->requests + (parsed->rc < 0 && !parsed->is_over);

    if (is_unauthenticated)
        return;
    FUZZ_CHECK(count <= due);
    FUZZ_CHECK(count == due || parsed->may_kill);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct server server;
    struct fuzz_input input = {data, size};
    uint8_t choice = fuzz_u8(&input);
    const struct pieces at_once = {0}, pieces = {fuzz_u8(&input) * 2654435761u};
    bool is_unauthenticated = choice & 0x40;
    size_t length;
    uint8_t *bytes = fuzz_bytes(&input, SIZE_MAX, &length);

    const struct parsed whole = parse_in(at_once, bytes, length, is_unauthenticated);
    const struct parsed parts = parse_in(pieces, bytes, length, is_unauthenticated);
    FUZZ_CHECK(whole.digest == parts.digest && whole.requests == parts.requests);
    FUZZ_CHECK(whole.rc == parts.rc && whole.used == parts.used);
    fuzz_time_begin(is_ready, NULL);
    begin(&server, choice);
    send_all(&server, pieces, bytes, length);
    check_replies(&server, &whole, is_unauthenticated);
    end(&server);
    fuzz_time_end();
    free(bytes);
    return 0;
}
