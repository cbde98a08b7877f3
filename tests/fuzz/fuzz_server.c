/*
 * A server among hostile clients: whoever connects, whatever is sent in whatever order, and
 * however connections end. fuzz_fixture.h says what must hold.
 */
#include "tests/fuzz/fuzz_fixture.h"
#include "tests/fuzz/fuzz_time.h"

#define VALUE_MAX 100000u
#define KEYS 200
#define ACTIONS_MAX 16
#define ROOM (OKV_SLOT_SIZE_DEFAULT + OKV_KEY_MAX + 64)

/* ---- hellos ---- */

/* Of a client whose writes are counted all fields are right. */
static void come(struct fixture *fixture)
{
    struct fuzz_input *input = fixture->input;
    unsigned id = fuzz_below(input, FIXTURE_IDS);
    uint8_t bytes[OKV_HELLO_MAX], choice = fuzz_u8(input);
    struct okv_hello hello = {
        .slot_size = OKV_SLOT_SIZE_DEFAULT,
        .credits = 1 + choice % 8,
        .resume = fixture->clients[id].session,
        .database = okv_database_id(OKV_DATABASE_DEFAULT),
    };
    size_t length = sizeof bytes;

    memset(hello.client_id, (int)id + 1, sizeof hello.client_id);
    if (id >= FIXTURE_HONEST && choice & 0x10)
        hello.resume = fuzz_number(input);
    okv_hello_encode(&hello, (struct okv_wire_hello *)bytes);
    if (id >= FIXTURE_HONEST && choice >= 0xc0)
        bytes[fuzz_below(input, sizeof bytes)] = fuzz_u8(input);
    if (id >= FIXTURE_HONEST && choice >= 0xf0)
        length = fuzz_below(input, sizeof bytes + 1);
    fixture_connect(fixture, bytes, length, choice & 8 ? "a" : "b");
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

static void choose_value(struct fuzz_input *input, struct okv_request_message *request,
                         uint8_t choice)
{
    static const uint8_t value[OKV_SLOT_SIZE_DEFAULT];
    static const uint8_t numbers[] = "0-9223372036854775808";
    bool is_put = request->opcode == OKV_OP_PUT;
    bool is_ping = request->opcode == OKV_OP_PING;

    request->value = value;
    if (is_put || request->opcode == OKV_OP_APPEND || (is_ping && choice & 64))
        request->value_length =
            choice & 16 ? fuzz_u16(input) % okv_slot_value_max(sizeof value) : fuzz_u8(input);
    if (request->opcode == OKV_OP_HITS)
        request->value_length = fuzz_u16(input) % okv_slot_value_max(sizeof value);
    if (choice & 32 && (is_put || request->opcode == OKV_OP_DELETE))
        request->flags = 1 << fuzz_below(input, is_put ? 3 : 2) & (is_put ? 7 : 2);
    if (request->flags & OKV_REQUEST_RENDEZVOUS)
        request->value_length = 1 + fuzz_u16(input) * 2u;
    if (choice & 64 && (is_put || request->opcode == OKV_OP_TOUCH ||
                        request->opcode == OKV_OP_GET_TOUCH || request->opcode == OKV_OP_INCR_TTL))
        request->ttl_ms = fuzz_number(input) % OKV_TTL_MAX;
    if (is_put && request->ttl_ms % 4 == 3) {
        request->flags |= OKV_REQUEST_KEEP_TTL;
        request->ttl_ms = 0;
    }
    if (choice & 128 && request->value_length < sizeof numbers &&
        !(request->flags & OKV_REQUEST_RENDEZVOUS))
        request->value = numbers;
    if (request->opcode == OKV_OP_FLUSH && choice & 16)
        request->value_length = fuzz_u8(input) % 12;
    if (request->opcode == OKV_OP_INCR || request->opcode == OKV_OP_INCR_TTL ||
        request->opcode == OKV_OP_FLUSH || request->flags & OKV_REQUEST_IF_VERSION)
        request->argument = fuzz_number(input);
}

/* The next one on the request slot, the last one again, or any near it. */
static uint64_t choose_sequence(struct fuzz_input *input, uint64_t *sent)
{
    uint8_t choice = fuzz_u8(input);
    uint64_t sequence = *sent + 1;

    if ((choice & 7) >= 5)
        sequence = *sent + (choice >> 4) % 4;
    if ((choice & 7) == 7 && *sent >= 4)
        sequence = *sent - choice % 4;
    sequence = sequence ? sequence : 1;
    if (sequence > *sent)
        *sent = sequence;
    return sequence;
}

/* A request that a client of ours could make, of its fields right; its length. */
static uint32_t good_request(struct fixture *fixture, const struct fixture_connection *c,
                             uint16_t request_slot, uint8_t *out, uint32_t *immediate)
{
    static const uint8_t opcodes[24] = {
        OKV_OP_INCR,     OKV_OP_PUT,      OKV_OP_PUT,       OKV_OP_PUT,      OKV_OP_DELETE,
        OKV_OP_GET,      OKV_OP_INCR,     OKV_OP_PUT,       OKV_OP_APPEND,   OKV_OP_TOUCH,
        OKV_OP_FLUSH,    OKV_OP_STAT,     OKV_OP_PING,      OKV_OP_APPEND,   OKV_OP_DELETE,
        OKV_OP_GOODBYE,  OKV_OP_TOUCH,    OKV_OP_INCR,      OKV_OP_PUT,      OKV_OP_HITS,
        OKV_OP_INCR_TTL, OKV_OP_INCR_TTL, OKV_OP_GET_TOUCH, OKV_OP_GET_TOUCH};
    struct fuzz_input *input = fixture->input;
    struct fixture_client *client = &fixture->clients[c->id < FIXTURE_IDS ? c->id : 0];
    uint8_t key[OKV_KEY_MAX], choice = fuzz_u8(input);
    struct okv_request_message request = {.opcode = opcodes[choice % 24], .slot = request_slot};
    unsigned opcode = request.opcode;

    request.sequence = choose_sequence(input, &client->sent[request_slot % FIXTURE_REQUEST_SLOTS]);
    request.key = key;
    if (opcode != OKV_OP_FLUSH && opcode != OKV_OP_STAT && opcode != OKV_OP_PING &&
        opcode != OKV_OP_GOODBYE && opcode != OKV_OP_HITS)
        request.key_length = choose_key(input, key);
    choose_value(input, &request, choice);
    if (opcode == OKV_OP_INCR && c->id < FIXTURE_HONEST) {
        request.argument = 1;
        request.key_length =
            (uint32_t)snprintf((char *)key, OKV_KEY_MAX, FIXTURE_ONCE "%u-%u-%u-%u", c->id,
                               client->generation, request_slot, (unsigned)request.sequence);
    }
    *immediate = okv_immediate(opcode, request_slot);
    return okv_request_encode(&request, out);
}

/* Never on a request slot that this batch has used: the model does not see when that one was
 * answered. */
static bool choose_request_slot(struct fixture *fixture, const struct fixture_connection *c,
                                uint16_t *request_slot)
{
    uint8_t choice = fuzz_u8(fixture->input);

    *request_slot = choice % FIXTURE_REQUEST_SLOTS;
    if (choice >= 0xfc)
        *request_slot = fuzz_u16(fixture->input);
    else if (*request_slot >= c->request_slot_count ||
             (c->request_slots[*request_slot].busy && choice < 0xf0))
        return false;
    return *request_slot >= FIXTURE_REQUEST_SLOTS || !c->request_slots[*request_slot].busy ||
           c->request_slots[*request_slot].batch != fixture->batch;
}

/* In memory of exactly its length; sometimes a byte of it is any. */
static bool send_request(struct fixture *fixture, struct fixture_connection *c,
                         struct okv_event *event)
{
    uint8_t room[ROOM];
    struct fuzz_input *input = fixture->input;
    uint32_t immediate;
    uint16_t request_slot;
    bool has_immediate = true;

    if (c->ended || c->wrong || c->unsure || !choose_request_slot(fixture, c, &request_slot))
        return false;
    uint32_t length = good_request(fixture, c, request_slot, room, &immediate);
    if (c->id >= FIXTURE_HONEST && fuzz_rarely(input, 16)) {
        room[fuzz_below(input, OKV_REQUEST_HEADER + 8)] = fuzz_u8(input);
        immediate ^= (uint32_t)fuzz_u8(input) << 24;
        has_immediate = !fuzz_rarely(input, 8);
        length -= fuzz_u8(input) & 3 ? 0 : length % 7;
    }
    uint8_t *bytes = malloc(length ? length : 1);
    FUZZ_CHECK(bytes);
    memcpy(bytes, room, length);
    fixture_send(c, immediate, has_immediate, bytes, length, event);
    return true;
}

/* ---- what happens ---- */

static bool end_rendezvous(struct fixture *fixture, struct fixture_connection *c,
                           struct okv_event *event)
{
    if (!c->in_use || c->ended || c->rendezvous_count == 0)
        return false;
    fixture_rendezvous_end(fixture, c, fuzz_below(fixture->input, c->rendezvous_count),
                           fuzz_rarely(fixture->input, 4) ? OKV_ERENDEZVOUS : 0, event);
    return true;
}

static void act_apart(struct fixture *fixture, struct fixture_connection *c, uint8_t choice)
{
    static const int ends[] = {OKV_EDISCONNECTED, OKV_ETIMEDOUT, OKV_EIO, OKV_EPROTO};
    uint8_t more = fuzz_u8(fixture->input);

    if (choice < 0xc4) {
        come(fixture);
    } else if (choice < 0xcc) {
        if (c->in_use)
            fixture_break(c, ends[more & 3]);
    } else if (choice < 0xd8) {
        c->no_buffers = more & 1;
    } else if (choice < 0xe4) {
        c->base.unacknowledged = 0;
        c->base.acknowledged++;
    } else if (choice < 0xf4) {
        fuzz_time_pass((uint64_t)more * more % 2000u * 1000000u);
    } else if (choice < 0xfe) {
        fixture_audit(fixture);
    } else if (more & 1) {
        atomic_store(&fixture->core.server->stopping, true);
    }
}

/* Returns whether there is an event. */
static bool act(struct fixture *fixture, struct okv_event *event)
{
    uint8_t choice = fuzz_u8(fixture->input);
    struct fixture_connection *c = &fixture->connections[choice % FIXTURE_CONNECTIONS];

    if (choice < 0x98)
        return c->in_use && c->opened && send_request(fixture, c, event);
    if (choice < 0xa8)
        return end_rendezvous(fixture, c, event);
    if (choice < 0xb4)
        return fixture_flush_next(c, event);
    act_apart(fixture, c, choice);
    return false;
}

int fixture_act(struct fixture *fixture, struct okv_event *events, int room)
{
    bool stopping = atomic_load(&fixture->core.server->stopping);
    int n = 0;

    for (unsigned left = fuzz_below(fixture->input, ACTIONS_MAX); left > 0 && n < room; left--)
        n += act(fixture, &events[n]);
    /* The server gives those that it ends some time, and the input may take all of it. */
    for (unsigned i = 0; stopping && i < FIXTURE_CONNECTIONS; i++)
        while (n < room && fixture_flush_next(&fixture->connections[i], &events[n]))
            n++;
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fixture fixture;
    struct fuzz_input input = {data, size};
    uint8_t choice = fuzz_u8(&input);
    const struct okv_store_params params = {
        .length = FIXTURE_REGION,
        .max_value = VALUE_MAX,
        .bucket_size = OKV_BUCKET_SIZE_MIN << choice % 5,
        .inline_max = choice & 0x80 ? 1 + choice : 0,
    };

    fixture_open(&fixture, &input, &params);
    fixture_run(&fixture);
    fixture_close(&fixture);
    return 0;
}
