/* Commands of keys, whatever their values. */
#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
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

/* When the log has no room for all, it goes on behind those that are gone: others may have put them
 * again. */
int okv_resp_run_del(struct okv_resp_call *call)
{
    uint32_t next = call->is_part || !call->client->del.next ? 1 : call->client->del.next;
    uint64_t removed = next > 1 ? call->client->del.removed : 0;
    int rc = 0;

    for (; next < call->count; next++) {
        rc = okv_resp_remove(call, &call->args[next]);
        if (rc && rc != OKV_ENOTFOUND)
            break;
        removed += rc == 0;
    }
    call->client->del.next = next;
    call->client->del.removed = removed;
    if (next == call->count) {
        okv_resp_integer(&call->reply, (int64_t)removed);
        return 0;
    }
    return rc == OKV_EAGAIN && !call->is_part ? rc : okv_resp_refuse(call, rc);
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
