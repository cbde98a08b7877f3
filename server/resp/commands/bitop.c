/* BITOP. A long result is made before the command runs alone: in its extent, of one source after
 * the other, while others are served. Then it is set if all sources are what they were. */
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/proto/bits.h"
#include "server/resp/run/long_build.h"
#include "server/resp/run/long_read.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/resp/run/upload.h"
#include "shared/base/error.h"

#define FIRST_SOURCE 3u

struct operation {
    struct okv_resp_call *call;
    enum okv_bits_operation how;
    uint32_t sources;
    struct okv_resp_buffer made; /* a result that is not built */
    uint32_t reached;            /* bytes of it; those behind it are 0 */
    bool is_stale;               /* a source is not what it was */
};

/* Returns false when an error was replied. */
static bool read_operation(struct operation *operation)
{
    static const char *const names[] = {"AND", "OR", "XOR", "NOT"};
    struct okv_resp_call *call = operation->call;
    unsigned i = 0;

    while (i < sizeof names / sizeof *names && !okv_resp_arg_is(&call->args[1], names[i]))
        i++;
    operation->how = (enum okv_bits_operation)i;
    operation->sources = call->count - FIRST_SOURCE;
    if (i == sizeof names / sizeof *names)
        okv_resp_syntax_error(call);
    else if (operation->how == OKV_BITS_NOT && operation->sources != 1)
        okv_resp_error(&call->reply, "ERR BITOP NOT must be called with a single source key.");
    else
        return true;
    return false;
}

static const struct okv_resp_arg *source_of(const struct operation *operation, uint32_t number)
{
    return &operation->call->args[FIRST_SOURCE + number];
}

/* Bytes of the result that this source of `length` bytes changes. */
static uint32_t changed_by(const struct operation *operation, uint32_t number, uint32_t length,
                           uint32_t longest, uint32_t reached)
{
    if (number == 0)
        return longest;
    return operation->how == OKV_BITS_AND ? reached : length;
}

/* Combines bytes [from, to) of the result with a source, which may be shorter. What it reads counts
 * as work. */
static void combine(const struct operation *operation, uint32_t number, uint8_t *result,
                    const uint8_t *source, uint64_t length, uint64_t from, uint64_t to)
{
    uint64_t end = length < from ? from : length < to ? length : to;
    bool is_first = number == 0;
    enum okv_bits_operation how =
        is_first && operation->how != OKV_BITS_NOT ? OKV_BITS_COPY : operation->how;

    okv_turn_spend(&operation->call->client->resp->turn, end - from);
    if (end > from)
        okv_bits_combine(how, result + from, source + from, end - from);
    if (to > end && (is_first || how == OKV_BITS_AND))
        memset(result + end, 0, to - end);
}

/* ---- a long result, while others are served ---- */

static uint64_t version_of(const struct okv_resp_bitop *bitop, uint32_t number)
{
    return ((const uint64_t *)(const void *)bitop->versions.bytes)[number];
}

struct source {
    uint64_t version; /* 0: there is no item */
    uint32_t length;
};

static int visit_source(void *user, const struct okv_store_now *now)
{
    *(struct source *)user = (struct source){now->version, now->value_length};
    return 0;
}

static int look(const struct operation *operation, uint32_t number, struct source *source)
{
    *source = (struct source){0};
    int rc = okv_resp_peek(operation->call, source_of(operation, number), visit_source, source);

    return rc == OKV_ENOTFOUND ? 0 : rc;
}

/* Looks at all sources, in several turns if there are many. */
static int measure(const struct operation *operation)
{
    struct okv_resp_bitop *bitop = &operation->call->client->bitop;
    struct source source;
    int rc = 0;

    for (; bitop->next < operation->sources; bitop->next++) {
        if (bitop->next > 0 && okv_resp_has_to_pause(operation->call))
            return OKV_RESP_GOES_ON;
        rc = look(operation, bitop->next, &source);
        okv_resp_buffer_add(&bitop->versions, &source.version, sizeof source.version);
        if (rc || bitop->versions.has_failed)
            return rc ? rc : OKV_ENOMEM;
        bitop->longest = source.length > bitop->longest ? source.length : bitop->longest;
    }
    bitop->next = 0;
    bitop->reached = bitop->longest;
    bitop->are_known = true;
    return bitop->longest < OKV_RESP_LONG_MIN ? 0 : OKV_RESP_GOES_ON;
}

