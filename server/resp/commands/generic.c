/* Commands of keys, whatever their values. */
#include <string.h>

#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

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

/* If the batch is full, DEL resumes after the last deleted key: others may have put those before it
 * again. */
int okv_resp_cmd_del(struct okv_resp_call *call)
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

/* Also TOUCH: reading an item leaves no trace in okv. */
int okv_resp_cmd_exists(struct okv_resp_call *call)
{
    return sum_of_keys(call, okv_resp_has);
}

int okv_resp_cmd_type(struct okv_resp_call *call)
{
    int has = okv_resp_has(call, &call->args[1]);

    if (has < 0)
        return okv_resp_refuse(call, has);
    okv_resp_simple(&call->reply, has ? "string" : "none");
    return 0;
}

/* ---- RENAME and COPY ---- */

/* A copy of an item. */
struct taken {
    struct okv_resp_buffer value;
    uint64_t expiry_ms, version;
};

static int take(void *user, const struct okv_store_now *now)
{
    struct taken *taken = user;

    taken->value.used = 0;
    okv_resp_buffer_add(&taken->value, now->value, now->value_length);
    taken->expiry_ms = now->expiry_ms;
    taken->version = now->version;
    return taken->value.has_failed ? OKV_ENOMEM : 0;
}

struct given {
    const struct taken *taken;
    bool if_absent, was_there;
};

static int give(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct given *given = user;
    const struct taken *taken = given->taken;

    given->was_there = now != NULL;
    if (given->if_absent && now)
        return OKV_STORE_KEEP;
    *next = (struct okv_store_next){taken->value.used ? taken->value.bytes : (const void *)"",
                                    (uint32_t)taken->value.used, taken->expiry_ms};
    return 0;
}

/* The new key is there before the old one is gone. */
static int rename_to(struct okv_resp_call *call, struct given *given, struct taken *taken)
{
    const struct okv_resp_arg *from = &call->args[1], *to = &call->args[2];
    int rc = okv_resp_look(call, from, take, taken);

    if (rc)
        return rc;
    if (from->length == to->length && memcmp(from->text, to->text, to->length) == 0) {
        given->was_there = true;
        return 0;
    }
    rc = okv_resp_modify(call, to, give, given);
    if (rc || (given->if_absent && given->was_there))
        return rc;
    rc = okv_resp_remove(call, from);
    return rc == OKV_ENOTFOUND ? 0 : rc;
}

static int rename_item(struct okv_resp_call *call, bool if_absent)
{
    struct taken taken = {.version = 0};
    struct given given = {.taken = &taken, .if_absent = if_absent};
    int rc = rename_to(call, &given, &taken);

    okv_resp_buffer_fini(&taken.value);
    if (rc == OKV_ENOTFOUND) {
        okv_resp_error(&call->reply, "ERR no such key");
        return 0;
    }
    if (rc)
        return okv_resp_refuse(call, rc);
    if (if_absent)
        okv_resp_integer(&call->reply, !given.was_there);
    else
        okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_cmd_rename(struct okv_resp_call *call)
{
    return rename_item(call, false);
}

int okv_resp_cmd_renamenx(struct okv_resp_call *call)
{
    return rename_item(call, true);
}

struct copying {
    struct taken taken;
    struct given given;
    const struct okv_resp_arg *to;
    unsigned database;
};

/* Returns false when an error was replied. */
static bool read_copy_options(struct okv_resp_call *call, struct copying *copying)
{
    for (uint32_t i = 3; i < call->count; i++) {
        if (okv_resp_arg_is(&call->args[i], "REPLACE")) {
            copying->given.if_absent = false;
        } else if (okv_resp_arg_is(&call->args[i], "DB") && i + 1 < call->count) {
            int database = okv_resp_database_of(call, &call->args[++i]);
            if (database < 0) {
                okv_resp_error(&call->reply, "ERR value is not an integer or out of range");
                return false;
            }
            copying->database = (unsigned)database;
        } else {
            okv_resp_syntax_error(call);
            return false;
        }
    }
    return true;
}

static int give_copy(struct okv_resp_call *call)
{
    struct copying *copying = call->user;
    int rc = okv_resp_modify(call, copying->to, give, &copying->given);

    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, !(copying->given.if_absent && copying->given.was_there));
    return 0;
}

/* Within one database both are in its batch, so value and copy are of one batch. For another one
 * the value is taken as it is published; a client's own change is waited for (has_to_wait). */
static int take_and_give(struct okv_resp_call *call)
{
    struct copying *copying = call->user;
    int rc = okv_resp_look(call, &call->args[1], take, &copying->taken);

    if (rc == OKV_ENOTFOUND) {
        okv_resp_integer(&call->reply, 0);
        return 0;
    }
    if (rc)
        return okv_resp_refuse(call, rc);
    if (copying->database == call->client->common.database)
        return give_copy(call);
    return okv_resp_in_change(call, copying->database, give_copy);
}

