/* Commands of whole values. Each decides under the lock of its item's bucket, so it is atomic for
 * all readers and writers. */
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/download.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"

/* ---- GET, MGET, STRLEN ---- */

/* Takes back what the change replied when it ran before. */
static void drop_old(struct okv_resp_call *call)
{
    okv_resp_download_end(call->client);
    call->reply.out->used = call->reply_start;
}

/* Replies with the current value, which the change may replace or remove: a long one is pinned
 * until it has left. The change may have to run again. OKV_ENOMEM: the value would be lost;
 * OKV_EAGAIN. */
static int reply_old(struct okv_resp_call *call, const struct okv_store_now *now)
{
    int rc = 0;

    drop_old(call);
    if (now)
        rc = okv_resp_reply_value(call, now, 0, now->value_length);
    else
        okv_resp_null(&call->reply);
    return call->reply.out->has_failed ? OKV_ENOMEM : rc;
}

/* What such a change returns. A value that is not replied is not sent. */
static int end_reply_old(struct okv_resp_call *call, int rc)
{
    if (rc == 0)
        return 0;
    okv_resp_download_end(call->client);
    return okv_resp_refuse(call, rc);
}

static int visit_value(void *user, const struct okv_store_now *now)
{
    return okv_resp_reply_value(user, now, 0, now->value_length);
}

static int get(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    struct okv_resp *resp = call->client->resp;
    int rc;

    call->reply_start = call->reply.out->used; /* of one key of MGET */
    rc = okv_resp_look(call, key, visit_value, call);
    if (rc == OKV_ENOTFOUND) {
        resp->counts.misses++;
        okv_resp_null(&call->reply);
    } else if (rc) {
        return okv_resp_refuse(call, rc);
    } else {
        resp->counts.hits++;
    }
    return 0;
}

int okv_resp_cmd_get(struct okv_resp_call *call)
{
    return get(call, &call->args[1]);
}

/* Goes on after a long value has left, and in its next turn if there are many keys. */
int okv_resp_cmd_mget(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    uint32_t next = call->is_part || !client->progress.next ? 1 : client->progress.next;
    int rc = 0;

    if (next == 1)
        okv_resp_array(&call->reply, call->count - 1);
    while (next < call->count && rc == 0) {
        rc = get(call, &call->args[next]);
        next += rc == 0;
        if (client->download.length || okv_resp_has_to_pause(call))
            break;
    }
    client->progress.next = next;
    if (rc && (next == 1 || call->is_part))
        return rc;
    return rc || next < call->count ? OKV_RESP_GOES_ON : 0;
}

static int visit_length(void *user, const struct okv_store_now *now)
{
    *(uint32_t *)user = now->value_length;
    return 0;
}

int okv_resp_cmd_strlen(struct okv_resp_call *call)
{
    uint32_t length = 0;
    int rc = okv_resp_look(call, &call->args[1], visit_length, &length);

    if (rc && rc != OKV_ENOTFOUND)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, length);
    return 0;
}

/* ---- SET, GETSET, GETDEL ---- */

struct set {
    struct okv_resp_call *call;
    const struct okv_resp_arg *value;
    bool has_expiry;
    uint64_t expiry_ms; /* 0 with has_expiry: it is past */
    bool if_absent, if_present, keeps_expiry, wants_old;
    bool was_set;
};

static int decide_set(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct set *set = user;

    int rc = set->wants_old ? reply_old(set->call, now) : 0;

    if (rc)
        return rc;
    set->was_set = !(now ? set->if_absent : set->if_present);
    if (!set->was_set)
        return OKV_STORE_KEEP;
    if (set->has_expiry && !set->expiry_ms)
        return now ? OKV_STORE_REMOVE : OKV_STORE_KEEP;
    *next = (struct okv_store_next){set->value->text, set->value->length, set->expiry_ms};
    if (set->keeps_expiry && now)
        next->expiry_ms = now->expiry_ms;
    return 0;
}

static int set(struct okv_resp_call *call, const struct okv_resp_arg *key, struct set *what)
{
    return okv_resp_modify(call, key, decide_set, what);
}

/* Returns false when an error was replied. */
static bool read_set_options(struct okv_resp_call *call, struct set *set)
{
    struct okv_resp_expiry expiry = {.index = 0};

    for (uint32_t i = 3; i < call->count; i++) {
        const struct okv_resp_arg *option = &call->args[i];
        if (okv_resp_arg_is(option, "NX") && !set->if_present) {
            set->if_absent = true;
        } else if (okv_resp_arg_is(option, "XX") && !set->if_absent) {
            set->if_present = true;
        } else if (okv_resp_arg_is(option, "GET")) {
            set->wants_old = true;
        } else if (okv_resp_arg_is(option, "KEEPTTL") && !expiry.index) {
            set->keeps_expiry = true;
        } else if (set->keeps_expiry || !okv_resp_read_expiry(call, &i, &expiry)) {
            okv_resp_syntax_error(call);
            return false;
        }
    }
    set->has_expiry = expiry.index;
    return !expiry.index || okv_resp_need_expiry(call, expiry.index, expiry.form, &set->expiry_ms);
}

