/* Commands of strings: each decides under the lock of its item's bucket, so it is atomic for all
 * readers and writers. */
#include <string.h>

#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"

/* ---- GET and its like ---- */

struct answer {
    struct okv_resp_call *call;
    size_t before; /* bytes of replies before this one */
};

static struct answer answer_of(struct okv_resp_call *call)
{
    return (struct answer){call, call->reply.out->used};
}

/* Replies with the value, from `first` on. Returns 0, or OKV_EAGAIN without a reply. */
static int answer_part(const struct answer *answer, const struct okv_store_now *now, uint32_t first,
                       uint32_t length)
{
    int rc;

    answer->call->reply.out->used = answer->before; /* it may be called again */
    if (okv_resp_download_begin(answer->call, now, first, length, &rc))
        okv_resp_bulk_head(&answer->call->reply, length);
    else if (rc == 0)
        okv_resp_bulk(&answer->call->reply, now->value + first, length);
    return rc;
}

/* Within a change, which may be tried again: the value is copied. OKV_ENOMEM: nobody would have it
 * after the change. */
static int answer_value(const struct answer *answer, const struct okv_store_now *now)
{
    answer->call->reply.out->used = answer->before;
    if (now)
        okv_resp_bulk(&answer->call->reply, now->value, now->value_length);
    else
        okv_resp_null(&answer->call->reply);
    return answer->call->reply.out->has_failed ? OKV_ENOMEM : 0;
}

static int visit_value(void *user, const struct okv_store_now *now)
{
    return answer_part(user, now, 0, now->value_length);
}

static int get(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    struct okv_resp *resp = call->client->resp;
    struct answer answer = answer_of(call);
    int rc = okv_resp_look(call, key, visit_value, &answer);

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

int okv_resp_run_get(struct okv_resp_call *call)
{
    return get(call, &call->args[1]);
}

int okv_resp_run_mget(struct okv_resp_call *call)
{
    int rc = 0;

    call->may_have_download = false;
    okv_resp_array(&call->reply, call->count - 1);
    for (uint32_t i = 1; i < call->count && rc == 0; i++)
        rc = get(call, &call->args[i]);
    return rc;
}

static int visit_length(void *user, const struct okv_store_now *now)
{
    *(uint32_t *)user = now->value_length;
    return 0;
}

int okv_resp_run_strlen(struct okv_resp_call *call)
{
    uint32_t length = 0;
    int rc = okv_resp_look(call, &call->args[1], visit_length, &length);

    if (rc && rc != OKV_ENOTFOUND)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, length);
    return 0;
}

struct range {
    struct answer answer;
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
        return answer_part(&range->answer, now, 0, 0);
    return answer_part(&range->answer, now, (uint32_t)first, (uint32_t)(last - first + 1));
}

