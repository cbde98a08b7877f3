#include "tests/support/counting_client.h"

#include "tests/support/test.h"

struct okv_wire_hello counting_hello_after(const struct okv_wire_hello *earlier,
                                           uint64_t session_id)
{
    struct okv_wire_hello hello = *earlier;

    hello.resume = okv_le32_of((uint32_t)session_id);
    return hello;
}

void counting_send(struct hostile *client, uint16_t request_slot, uint64_t sequence, uint64_t delta)
{
    const struct okv_request_message incr = {.opcode = OKV_OP_INCR,
                                             .slot = request_slot,
                                             .sequence = sequence,
                                             .argument = delta,
                                             .key = (const uint8_t *)COUNTING_KEY,
                                             .key_length = sizeof COUNTING_KEY - 1};

    hostile_request_again(client, &incr);
}

uint64_t counting_take(struct hostile *client, uint16_t request_slot, uint64_t sequence)
{
    struct okv_event event = hostile_event(client);
    struct okv_reply_message reply;

    if (event.type != OKV_EVENT_RECV)
        fail_msg("event %d with status %d instead of a reply", event.type, event.status);
    assert_int_equal(okv_reply_decode(event.immediate, event.data, event.length, &reply), 0);
    assert_int_equal(reply.opcode, OKV_OP_INCR);
    assert_int_equal(reply.status, OKV_OK);
    assert_int_equal(reply.slot, request_slot);
    assert_int_equal(reply.sequence, sequence);
    assert_int_equal(reply.value_length, 8);
    uint64_t sum = okv_get_u64(reply.value);
    client->ops->recv_release(client->conn->endpoint, &event);
    return sum;
}

uint64_t counting_incr(struct hostile *client, uint16_t request_slot, uint64_t sequence,
                       uint64_t delta)
{
    counting_send(client, request_slot, sequence, delta);
    return counting_take(client, request_slot, sequence);
}

uint64_t counting_value(struct bystander *bystander)
{
    char value[32] = "";
    size_t length = 0;

    assert_int_equal(okv_get(bystander->handle, COUNTING_KEY, sizeof COUNTING_KEY - 1, value,
                             sizeof value - 1, &length, NULL),
                     OKV_OK);
    value[length] = '\0';
    return strtoull(value, NULL, 10);
}

void counting_reset(struct bystander *bystander)
{
    assert_int_equal(
        okv_put(bystander->handle, COUNTING_KEY, sizeof COUNTING_KEY - 1, "100", 3, NULL), OKV_OK);
}
