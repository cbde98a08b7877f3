/* Commands of bits. A change replaces the whole value. */
#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/commands/edit.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"

struct bit {
    uint64_t offset; /* from the highest bit of the first byte on */
    bool was_set;
};

static bool bit_of(const void *value, uint32_t length, uint64_t offset)
{
    return offset / 8 < length && ((const uint8_t *)value)[offset / 8] >> (7 - offset % 8) & 1;
}

static int visit_bit(void *user, const struct okv_store_now *now)
{
    struct bit *bit = user;

    bit->was_set = bit_of(now->value, now->value_length, bit->offset);
    return 0;
}

/* Of the longest values of Redis. Reading a bit behind the end of a value is no error. */
#define BITS_MAX (INT64_C(1) << 32)

static bool need_offset(struct okv_resp_call *call, struct bit *bit)
{
    int64_t offset;

    if (okv_resp_arg_integer(&call->args[2], &offset) && offset >= 0 && offset < BITS_MAX) {
        bit->offset = (uint64_t)offset;
        return true;
    }
    okv_resp_error(&call->reply, "ERR bit offset is not an integer or out of range");
    return false;
}

int okv_resp_cmd_getbit(struct okv_resp_call *call)
{
    struct bit bit = {.was_set = false};

    if (!need_offset(call, &bit))
        return 0;
    int rc = okv_resp_look(call, &call->args[1], visit_bit, &bit);
    if (rc && rc != OKV_ENOTFOUND)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, bit.was_set);
    return 0;
}

int okv_resp_cmd_setbit(struct okv_resp_call *call)
{
    const struct okv_resp_arg *value = &call->args[3];
    struct okv_resp_edit edit = {.call = call, .sets = okv_resp_arg_is(value, "1")};
    struct bit bit = {.was_set = false};

    if (!need_offset(call, &bit))
        return 0;
    if (!edit.sets && !okv_resp_arg_is(value, "0")) {
        okv_resp_error(&call->reply, "ERR bit is not an integer or out of range");
        return 0;
    }
    edit.offset = bit.offset / 8;
    edit.mask = (uint8_t)(0x80u >> bit.offset % 8);
    int rc = okv_resp_edit_run(&edit);
    if (rc == OKV_RESP_GOES_ON)
        return rc;
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, edit.was_set);
    return 0;
}
