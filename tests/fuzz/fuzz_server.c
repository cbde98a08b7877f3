/*
 * Requests of a hostile client to a store in a small region, in any order: decoded, applied and
 * answered as a worker does it, long values pulled. Every reply can be decoded, what was put
 * is there, and now and then the whole table is audited.
 */
#include <setjmp.h>
#include <stdarg.h>

#include "server/apply.h"
#include "server/session.h"
#include "shared/error.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/server_core.h"
#include "tests/support/store_audit.h"

#define REGION_LENGTH (UINT64_C(1) << 20)
#define VALUE_MAX 100000u
#define CREDITS 6
#define KEYS 200
#define REQUESTS_MAX 400

struct hostile_client {
    struct fuzz_input *input;
    struct server_core core;
    struct okv_session *session;
    struct okv_conn conn;
    uint64_t clock_ms;
    unsigned pull_count; /* under way */
    struct okv_pull pulls[OKV_PULLS_MAX];
};

/* ---- pulls ---- */

static int take_pull(struct okv_conn *conn, const struct okv_pull *pull)
{
    struct hostile_client *client = conn->user;

    FUZZ_CHECK(okv_range_inside(pull->offset, pull->length, REGION_LENGTH));
    FUZZ_CHECK(client->pull_count < OKV_PULLS_MAX);
    if (fuzz_rarely(client->input, 8))
        return OKV_EUNSUPPORTED;
    client->pulls[client->pull_count++] = *pull;
    return 0;
}

static const struct okv_transport_ops pull_ops = {.name = "hostile", .pull = take_pull};

/* The value came, or not; the first answer is taken. */
static void end_pull(struct hostile_client *client)
{
    if (client->pull_count == 0)
        return;
    unsigned which = fuzz_below(client->input, client->pull_count);
    const struct okv_pull pull = client->pulls[which];
    const struct okv_event event = {
        .type = OKV_EVENT_PULLED,
        .status = fuzz_rarely(client->input, 4) ? OKV_EPULL : 0,
        .conn = &client->conn,
        .cookie = pull.cookie,
    };

    client->pulls[which] = client->pulls[--client->pull_count];
    if (event.status == 0)
        memset((uint8_t *)client->core.server->region.base + pull.offset, 'p', pull.length);
    okv_session_pull_end(client->session, client->core.server, &client->core.work, &event);
    struct okv_session_pull *ended = okv_session_pull_ended(client->session);
    FUZZ_CHECK(ended);
    okv_session_pull_free(client->session, ended);
}

/* ---- requests ---- */

static uint32_t choose_key(struct fuzz_input *input, uint8_t *key)
{
    uint8_t choice = fuzz_u8(input);

    if (choice < KEYS)
        return (uint32_t)snprintf((char *)key, OKV_KEY_MAX, "key-%u", choice);
    uint32_t length = choice < 250 ? 1 + choice % 40u : OKV_KEY_MAX;
    memset(key, 'k', length);
    key[0] = choice;
    return length;
}

static uint64_t choose_argument(struct fuzz_input *input, const struct okv_request_message *request)
{
    if (request->opcode == OKV_OP_INCR || request->opcode == OKV_OP_FLUSH)
        return fuzz_number(input);
    return request->flags & OKV_REQUEST_IF_VERSION ? fuzz_number(input) : 0;
}