static void begin_again(struct okv_resp_client *client)
{
    struct okv_resp_buffer versions = client->bitop.versions;

    okv_resp_build_end(client);
    okv_resp_read_end(client);
    versions.used = 0;
    client->bitop = (struct okv_resp_bitop){.versions = versions};
}

static int begin_build(const struct operation *operation)
{
    struct okv_resp_call *call = operation->call;
    const struct okv_resp_plan plan = {.key = &call->args[2],
                                       .database = call->client->common.database,
                                       .length = call->client->bitop.longest};
    int rc = okv_resp_build_take(call, NULL);

    return rc ? rc : okv_resp_build_begin(call, &plan);
}

static uint8_t *result_of(const struct operation *operation)
{
    const struct okv_resp_client *client = operation->call->client;

    return okv_store_long_bytes(&operation->call->executor->database->store,
                                &client->build->transfer.value);
}

static uint32_t end_of(const struct operation *operation, const struct okv_resp_bitop *bitop)
{
    return changed_by(operation, bitop->next, bitop->length, bitop->longest, bitop->reached);
}

/* A short source is combined at once, a long one is pinned. Its client has a share of the memory
 * for the result, so it must not wait for another one. */
static int visit_taken(void *user, const struct okv_store_now *now)
{
    struct operation *operation = user;
    struct okv_resp_bitop *bitop = &operation->call->client->bitop;

    operation->is_stale = now->version != version_of(bitop, bitop->next);
    if (operation->is_stale)
        return 0;
    bitop->length = now->value_length;
    if (okv_resp_read_is_long(operation->call, now))
        return okv_resp_read_begin(operation->call, now, false);
    uint32_t end = end_of(operation, bitop);
    bitop->done = end < now->value_length ? end : now->value_length;
    combine(operation, bitop->next, result_of(operation), now->value, now->value_length, 0,
            bitop->done);
    return 0;
}

static int take(struct operation *operation)
{
    struct okv_resp_bitop *bitop = &operation->call->client->bitop;

    bitop->done = bitop->length = 0;
    int rc =
        okv_resp_look(operation->call, source_of(operation, bitop->next), visit_taken, operation);
    if (rc == OKV_ENOTFOUND) {
        operation->is_stale = version_of(bitop, bitop->next) != 0;
        rc = 0;
    }
    bitop->is_taken = rc == 0;
    return rc;
}

static void end_source(const struct operation *operation)
{
    struct okv_resp_client *client = operation->call->client;
    struct okv_resp_bitop *bitop = &client->bitop;

    if (operation->how == OKV_BITS_AND && bitop->length < bitop->reached)
        bitop->reached = bitop->length;
    okv_resp_read_end(client);
    bitop->is_taken = false;
    bitop->next++;
}

/* A step with one source. */
static int combine_step(struct operation *operation)
{
    struct okv_resp_client *client = operation->call->client;
    struct okv_resp_bitop *bitop = &client->bitop;
    int rc = bitop->is_taken ? 0 : take(operation);

    if (rc)
        return rc;
    if (operation->is_stale) {
        begin_again(client);
        return OKV_RESP_GOES_ON;
    }
    uint32_t end = end_of(operation, bitop), from = bitop->done;
    uint32_t to = end - from < OKV_RESP_READ_STEP ? end : from + OKV_RESP_READ_STEP;
    combine(operation, bitop->next, result_of(operation), client->read.bytes, bitop->length, from,
            to);
    bitop->done = to;
    if (to == end)
        end_source(operation);
    return OKV_RESP_GOES_ON;
}

