/* Commands of strings: each decides under the lock of its item's bucket, so it is atomic for all
 * readers and writers. */
#include <string.h>

#include "server/resp/commands.h"
#include "server/resp/items.h"
#include "server/resp/options.h"
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
    struct okv_store_now part = *now;
    int rc;

    answer->call->reply.out->used = answer->before; /* it may be called again */
    part.value += first;
    part.value_length = length;
    if (okv_resp_download_begin(answer->call, &part, &rc))
        okv_resp_bulk_head(&answer->call->reply, length);
    else if (rc == 0)
        okv_resp_bulk(&answer->call->reply, part.value, length);
    return rc;
}

/* Within a change, which may be tried again: the value is copied. */
static void answer_value(const struct answer *answer, const struct okv_store_now *now)
{
    answer->call->reply.out->used = answer->before;
    if (now)
        okv_resp_bulk(&answer->call->reply, now->value, now->value_length);
    else
        okv_resp_null(&answer->call->reply);
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

    if (rc == OKV_ENOTFOUND || rc == OKV_EKEYSIZE) {
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

    if (rc && rc != OKV_ENOTFOUND && rc != OKV_EKEYSIZE)
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
    if (rc == OKV_ENOTFOUND || rc == OKV_EKEYSIZE)
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

    if (set->wants_old)
        answer_value(&set->answer, now);
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
    return okv_resp_modify(call, key, decide_set, what, NULL);
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
    answer_value(user, now);
    return now ? OKV_STORE_REMOVE : OKV_STORE_KEEP;
}

int okv_resp_run_getdel(struct okv_resp_call *call)
{
    struct answer answer = answer_of(call);
    int rc = okv_resp_modify(call, &call->args[1], decide_getdel, &answer, NULL);

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

    answer_value(&getex->answer, now);
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
    int rc = okv_resp_modify(call, &call->args[1], decide_getex, &getex, NULL);
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

/* No other RESP client's command runs meanwhile. Clients of libokv may see some of the keys set,
 * and others not yet. */
int okv_resp_run_mset(struct okv_resp_call *call)
{
    if (call->count % 2 == 0) {
        okv_resp_error(&call->reply, "ERR wrong number of arguments for 'mset' command");
        return 0;
    }
    for (uint32_t i = 1; i < call->count; i += 2) {
        struct set what = {.value = &call->args[i + 1]};
        int rc = set(call, &call->args[i], &what);
        if (rc)
            return okv_resp_refuse(call, rc);
    }
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_run_msetnx(struct okv_resp_call *call)
{
    int has = 0;

    if (call->count % 2 == 0) {
        okv_resp_error(&call->reply, "ERR wrong number of arguments for 'msetnx' command");
        return 0;
    }
    for (uint32_t i = 1; i < call->count && has == 0; i += 2)
        has = okv_resp_has(call, &call->args[i]);
    if (has < 0)
        return okv_resp_refuse(call, has);
    for (uint32_t i = 1; i < call->count && !has; i += 2) {
        struct set what = {.value = &call->args[i + 1]};
        int rc = set(call, &call->args[i], &what);
        if (rc)
            return okv_resp_refuse(call, rc);
    }
    okv_resp_integer(&call->reply, !has);
    return 0;
}

/* ---- parts ---- */

/* A change that makes a value of the one that is there, in memory of its own. */
struct edit {
    struct okv_resp_buffer made;
    const struct okv_resp_arg *with;
    uint64_t offset; /* SETRANGE */
    bool is_append;
    uint32_t max_value;
    uint64_t length; /* of the result */
};

static int decide_edit(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct edit *edit = user;
    uint64_t before = now ? now->value_length : 0;
    uint64_t offset = edit->is_append ? before : edit->offset;
    uint64_t end = offset + edit->with->length;

    if (edit->with->length == 0 && (now || !edit->is_append)) {
        edit->length = before;
        return OKV_STORE_KEEP;
    }
    edit->length = end > before ? end : before;
    if (edit->length > edit->max_value)
        return OKV_EVALUESIZE;
    edit->made.used = 0;
    uint8_t *bytes = okv_resp_buffer_room(&edit->made, edit->length + 1);
    if (!bytes)
        return OKV_ENOMEM;
    if (before)
        memcpy(bytes, now->value, before);
    if (offset > before)
        memset(bytes + before, 0, offset - before);
    if (edit->with->length)
        memcpy(bytes + offset, edit->with->text, edit->with->length);
    *next = (struct okv_store_next){bytes, (uint32_t)edit->length, now ? now->expiry_ms : 0};
    return 0;
}

static int run_edit(struct okv_resp_call *call, struct edit *edit)
{
    edit->max_value = call->executor->database->store.max_value;
    int rc = okv_resp_modify(call, &call->args[1], decide_edit, edit, NULL);

    okv_resp_buffer_fini(&edit->made);
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, (int64_t)edit->length);
    return 0;
}

int okv_resp_run_append(struct okv_resp_call *call)
{
    struct edit edit = {.with = &call->args[2], .is_append = true};

    return run_edit(call, &edit);
}

int okv_resp_run_setrange(struct okv_resp_call *call)
{
    struct edit edit = {.with = &call->args[3]};
    int64_t offset;

    if (!okv_resp_need_integer(call, 2, &offset))
        return 0;
    if (offset < 0) {
        okv_resp_error(&call->reply, "ERR offset is out of range");
        return 0;
    }
    edit.offset = (uint64_t)offset;
    if (edit.with->length && edit.offset > OKV_VALUE_MAX)
        return okv_resp_refuse(call, OKV_EVALUESIZE);
    return run_edit(call, &edit);
}

/* ---- bits ---- */

struct bit {
    struct okv_resp_buffer made;
    uint64_t offset; /* from the highest bit of the first byte on */
    bool is_set, was_set;
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

/* Replies with an error if no value of the database has this bit. */
static bool need_offset(struct okv_resp_call *call, struct bit *bit)
{
    uint64_t most = call->executor->database->store.max_value;
    int64_t offset;

    if (okv_resp_integer_of(&call->args[2], &offset) && offset >= 0 &&
        (uint64_t)offset / 8 < most) {
        bit->offset = (uint64_t)offset;
        return true;
    }
    okv_resp_error(&call->reply, "ERR bit offset is not an integer or out of range");
    return false;
}

int okv_resp_run_getbit(struct okv_resp_call *call)
{
    struct bit bit = {.was_set = false};

    if (!need_offset(call, &bit))
        return 0;
    int rc = okv_resp_look(call, &call->args[1], visit_bit, &bit);
    if (rc && rc != OKV_ENOTFOUND && rc != OKV_EKEYSIZE)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, bit.was_set);
    return 0;
}

static int decide_bit(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct bit *bit = user;
    uint32_t before = now ? now->value_length : 0, at = (uint32_t)(bit->offset / 8);
    uint32_t length = at < before ? before : at + 1;
    uint8_t mask = (uint8_t)(0x80u >> bit->offset % 8);

    bit->made.used = 0;
    uint8_t *bytes = okv_resp_buffer_room(&bit->made, length);
    if (!bytes)
        return OKV_ENOMEM;
    memset(bytes, 0, length);
    if (before)
        memcpy(bytes, now->value, before);
    bit->was_set = bytes[at] & mask;
    bytes[at] = (uint8_t)(bit->is_set ? bytes[at] | mask : bytes[at] & ~mask);
    *next = (struct okv_store_next){bytes, length, now ? now->expiry_ms : 0};
    return 0;
}

int okv_resp_run_setbit(struct okv_resp_call *call)
{
    const struct okv_resp_arg *value = &call->args[3];
    struct bit bit = {.is_set = okv_resp_is(value, "1")};

    if (!need_offset(call, &bit))
        return 0;
    if (!bit.is_set && !okv_resp_is(value, "0")) {
        okv_resp_error(&call->reply, "ERR bit is not an integer or out of range");
        return 0;
    }
    int rc = okv_resp_modify(call, &call->args[1], decide_bit, &bit, NULL);
    okv_resp_buffer_fini(&bit.made);
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, bit.was_set);
    return 0;
}
