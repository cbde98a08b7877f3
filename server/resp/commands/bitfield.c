/* BITFIELD and BITFIELD_RO: numbers of some bits each in a value. */
#include "server/resp/proto/bitfield.h"
#include "server/resp/commands/commands.h"
#include "server/resp/commands/edit.h"
#include "server/resp/run/lookup.h"
#include "shared/base/error.h"

/* Work of an operation: bits that are read and written, and the digits of its reply. */
#define OPERATION 160u

static struct okv_bitfield fields_of(const struct okv_resp_call *call)
{
    return (struct okv_bitfield){.args = call->args + 2, .count = call->count - 2};
}

/* The replies are collected until the change is made. */
static void reply_to(struct okv_resp_call *call, bool has_number, int64_t number)
{
    const struct okv_resp_reply to = {&call->client->text, call->reply.protocol};

    okv_turn_spend(&call->client->resp->turn, OPERATION);
    if (has_number)
        okv_resp_integer(&to, number);
    else
        okv_resp_null(&to);
}

/* ---- reading ---- */

static void get_all(struct okv_resp_call *call, const uint8_t *value, uint32_t length)
{
    struct okv_bitfield fields = fields_of(call);
    struct okv_bitfield_operation operation;

    okv_resp_buffer_fini(&call->client->text);
    while (okv_bitfield_next(&fields, &operation))
        reply_to(call, true, okv_bitfield_get(&operation, value, length));
}

static int visit(void *user, const struct okv_store_now *now)
{
    get_all(user, now->value, now->value_length);
    return 0;
}

static int get(struct okv_resp_call *call)
{
    int rc = okv_resp_look(call, &call->args[1], visit, call);

    if (rc == OKV_ENOTFOUND)
        get_all(call, (const uint8_t *)"", 0);
    return rc == OKV_ENOTFOUND ? 0 : rc;
}

/* ---- changing ---- */

static bool write(struct okv_resp_edit *edit, uint8_t *value)
{
    struct okv_bitfield fields = fields_of(edit->call);
    struct okv_bitfield_operation operation;
    bool changes = false;
    int64_t result;

    okv_resp_buffer_fini(&edit->call->client->text);
    while (okv_bitfield_next(&fields, &operation)) {
        bool has_number = okv_bitfield_run(&operation, value, edit->length, &result, &changes);
        reply_to(edit->call, has_number, result);
    }
    return changes;
}

static int change(struct okv_resp_call *call, uint64_t end)
{
    struct okv_resp_edit edit = {
        .call = call, .with = {(const uint8_t *)"", 0}, .offset = end, .write = write};

    return okv_resp_edit_run(&edit);
}

/* ---- commands ---- */

static int run(struct okv_resp_call *call, const struct okv_bitfield_summary *summary)
{
    struct okv_resp_buffer *replies = &call->client->text;
    int rc = summary->end ? change(call, summary->end) : get(call);

    if (rc == 0 && replies->has_failed)
        rc = OKV_ENOMEM;
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_array(&call->reply, summary->operations);
    okv_resp_buffer_add(call->reply.out, replies->bytes, replies->used);
    return 0;
}

static int bitfield(struct okv_resp_call *call, bool may_write)
{
    struct okv_bitfield_summary summary;
    const char *problem = okv_bitfield_check(fields_of(call), &summary);

    if (!problem && summary.end && !may_write)
        problem = "ERR BITFIELD_RO only supports the GET subcommand";
    if (problem) {
        okv_resp_error(&call->reply, "%s", problem);
        return 0;
    }
    return run(call, &summary);
}

int okv_resp_cmd_bitfield(struct okv_resp_call *call)
{
    return bitfield(call, true);
}

int okv_resp_cmd_bitfield_ro(struct okv_resp_call *call)
{
    return bitfield(call, false);
}