/* A short result is made when the command runs alone. */
static int prepare(struct operation *operation)
{
    struct okv_resp_client *client = operation->call->client;
    struct okv_resp_bitop *bitop = &client->bitop;
    int rc = bitop->are_known ? 0 : measure(operation);

    if (rc == 0 && bitop->longest >= OKV_RESP_LONG_MIN && !client->build)
        rc = begin_build(operation);
    if (rc == 0 && client->build && bitop->next < operation->sources)
        rc = combine_step(operation);
    if (rc == 0)
        rc = okv_resp_build_step(client, NULL);
    return rc ? okv_resp_refuse(operation->call, rc) : 0;
}

/* ---- alone ---- */

/* 1, 0, or a negative code. */
static int is_as_it_was(const struct operation *operation)
{
    const struct okv_resp_bitop *bitop = &operation->call->client->bitop;
    struct source source = {0};
    int rc = 0;

    for (uint32_t i = 0; i < operation->sources && rc == 0; i++) {
        rc = look(operation, i, &source);
        if (rc == 0 && source.version != version_of(bitop, i))
            return 0;
    }
    return rc ? rc : 1;
}

static bool grow(struct operation *operation, uint32_t length)
{
    struct okv_resp_buffer *made = &operation->made;

    if (length <= made->used)
        return true;
    uint8_t *room = okv_resp_buffer_room(made, length - made->used);
    if (!room)
        return false;
    memset(room, 0, length - made->used);
    made->used = length;
    return true;
}

static void combine_all(struct operation *operation, uint32_t number, const uint8_t *source,
                        uint32_t length)
{
    uint32_t longest = (uint32_t)operation->made.used;

    combine(operation, number, operation->made.bytes, source, length, 0,
            changed_by(operation, number, length, longest, operation->reached));
    if (number == 0 || length < operation->reached)
        operation->reached = length;
}

struct combining {
    struct operation *operation;
    uint32_t number;
};

static int visit_combined(void *user, const struct okv_store_now *now)
{
    const struct combining *combining = user;

    if (!grow(combining->operation, now->value_length))
        return OKV_ENOMEM;
    combine_all(combining->operation, combining->number, now->value, now->value_length);
    return 0;
}

static int make(struct operation *operation)
{
    int rc = 0;

    for (uint32_t i = 0; i < operation->sources && rc == 0; i++) {
        struct combining combining = {operation, i};
        rc = okv_resp_look(operation->call, source_of(operation, i), visit_combined, &combining);
        if (rc == OKV_ENOTFOUND) {
            combine_all(operation, i, NULL, 0);
            rc = 0;
        }
    }
    return rc;
}

static int decide(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    const struct operation *operation = user;
    struct okv_resp_client *client = operation->call->client;

    if (client->build)
        *next = (struct okv_store_next){result_of(operation), client->bitop.longest, 0};
    else
        *next = (struct okv_store_next){operation->made.bytes, (uint32_t)operation->made.used, 0};
    if (next->value_length > 0)
        return 0;
    return now ? OKV_STORE_REMOVE : OKV_STORE_KEEP;
}

static int set_result(struct operation *operation)
{
    struct okv_resp_client *client = operation->call->client;
    int is_valid = client->build ? is_as_it_was(operation) : 1;
    int rc = is_valid == 1 ? 0 : is_valid;

    if (is_valid == 0) {
        begin_again(client);
        return OKV_EAGAIN;
    }
    if (rc == 0 && !client->build)
        rc = make(operation);
    return rc ? rc : okv_resp_modify(operation->call, &operation->call->args[2], decide, operation);
}

int okv_resp_cmd_bitop(struct okv_resp_call *call)
{
    struct operation operation = {.call = call};

    if (!read_operation(&operation))
        return 0;
    if (call->is_preparing)
        return prepare(&operation);
    int rc = set_result(&operation);
    uint64_t length = call->client->build ? call->client->bitop.longest : operation.made.used;
    okv_resp_buffer_fini(&operation.made);
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, (int64_t)length);
    return 0;
}