int okv_resp_run_getrange(struct okv_resp_call *call)
{
    struct range range = {.answer = answer_of(call)};

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

/* ---- SET and its like ---- */

struct set {
    struct answer answer;
    const struct okv_resp_arg *value;
    uint64_t expiry_ms;
    bool is_past; /* it has expired already */
    bool if_absent, if_present, keeps_expiry, wants_old;
    bool was_set;
};

static int decide_set(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct set *set = user;

    if (set->wants_old && answer_value(&set->answer, now))
        return OKV_ENOMEM;
    set->was_set = !(now ? set->if_absent : set->if_present);
    if (!set->was_set)
        return OKV_STORE_KEEP;
    if (set->is_past)
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

static void set_expiry(struct okv_resp_call *call, struct set *set, int64_t wall_ms)
{
    set->expiry_ms = okv_resp_expiry_of(call, wall_ms);
    set->is_past = set->expiry_ms == 0;
}

/* Returns false when an error was replied. */
static bool read_set_options(struct okv_resp_call *call, struct set *set)
{
    bool has_expiry = false;
    int64_t wall_ms;

    for (uint32_t i = 3; i < call->count; i++) {
        const struct okv_resp_arg *option = &call->args[i];
        if (okv_resp_is(option, "NX") && !set->if_present) {
            set->if_absent = true;
        } else if (okv_resp_is(option, "XX") && !set->if_absent) {
            set->if_present = true;
        } else if (okv_resp_is(option, "GET")) {
            set->wants_old = true;
        } else if (okv_resp_is(option, "KEEPTTL") && !has_expiry) {
            set->keeps_expiry = true;
        } else {
            int is_expiry =
                has_expiry || set->keeps_expiry ? 0 : okv_resp_read_expiry(call, &i, &wall_ms);
            if (is_expiry == 0)
                okv_resp_syntax_error(call);
            if (is_expiry <= 0)
                return false;
            has_expiry = true;
            set_expiry(call, set, wall_ms);
        }
    }
    return true;
}

int okv_resp_run_set(struct okv_resp_call *call)
{
    struct set what = {.answer = answer_of(call), .value = &call->args[2]};

    if (!read_set_options(call, &what))
        return 0;
    int rc = set(call, &call->args[1], &what);
    if (rc) {
        call->reply.out->used = what.answer.before;
        return okv_resp_refuse(call, rc);
    }
    if (what.wants_old)
        return 0;
    if (what.was_set)
        okv_resp_simple(&call->reply, "OK");
    else
        okv_resp_null(&call->reply);
    return 0;
}

static int set_for(struct okv_resp_call *call, enum okv_resp_unit unit)
{
    struct set what = {.value = &call->args[3]};
    int64_t wall_ms;

    if (!okv_resp_need_time(call, 2, unit, false, true, &wall_ms))
        return 0;
    set_expiry(call, &what, wall_ms);
    int rc = set(call, &call->args[1], &what);
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_run_setex(struct okv_resp_call *call)
{
    return set_for(call, OKV_RESP_S);
}

int okv_resp_run_psetex(struct okv_resp_call *call)
{
    return set_for(call, OKV_RESP_MS);
}

int okv_resp_run_setnx(struct okv_resp_call *call)
{
    struct set what = {.value = &call->args[2], .if_absent = true};
    int rc = set(call, &call->args[1], &what);

    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, what.was_set);
    return 0;
}

int okv_resp_run_getset(struct okv_resp_call *call)
{
    struct set what = {.answer = answer_of(call), .value = &call->args[2], .wants_old = true};
    int rc = set(call, &call->args[1], &what);

    if (rc == 0)
        return 0;
    call->reply.out->used = what.answer.before;
    return okv_resp_refuse(call, rc);
}

static int decide_getdel(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    (void)next;
    if (answer_value(user, now))
        return OKV_ENOMEM;
    return now ? OKV_STORE_REMOVE : OKV_STORE_KEEP;
}

int okv_resp_run_getdel(struct okv_resp_call *call)
{
    struct answer answer = answer_of(call);
    int rc = okv_resp_modify(call, &call->args[1], decide_getdel, &answer);

    if (rc == 0)
        return 0;
    call->reply.out->used = answer.before;
    return okv_resp_refuse(call, rc);
}

/* ---- GETEX ---- */

struct getex {
    struct answer answer;
    uint64_t expiry_ms;
    bool is_past, changes;
};

static int decide_getex(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    const struct getex *getex = user;

    if (answer_value(&getex->answer, now))
        return OKV_ENOMEM;
    if (!now || !getex->changes || (!getex->is_past && getex->expiry_ms == now->expiry_ms))
        return OKV_STORE_KEEP;
    if (getex->is_past)
        return OKV_STORE_REMOVE;
    *next = (struct okv_store_next){now->value, now->value_length, getex->expiry_ms};
    return 0;
}

int okv_resp_run_getex(struct okv_resp_call *call)
{
    struct getex getex = {.answer = answer_of(call)};
    uint32_t index = 2;
    int64_t wall_ms;
    int is_expiry = 0;

    if (call->count > 2) {
        getex.changes = true;
        if (!okv_resp_is(&call->args[2], "PERSIST"))
            is_expiry = okv_resp_read_expiry(call, &index, &wall_ms);
        if (is_expiry < 0)
            return 0;
        if (index + 1 != call->count || (!is_expiry && !okv_resp_is(&call->args[2], "PERSIST")))
            return okv_resp_syntax_error(call);
    }
    if (is_expiry) {
        getex.expiry_ms = okv_resp_expiry_of(call, wall_ms);
        getex.is_past = getex.expiry_ms == 0;
    }
    int rc = okv_resp_modify(call, &call->args[1], decide_getex, &getex);
    if (rc == 0)
        return 0;
    call->reply.out->used = getex.answer.before;
    if (rc == OKV_EKEYSIZE) {
        okv_resp_null(&call->reply);
        return 0;
    }
    return okv_resp_refuse(call, rc);
}

/* ---- of several keys ---- */

/* What no database could take is found before anything is changed. */
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
int okv_resp_run_mset(struct okv_resp_call *call)
{
    if (!need_pairs(call))
        return 0;
    int rc = set_pairs(call);
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_run_msetnx(struct okv_resp_call *call)
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