/* A request that a client of ours could make, of its fields right; its length. */
static uint32_t good_request(struct hostile_client *client, uint8_t *out, uint32_t *immediate)
{
    static uint8_t value[OKV_SLOT_SIZE_DEFAULT];
    static const uint8_t numbers[] = "0-9223372036854775808";
    struct fuzz_input *input = client->input;
    uint8_t key[OKV_KEY_MAX], choice = fuzz_u8(input);
    static const uint8_t opcodes[16] = {OKV_OP_PUT,    OKV_OP_PUT,    OKV_OP_PUT,  OKV_OP_PUT,
                                        OKV_OP_DELETE, OKV_OP_GET,    OKV_OP_INCR, OKV_OP_APPEND,
                                        OKV_OP_TOUCH,  OKV_OP_FLUSH,  OKV_OP_STAT, OKV_OP_PING,
                                        OKV_OP_APPEND, OKV_OP_DELETE, OKV_OP_PUT,  OKV_OP_TOUCH};
    struct okv_request_message request = {.opcode = opcodes[choice & 15], .sequence = 1};
    bool is_put = request.opcode == OKV_OP_PUT;
    bool has_key = request.opcode != OKV_OP_FLUSH && request.opcode != OKV_OP_STAT &&
                   request.opcode != OKV_OP_PING;

    request.key_length = has_key ? choose_key(input, key) : 0;
    request.key = key;
    request.value = value;
    if (is_put || request.opcode == OKV_OP_APPEND)
        request.value_length =
            choice & 16 ? fuzz_u16(input) % okv_slot_value_max(sizeof value) : fuzz_u8(input);
    if (choice & 32 && (is_put || request.opcode == OKV_OP_DELETE))
        request.flags = 1 << fuzz_below(input, is_put ? 3 : 2) & (is_put ? 7 : 2);
    if (request.flags & OKV_REQUEST_PULL)
        request.value_length = 1 + fuzz_u16(input) * 2u;
    if (choice & 64 && (is_put || request.opcode == OKV_OP_TOUCH))
        request.ttl_ms = fuzz_number(input) % OKV_TTL_MAX;
    if (choice & 128 && request.value_length < sizeof numbers &&
        !(request.flags & OKV_REQUEST_PULL))
        request.value = numbers;
    if (request.opcode == OKV_OP_FLUSH && choice & 16)
        request.value_length = fuzz_u8(input) % 12;
    request.argument = choose_argument(input, &request);
    *immediate = okv_immediate(request.opcode, fuzz_below(input, CREDITS));
    return okv_request_encode(&request, out);
}

/* What was put is what is got. */
static void check_put(struct hostile_client *client, const struct okv_request_message *request,
                      const struct okv_reply_message *reply)
{
    uint8_t got[OKV_SLOT_SIZE_DEFAULT];
    uint64_t version = 0;
    uint32_t length = 0;

    if (request->opcode != OKV_OP_PUT || reply->status || request->ttl_ms)
        return;
    FUZZ_CHECK(okv_store_get(&client->core.server->store, request->key, request->key_length, got,
                             sizeof got, &length, &version) == 0);
    FUZZ_CHECK(length == request->value_length && version == reply->version && version != 0);
    FUZZ_CHECK(length == 0 || memcmp(got, request->value, length) == 0);
}

/* As the worker does it. False: the connection would be closed. */
static bool serve(struct hostile_client *client, uint32_t immediate, const uint8_t *bytes,
                  uint32_t length)
{
    struct okv_server *server = client->core.server;
    uint32_t slot_size = server->limits.slot_size;
    struct okv_request_message request = {.opcode = 0};
    int rc = okv_request_decode(immediate, bytes, length, &request);
    struct okv_reply_message reply = {
        .opcode = request.opcode, .slot = request.slot, .sequence = request.sequence};

    if (rc == OKV_EUNSUPPORTED)
        return true;
    if (rc)
        return false;
    if (request.flags & OKV_REQUEST_PULL) {
        rc = okv_session_pull_begin(client->session, server, &client->core.work, &request);
        FUZZ_CHECK(rc <= 0);
        return true;
    }
    uint8_t *out = malloc(slot_size);
    FUZZ_CHECK(out);
    rc = okv_apply(server, &client->core.work, &request, &reply, out + OKV_REPLY_HEADER,
                   slot_size - (uint32_t)OKV_REPLY_HEADER);
    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO);
    if (rc == 0) {
        struct okv_reply_message again;
        FUZZ_CHECK(reply.status != OKV_ECORRUPT);
        uint32_t size = okv_reply_encode(&reply, out);
        FUZZ_CHECK(size <= slot_size);
        FUZZ_CHECK(okv_reply_decode(okv_immediate(reply.opcode, reply.slot) | OKV_IMMEDIATE_REPLY,
                                    out, size, &again) == 0);
        check_put(client, &request, &reply);
    }
    free(out);
    return rc == 0;
}