static int copy_item(struct okv_resp_call *call, const struct copying *copying)
{
    if (copying->database == call->client->common.database && !call->is_in_change)
        return okv_resp_in_change(call, copying->database, take_and_give);
    return take_and_give(call);
}

int okv_resp_cmd_copy(struct okv_resp_call *call)
{
    const struct okv_resp_arg *from = &call->args[1];
    struct copying copying = {.to = &call->args[2], .database = call->client->common.database};

    copying.given = (struct given){.taken = &copying.taken, .if_absent = true};
    if (!read_copy_options(call, &copying))
        return 0;
    bool is_own = copying.database == call->client->common.database;
    if (is_own && from->length == copying.to->length &&
        memcmp(from->text, copying.to->text, from->length) == 0)
        okv_resp_error(&call->reply, "ERR source and destination objects are the same");
    else if (!okv_resp_may(call->client, copying.database, OKV_RIGHT_WRITE))
        okv_resp_error(&call->reply, "NOPERM this user has no permissions in this database");
    else if (call->is_in_change && !is_own)
        okv_resp_error(&call->reply, "ERR COPY to another database inside MULTI is not allowed");
    else
        call->user = &copying;
    int rc = call->user ? copy_item(call, &copying) : 0;
    okv_resp_buffer_fini(&copying.taken.value);
    return rc;
}

/* ---- MOVE ---- */

static int remove_version(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    const struct taken *taken = user;

    (void)next;
    return now && now->version == taken->version ? OKV_STORE_REMOVE : OKV_STORE_KEEP;
}

static int remove_moved(struct okv_resp_call *call)
{
    struct taken taken = {.version = call->client->move_version};
    int rc = okv_resp_modify(call, &call->args[1], remove_version, &taken);

    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_integer(&call->reply, 1);
    return 0;
}

static int give_moved(struct okv_resp_call *call)
{
    struct copying *copying = call->user;
    int rc = okv_resp_modify(call, &call->args[1], give, &copying->given);

    if (rc == 0 && !copying->given.was_there)
        call->client->move_version = copying->taken.version;
    return rc;
}

/* The other database has the item before this one loses it, with logs on the disk: a command waits
 * for one log at a time, so it runs once for each. */
static int move_item(struct okv_resp_call *call, struct copying *copying)
{
    struct okv_resp_client *client = call->client;
    int rc = 0;

    if (!client->move_version) {
        rc = okv_resp_look(call, &call->args[1], take, &copying->taken);
        if (rc == 0)
            rc = okv_resp_in_change(call, copying->database, give_moved);
    }
    if (rc == 0 && client->move_version && client->commit.batch)
        return OKV_EAGAIN;
    if (rc == 0 && client->move_version)
        rc = okv_resp_in_change(call, client->common.database, remove_moved);
    else if (rc == 0 || rc == OKV_ENOTFOUND)
        okv_resp_integer(&call->reply, 0);
    else
        return okv_resp_refuse(call, rc);
    return rc == OKV_EAGAIN ? rc : 0;
}

int okv_resp_cmd_move(struct okv_resp_call *call)
{
    struct copying copying = {.given.if_absent = true};
    int database = okv_resp_database_of(call, &call->args[2]);

    copying.given.taken = &copying.taken;
    copying.database = (unsigned)database;
    if (database < 0)
        okv_resp_error(&call->reply, "ERR value is not an integer or out of range");
    else if (copying.database == call->client->common.database)
        okv_resp_error(&call->reply, "ERR source and destination objects are the same");
    else if (!okv_resp_may(call->client, copying.database, OKV_RIGHT_WRITE))
        okv_resp_error(&call->reply, "NOPERM this user has no permissions in this database");
    else
        call->user = &copying;
    int rc = call->user ? move_item(call, &copying) : 0;
    okv_resp_buffer_fini(&copying.taken.value);
    return rc;
}

/* ---- OBJECT and MEMORY USAGE ---- */

struct look {
    uint32_t value_length;
    bool is_integer;
};

static int visit(void *user, const struct okv_store_now *now)
{
    struct look *look = user;
    int64_t ignored;

    look->value_length = now->value_length;
    look->is_integer = okv_resp_parse_integer(now->value, now->value_length, &ignored);
    return 0;
}

/* Replies with what `tell` says of the item, or null without one. */
static int reply_about(struct okv_resp_call *call,
                       void (*tell)(struct okv_resp_call *call, const struct look *look))
{
    struct look look;
    int rc = okv_resp_look(call, &call->args[2], visit, &look);

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

int okv_resp_cmd_memory_usage(struct okv_resp_call *call)
{
    return reply_about(call, reply_size);
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

int okv_resp_cmd_object_refcount(struct okv_resp_call *call)
{
    return reply_about(call, reply_refcount);
}
