/* Commands of keys, whatever their values. */
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"
#include "shared/base/number.h"
#include "shared/format/wire.h"

/* Calls `of` with each key, in several turns if there are many, and replies with the sum of what it
 * returns. A later turn begins with the next key: others may have changed those before it. */
static int sum_of_keys(struct okv_resp_call *call,
                       int (*of)(struct okv_resp_call *call, const struct okv_resp_arg *key))
{
    struct okv_resp_client *client = call->client;
    uint32_t next = call->is_part || !client->progress.next ? 1 : client->progress.next;
    uint64_t sum = next > 1 ? client->progress.sum : 0;
    int rc = 0;

    for (; next < call->count && !(next > 1 && okv_resp_has_to_pause(call)); next++) {
        rc = of(call, &call->args[next]);
        if (rc < 0)
            break;
        sum += (uint64_t)rc;
    }
    client->progress.next = next;
    client->progress.sum = sum;
    if (rc < 0)
        return rc == OKV_EAGAIN && !call->is_part ? rc : okv_resp_refuse(call, rc);
    if (next < call->count)
        return OKV_RESP_GOES_ON;
    okv_resp_integer(&call->reply, (int64_t)sum);
    return 0;
}

static int remove_key(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    int rc = okv_resp_remove(call, key);

    return rc == 0 ? 1 : rc == OKV_ENOTFOUND ? 0 : rc;
}

int okv_resp_cmd_del(struct okv_resp_call *call)
{
    return sum_of_keys(call, remove_key);
}

int okv_resp_cmd_exists(struct okv_resp_call *call)
{
    return sum_of_keys(call, okv_resp_exists);
}

int okv_resp_cmd_touch(struct okv_resp_call *call)
{
    return sum_of_keys(call, okv_resp_touch);
}

int okv_resp_cmd_type(struct okv_resp_call *call)
{
    int has = okv_resp_has(call, &call->args[1]);

    if (has < 0)
        return okv_resp_refuse(call, has);
    okv_resp_simple(&call->reply, has ? "string" : "none");
    return 0;
}

/* ---- OBJECT and MEMORY USAGE ---- */

struct look {
    uint32_t value_length;
    uint8_t uses;
    bool is_integer;
};

static int visit(void *user, const struct okv_store_now *now)
{
    struct look *look = user;
    int64_t ignored;

    look->value_length = now->value_length;
    look->uses = now->uses;
    look->is_integer = okv_number_parse(now->value, now->value_length, &ignored);
    return 0;
}

/* Replies with what `tell` says of the item, or null without one. */
static int reply_about(struct okv_resp_call *call,
                       void (*tell)(struct okv_resp_call *call, const struct look *look))
{
    struct look look;
    int rc = okv_resp_peek(call, &call->args[2], visit, &look);

    if (rc == OKV_ENOTFOUND)
        okv_resp_null(&call->reply);
    else if (rc)
        return okv_resp_refuse(call, rc);
    else
        tell(call, &look);
    return 0;
}

/* Bytes of flags, lengths and age of an entry. */
#define ENTRY_HEAD 5

static void reply_size(struct okv_resp_call *call, const struct look *look)
{
    okv_resp_integer(&call->reply, (int64_t)ENTRY_HEAD + call->args[2].length + look->value_length);
}

/* There is nothing to sample. False: an error was replied. */
static bool read_usage_options(struct okv_resp_call *call)
{
    int64_t samples;

    for (uint32_t i = 3; i < call->count; i += 2) {
        bool is_option = okv_resp_arg_is(&call->args[i], "SAMPLES") && i + 1 < call->count;
        if (is_option && !okv_resp_need_integer(call, i + 1, &samples))
            return false;
        if (!is_option || samples < 0) {
            okv_resp_syntax_error(call);
            return false;
        }
    }
    return true;
}

int okv_resp_cmd_memory_usage(struct okv_resp_call *call)
{
    return read_usage_options(call) ? reply_about(call, reply_size) : 0;
}

/* Strings of up to this length are "embstr" to Redis. */
#define EMBEDDED_MAX 44

static void reply_encoding(struct okv_resp_call *call, const struct look *look)
{
    okv_resp_text(&call->reply, look->is_integer                     ? "int"
                                : look->value_length <= EMBEDDED_MAX ? "embstr"
                                                                     : "raw");
}

int okv_resp_cmd_object_encoding(struct okv_resp_call *call)
{
    return reply_about(call, reply_encoding);
}

static void reply_refcount(struct okv_resp_call *call, const struct look *look)
{
    (void)look;
    okv_resp_integer(&call->reply, 1);
}

static void reply_uses(struct okv_resp_call *call, const struct look *look)
{
    if (call->executor->database->store.eviction.mode != OKV_STORE_REFUSE)
        okv_resp_integer(&call->reply, look->uses);
    else
        okv_resp_error(&call->reply,
                       "ERR An LFU maxmemory policy is not selected, access frequency not tracked. "
                       "Please note that when switching between policies at runtime LRU and LFU "
                       "data will take some time to adjust.");
}

int okv_resp_cmd_object_freq(struct okv_resp_call *call)
{
    return reply_about(call, reply_uses);
}

int okv_resp_cmd_object_refcount(struct okv_resp_call *call)
{
    return reply_about(call, reply_refcount);
}