/* In memory of exactly its length; sometimes a byte of it is any. */
static bool one_request(struct hostile_client *client)
{
    uint8_t room[OKV_SLOT_SIZE_DEFAULT + OKV_KEY_MAX + 64];
    uint32_t immediate;
    uint32_t length = good_request(client, room, &immediate);
    bool is_any = fuzz_rarely(client->input, 16);

    if (is_any) {
        room[fuzz_below(client->input, OKV_REQUEST_HEADER + 8)] = fuzz_u8(client->input);
        immediate ^= (uint32_t)fuzz_u8(client->input) << 24;
        length -= fuzz_u8(client->input) & 3 ? 0 : length % 7;
    }
    uint8_t *bytes = malloc(length);
    FUZZ_CHECK(bytes);
    memcpy(bytes, room, length);
    bool goes_on = serve(client, immediate, bytes, length);
    FUZZ_CHECK(goes_on || is_any || client->session->pull_count > 0 ||
               okv_immediate_opcode(immediate) == OKV_OP_FLUSH);
    free(bytes);
    return goes_on;
}

/* ---- the server ---- */

static void audit(struct hostile_client *client)
{
    struct okv_store *store = &client->core.server->store;
    struct store_audit found;

    store_audit_run(client->core.server->region.base, REGION_LENGTH, store->table.inline_max, NULL,
                    NULL, &found);
    FUZZ_CHECK(found.items == atomic_load(&store->totals.items));
    FUZZ_CHECK(found.user_bytes == atomic_load(&store->totals.user_bytes));
    FUZZ_CHECK(found.buckets == atomic_load(&store->bucket_count));
    FUZZ_CHECK(found.references == atomic_load(&store->totals.references));
    FUZZ_CHECK(found.overflow_parts == atomic_load(&store->totals.overflow_parts));
    FUZZ_CHECK(found.expiring == atomic_load(&store->totals.expiring));
    uint64_t segment = (uint64_t)store->table.segment_buckets * store->table.bucket_size;
    uint64_t used = found.class_bytes + (store->reserve ? store_size_class(segment) : 0);
    FUZZ_CHECK(client->pull_count > 0 || okv_heap_used(&store->heap) == used);
}

static void pass_time(struct hostile_client *client)
{
    struct okv_store *store = &client->core.server->store;

    client->clock_ms += fuzz_u16(client->input);
    okv_store_set_clock(store, client->clock_ms, fuzz_u8(client->input) & 1);
    okv_store_sweep(store, &client->core.work, fuzz_u8(client->input));
}

static void run(struct hostile_client *client)
{
    bool goes_on = true;

    for (unsigned n = 0; n < REQUESTS_MAX && goes_on && client->input->left > 0; n++) {
        uint8_t choice = fuzz_u8(client->input);
        if (choice < 0xe0)
            goes_on = one_request(client);
        else if (choice < 0xf0)
            end_pull(client);
        else if (choice < 0xfe)
            pass_time(client);
        else
            audit(client);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct hostile_client client = {.input = &input};
    uint8_t choice = fuzz_u8(&input);
    const struct okv_store_params params = {
        .length = REGION_LENGTH,
        .max_value = VALUE_MAX,
        .bucket_size = OKV_BUCKET_SIZE_MIN << choice % 5,
        .inline_max = choice & 0x80 ? 1 + choice : 0,
    };

    server_core_open(&client.core, &params);
    client.core.server->limits =
        (struct okv_message_limits){.slot_size = OKV_SLOT_SIZE_DEFAULT, .credits = CREDITS};
    client.clock_ms = 1000000;
    okv_store_set_clock(&client.core.server->store, client.clock_ms, true);
    client.session = okv_session_create(1, 0, CREDITS);
    FUZZ_CHECK(client.session);
    client.conn = (struct okv_conn){.ops = &pull_ops, .user = &client};
    client.session->conn = &client.conn;
    run(&client);
    while (client.pull_count > 0)
        end_pull(&client);
    audit(&client);
    okv_session_destroy(client.session);
    server_core_close(&client.core);
    return 0;
}
