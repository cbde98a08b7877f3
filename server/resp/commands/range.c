/* Commands of a part of a value. A change replaces the whole value. */
#include "server/resp/commands/commands.h"
#include "server/resp/commands/edit.h"
#include "server/resp/run/download.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"

/* ---- GETRANGE ---- */

struct range {
    struct okv_resp_call *call;
    int64_t first, last;
};

static int visit_range(void *user, const struct okv_store_now *now)
{
    struct range *range = user;
    int64_t length = now->value_length;
    int64_t first = range->first < 0 ? range->first + length : range->first;
    int64_t last = range->last < 0 ? range->last + length : range->last;
    bool is_backwards = range->first < 0 && range->last < 0 && range->first > range->last;

    /* As Redis: what begins or ends before the first byte does so at that byte. */
    first = first < 0 ? 0 : first;
    last = last < 0 ? 0 : last >= length ? length - 1 : last;
    if (is_backwards)
        last = first - 1;
    if (first > last || length == 0)
        return okv_resp_reply_value(range->call, now, 0, 0);
    return okv_resp_reply_value(range->call, now, (uint32_t)first, (uint32_t)(last - first + 1));
}

int okv_resp_cmd_getrange(struct okv_resp_call *call)
{
    struct range range = {.call = call};

    if (!okv_resp_need_integer(call, 2, &range.first) ||
        !okv_resp_need_integer(call, 3, &range.last))
        return 0;
    int rc = okv_resp_look(call, &call->args[1], visit_range, &range);
    if (rc == OKV_ENOTFOUND)
        okv_resp_bulk(&call->reply, "", 0);
    else if (rc)
        return okv_resp_refuse(call, rc);
    return 0;
}

/* ---- APPEND and SETRANGE ---- */

static int run_edit(struct okv_resp_edit *edit)
{
    int rc = okv_resp_edit_run(edit);

    if (rc == OKV_RESP_GOES_ON)
        return rc;
    if (rc)
        return okv_resp_refuse(edit->call, rc);
    okv_resp_integer(&edit->call->reply, (int64_t)edit->length);
    return 0;
}

int okv_resp_cmd_append(struct okv_resp_call *call)
{
    struct okv_resp_edit edit = {.call = call, .with = call->args[2], .is_append = true};

    return run_edit(&edit);
}

int okv_resp_cmd_setrange(struct okv_resp_call *call)
{
    struct okv_resp_edit edit = {.call = call, .with = call->args[3]};
    int64_t offset;

    if (!okv_resp_need_integer(call, 2, &offset))
        return 0;
    if (offset < 0) {
        okv_resp_error(&call->reply, "ERR offset is out of range");
        return 0;
    }
    edit.offset = (uint64_t)offset;
    if (edit.with.length && edit.offset > OKV_VALUE_MAX)
        return okv_resp_refuse(call, OKV_EVALUESIZE);
    return run_edit(&edit);
}
