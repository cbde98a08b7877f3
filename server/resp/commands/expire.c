/* Commands of expiry. */
#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"

/* ---- EXPIRE, PERSIST ---- */

struct expire {
    uint64_t expiry_ms; /* 0: it is past */
    bool if_none, if_some, if_later, if_earlier;
    bool was_set;
};

/* An item that never expires does so later than any other. */
static bool is_allowed(const struct expire *expire, const struct okv_store_now *now)
{
    uint64_t before = now->expiry_ms;

    return !(expire->if_none && before) && !(expire->if_some && !before) &&
           !(expire->if_later && (!before || expire->expiry_ms <= before)) &&
           !(expire->if_earlier && before && expire->expiry_ms >= before);
}

static int decide_expire(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct expire *expire = user;

    expire->was_set = now && is_allowed(expire, now);
    if (!expire->was_set)
        return OKV_STORE_KEEP;
    if (expire->expiry_ms == 0)
        return OKV_STORE_REMOVE;
    *next = (struct okv_store_next){now->value, now->value_length, expire->expiry_ms};
    return 0;
}

static bool read_expire_options(struct okv_resp_call *call, struct expire *expire)
{
    for (uint32_t i = 3; i < call->count; i++) {
        const struct okv_resp_arg *option = &call->args[i];
        if (okv_resp_arg_is(option, "NX"))
            expire->if_none = true;
        else if (okv_resp_arg_is(option, "XX"))
            expire->if_some = true;
        else if (okv_resp_arg_is(option, "GT"))
            expire->if_later = true;
        else if (okv_resp_arg_is(option, "LT"))
            expire->if_earlier = true;
        else {
            okv_resp_error(&call->reply, "ERR Unsupported option %.*s",
                           (int)(option->length < 64 ? option->length : 64),
                           (const char *)option->text);
            return false;
        }
    }
    if (expire->if_none && (expire->if_some || expire->if_later || expire->if_earlier)) {
        okv_resp_error(&call->reply,
                       "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (expire->if_later && expire->if_earlier) {
        okv_resp_error(&call->reply, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

static int expire(struct okv_resp_call *call, unsigned form)
{
    struct expire expire = {.expiry_ms = 0};

    if (!read_expire_options(call, &expire) ||
        !okv_resp_need_expiry(call, 2, form, &expire.expiry_ms))
        return 0;
    int rc = okv_resp_modify(call, &call->args[1], decide_expire, &expire);
    if (rc && rc != OKV_EKEYSIZE)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, rc == 0 && expire.was_set);
    return 0;
}

int okv_resp_cmd_expire(struct okv_resp_call *call)
{
    return expire(call, 0);
}

int okv_resp_cmd_pexpire(struct okv_resp_call *call)
{
    return expire(call, OKV_RESP_TIME_MS);
}

int okv_resp_cmd_expireat(struct okv_resp_call *call)
{
    return expire(call, OKV_RESP_TIME_AT);
}

int okv_resp_cmd_pexpireat(struct okv_resp_call *call)
{
    return expire(call, OKV_RESP_TIME_MS | OKV_RESP_TIME_AT);
}

static int decide_persist(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    bool *had_expiry = user;

    *had_expiry = now && now->expiry_ms;
    if (!*had_expiry)
        return OKV_STORE_KEEP;
    *next = (struct okv_store_next){now->value, now->value_length, 0};
    return 0;
}

int okv_resp_cmd_persist(struct okv_resp_call *call)
{
    bool had_expiry = false;
    int rc = okv_resp_modify(call, &call->args[1], decide_persist, &had_expiry);

    if (rc && rc != OKV_EKEYSIZE)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, rc == 0 && had_expiry);
    return 0;
}

/* ---- TTL, EXPIRETIME ---- */

#define NO_KEY (-2)
#define NO_EXPIRY (-1)

static int visit_expiry(void *user, const struct okv_store_now *now)
{
    *(uint64_t *)user = now->expiry_ms;
    return 0;
}

/* Replies with the expiry of the item as Unix time, or with the time until then. */
static int reply_expiry(struct okv_resp_call *call, unsigned form)
{
    uint64_t expiry_ms = 0;
    int rc = okv_resp_peek(call, &call->args[1], visit_expiry, &expiry_ms);

    if (rc == OKV_ENOTFOUND) {
        okv_resp_integer(&call->reply, NO_KEY);
        return 0;
    }
    if (rc)
        return okv_resp_refuse(call, rc);
    if (!expiry_ms) {
        okv_resp_integer(&call->reply, NO_EXPIRY);
        return 0;
    }
    int64_t ms =
        okv_resp_wall_of(call, expiry_ms) - (form & OKV_RESP_TIME_AT ? 0 : okv_resp_wall_ms(call));
    ms = ms < 0 ? 0 : ms;
    okv_resp_integer(&call->reply, form & OKV_RESP_TIME_MS ? ms : (ms + 500) / 1000);
    return 0;
}

int okv_resp_cmd_ttl(struct okv_resp_call *call)
{
    return reply_expiry(call, 0);
}

int okv_resp_cmd_pttl(struct okv_resp_call *call)
{
    return reply_expiry(call, OKV_RESP_TIME_MS);
}

int okv_resp_cmd_expiretime(struct okv_resp_call *call)
{
    return reply_expiry(call, OKV_RESP_TIME_AT);
}

int okv_resp_cmd_pexpiretime(struct okv_resp_call *call)
{
    return reply_expiry(call, OKV_RESP_TIME_MS | OKV_RESP_TIME_AT);
}
