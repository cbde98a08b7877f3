/* What the stub's server answers, and handles on it. */
#include "tests/support/test.h"

#include "tests/support/stub_transport.h"

struct stub_reply stub_reply_to(unsigned n)
{
    static const uint8_t number[sizeof(struct okv_wire_number)] = {42};
    static const uint8_t flushed[sizeof(struct okv_wire_flush)];
    const struct okv_request_message *request = &stub.requests[n % STUB_REQUESTS].message;
    struct stub_reply reply = {
        .message = {.opcode = request->opcode,
                    .slot = request->slot,
                    .sequence = request->sequence,
                    .version = 77,
                    .value = (const uint8_t *)"answer"},
    };

    switch (request->opcode) {
    case OKV_OP_GET:
    case OKV_OP_GET_TOUCH:
    case OKV_OP_STAT:
        reply.message.value_length = 6;
        break;
    case OKV_OP_PING:
    case OKV_OP_INCR:
    case OKV_OP_INCR_TTL:
    case OKV_OP_APPEND:
        reply.message.value = number;
        reply.message.value_length = sizeof number;
        break;
    case OKV_OP_FLUSH:
        reply.message.value = flushed;
        reply.message.value_length = sizeof flushed;
        break;
    default:
        break;
    }
    return reply;
}

void stub_restart(uint64_t boot_id)
{
    stub.welcome.boot_id = stub.block.boot_id = boot_id;
    stub.welcome.resumed = 0;
    stub_table();
}

okv *stub_open_with(const struct okv_options *options)
{
    char why[320];
    okv *handle;

    stub.welcome.credits = options->credits;
    if (okv_open(STUB_URI, options, &handle, why, sizeof why))
        fail_msg("okv_open: %s", why);
    stub.reads = stub.posts = 0;
    return handle;
}

okv *stub_open(uint32_t depth, uint32_t credits, uint32_t timeout_ms)
{
    struct okv_options options = {.depth = depth,
                                  .credits = credits,
                                  .timeout_ms = timeout_ms,
                                  .hints = OKV_HINTS_NONE,
                                  .reconnect = OKV_RECONNECT_NEVER};

    return stub_open_with(&options);
}

okv *stub_open_lasting(uint32_t depth, uint32_t credits, uint32_t timeout_ms)
{
    struct okv_options options = {
        .depth = depth, .credits = credits, .timeout_ms = timeout_ms, .hints = OKV_HINTS_NONE};

    return stub_open_with(&options);
}

void stub_close(okv **handle)
{
    okv_close(handle);
    assert_null(*handle);
    assert_int_equal(stub.registrations, 0);
    assert_int_equal(stub.connections, 0);
    assert_int_equal(stub.connecting, 0);
    assert_int_equal(stub.messages_held, 0);
}
