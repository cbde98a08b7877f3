/* Commands of keys, whatever their values. */
#include "server/resp/commands.h"
#include "server/resp/items.h"
#include "shared/base/error.h"

/* Calls `of` with each key, and replies with the sum of what it returns. */
static int sum_of_keys(struct okv_resp_call *call,
                       int (*of)(struct okv_resp_call *call, const struct okv_resp_arg *key))
{
    int64_t sum = 0;

    for (uint32_t i = 1; i < call->count; i++) {
        int rc = of(call, &call->args[i]);
        if (rc < 0)
            return okv_resp_refuse(call, rc);
        sum += rc;
    }
    okv_resp_integer(&call->reply, sum);
    return 0;
}

/* When the log has no room for all, it goes on with the rest: what is gone is not found again. */
int okv_resp_run_del(struct okv_resp_call *call)
{
    uint64_t *removed = &call->client->removed;
    int rc = 0;

    *removed = call->is_part ? 0 : *removed;
    for (uint32_t i = 1; i < call->count && (rc == 0 || rc == OKV_ENOTFOUND); i++) {
        rc = okv_resp_remove(call, &call->args[i]);
        *removed += rc == 0;
    }
    if (rc == OKV_EAGAIN && !call->is_part)
        return rc;
    if (rc && rc != OKV_ENOTFOUND)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, (int64_t)*removed);
    return 0;
}

/* Also TOUCH: a look at an item leaves no trace in okv. */
int okv_resp_run_exists(struct okv_resp_call *call)
{
    return sum_of_keys(call, okv_resp_has);
}

int okv_resp_run_type(struct okv_resp_call *call)
{
    int has = okv_resp_has(call, &call->args[1]);

    if (has < 0)
        return okv_resp_refuse(call, has);
    okv_resp_simple(&call->reply, has ? "string" : "none");
    return 0;
}