int okv_resp_cmd_set(struct okv_resp_call *call)
{
    struct set what = {.call = call, .value = &call->args[2]};

    if (!read_set_options(call, &what))
        return 0;
    int rc = set(call, &call->args[1], &what);
    if (rc || what.wants_old)
        return end_reply_old(call, rc);
    if (what.was_set)
        okv_resp_simple(&call->reply, "OK");
    else
        okv_resp_null(&call->reply);
    return 0;
}

static int set_for(struct okv_resp_call *call, unsigned form)
{
    struct set what = {.value = &call->args[3], .has_expiry = true};

    if (!okv_resp_need_expiry(call, 2, form | OKV_RESP_TIME_POSITIVE, &what.expiry_ms))
        return 0;
    int rc = set(call, &call->args[1], &what);
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_cmd_setex(struct okv_resp_call *call)
{
    return set_for(call, 0);
}

int okv_resp_cmd_psetex(struct okv_resp_call *call)
{
    return set_for(call, OKV_RESP_TIME_MS);
}

int okv_resp_cmd_setnx(struct okv_resp_call *call)
{
    struct set what = {.value = &call->args[2], .if_absent = true};
    int rc = set(call, &call->args[1], &what);

    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, what.was_set);
    return 0;
}

int okv_resp_cmd_getset(struct okv_resp_call *call)
{
    struct set what = {.call = call, .value = &call->args[2], .wants_old = true};

    return end_reply_old(call, set(call, &call->args[1], &what));
}

static int decide_getdel(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    int rc = reply_old(user, now);

    (void)next;
    if (rc)
        return rc;
    return now ? OKV_STORE_REMOVE : OKV_STORE_KEEP;
}

int okv_resp_cmd_getdel(struct okv_resp_call *call)
{
    return end_reply_old(call, okv_resp_modify(call, &call->args[1], decide_getdel, call));
}

/* ---- GETEX ---- */

struct getex {
    struct okv_resp_call *call;
    struct okv_resp_expiry expiry;
    bool persists;
};

/* The expiry is looked at only for an item that is there, as in Redis. */
static int decide_getex(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct getex *getex = user;
    const struct okv_resp_expiry *expiry = &getex->expiry;
    uint64_t expiry_ms = 0; /* never; of an expiry: it is past */

    drop_old(getex->call);
    if (now && expiry->index &&
        !okv_resp_need_expiry(getex->call, expiry->index, expiry->form, &expiry_ms))
        return OKV_STORE_KEEP;
    int rc = reply_old(getex->call, now);
    if (rc)
        return rc;
    if (now && expiry->index && !expiry_ms)
        return OKV_STORE_REMOVE;
    if (!now || expiry_ms == now->expiry_ms)
        return OKV_STORE_KEEP;
    *next = (struct okv_store_next){now->value, now->value_length, expiry_ms};
    return 0;
}

/* Returns false when an error was replied. */
static bool read_getex_options(struct okv_resp_call *call, struct getex *getex)
{
    for (uint32_t i = 2; i < call->count; i++)
        if (okv_resp_arg_is(&call->args[i], "PERSIST") && !getex->expiry.index) {
            getex->persists = true;
        } else if (getex->persists || !okv_resp_read_expiry(call, &i, &getex->expiry)) {
            okv_resp_syntax_error(call);
            return false;
        }
    return true;
}

int okv_resp_cmd_getex(struct okv_resp_call *call)
{
    struct getex getex = {.call = call};

    if (call->count == 2)
        return okv_resp_cmd_get(call);
    if (!read_getex_options(call, &getex))
        return 0;
    int rc = okv_resp_modify(call, &call->args[1], decide_getex, &getex);
    if (rc != OKV_EKEYSIZE)
        return end_reply_old(call, rc);
    okv_resp_null(&call->reply);
    return 0;
}

/* ---- of several keys ---- */

/* Pairs that no database could store are refused before anything is changed. */
static int check_pairs(const struct okv_resp_call *call)
{
    for (uint32_t i = 1; i < call->count; i += 2) {
        if (call->args[i].length == 0 || call->args[i].length > OKV_KEY_MAX)
            return OKV_EKEYSIZE;
        if (call->args[i + 1].length > call->executor->database->store.max_value)
            return OKV_EVALUESIZE;
    }
    return 0;
}

static int set_pairs(struct okv_resp_call *call)
{
    int rc = check_pairs(call);

    for (uint32_t i = 1; i < call->count && rc == 0; i += 2) {
        struct set what = {.value = &call->args[i + 1]};
        rc = set(call, &call->args[i], &what);
    }
    return rc;
}

static bool need_pairs(struct okv_resp_call *call)
{
    if (call->count % 2 == 0)
        okv_resp_refuse_count(call);
    return call->count % 2;
}

/* It runs alone. Clients of libokv may see some of the keys set, and others not yet. */
int okv_resp_cmd_mset(struct okv_resp_call *call)
{
    if (!need_pairs(call))
        return 0;
    int rc = set_pairs(call);
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_cmd_msetnx(struct okv_resp_call *call)
{
    int has = 0;

    if (!need_pairs(call))
        return 0;
    for (uint32_t i = 1; i < call->count && has == 0; i += 2)
        has = okv_resp_has(call, &call->args[i]);
    int rc = has ? has : set_pairs(call);
    if (rc < 0)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, !has);
    return 0;
}
