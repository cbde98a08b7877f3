/* Commands that copy items: RENAME, RENAMENX, COPY, MOVE. */
#include <string.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/long_build.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/resp/run/transaction.h"
#include "server/resp/run/upload.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

#define NO_WRITE_THERE \
    "NOPERM this user has no permissions in this database: it lacks the right write"

/* ---- an item that is copied ---- */

/* A copy of an item: a short value in memory of its own, a long one as it was built (long_build.h).
 */
struct taken {
    struct okv_resp_call *call;
    struct okv_resp_buffer value;
    uint64_t expiry_ms, version;
    uint32_t length;
    bool is_built;
    bool is_stale; /* it has to be built again */
};

/* Only values in a transaction or a script are copied in one step: their price was looked at. */
static bool is_long(const struct okv_resp_call *call, const struct okv_store_now *now)
{
    return now->value_length >= OKV_RESP_LONG_MIN && !call->staging &&
           !okv_resp_transaction_is_open(call->client);
}

static int visit_item(void *user, const struct okv_store_now *now)
{
    struct taken *taken = user;

    taken->expiry_ms = now->expiry_ms;
    taken->version = now->version;
    taken->length = now->value_length;
    taken->is_built = okv_resp_build_is_of(taken->call->client, now->version);
    taken->is_stale = !taken->is_built && is_long(taken->call, now);
    taken->value.used = 0;
    if (taken->is_built || taken->is_stale)
        return 0;
    okv_turn_spend(&taken->call->client->resp->turn, now->value_length);
    okv_resp_buffer_add(&taken->value, now->value, now->value_length);
    return taken->value.has_failed ? OKV_ENOMEM : 0;
}

static int take(struct taken *taken, const struct okv_resp_arg *key)
{
    int rc = okv_resp_look(taken->call, key, visit_item, taken);

    if (rc || !taken->is_stale)
        return rc;
    okv_resp_build_end(taken->call->client);
    return OKV_EAGAIN;
}

struct given {
    const struct taken *taken;
    bool if_absent, was_there;
};

static int give(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct given *given = user;
    const struct taken *taken = given->taken;
    struct okv_resp_call *call = taken->call;

    given->was_there = now != NULL;
    if (given->if_absent && now)
        return OKV_STORE_KEEP;
    *next = (struct okv_store_next){taken->length ? taken->value.bytes : (const void *)"",
                                    taken->length, taken->expiry_ms};
    if (taken->is_built)
        next->value = okv_store_long_bytes(&call->executor->database->store,
                                           okv_resp_long_value(call->client));
    return 0;
}

/* ---- long values, while others are served ---- */

static int visit_source(void *user, const struct okv_store_now *now)
{
    struct okv_resp_call *call = user;

    return is_long(call, now) ? okv_resp_build_take(call, now) : 0;
}

/* Builds the value of args[1] for the key `to` of a database, if it is long. */
static int prepare(struct okv_resp_call *call, const struct okv_resp_arg *to, unsigned database)
{
    struct okv_resp_client *client = call->client;
    int rc = okv_resp_build_step(client, NULL);

    if (rc == 0 && !client->build)
        rc = okv_resp_peek(call, &call->args[1], visit_source, call);
    if (rc == 0 && client->build && !okv_resp_long_value(client)) {
        const struct okv_resp_plan plan = {
            .key = to, .database = database, .length = client->build->transfer.value.before_length};
        rc = okv_resp_build_begin(call, &plan);
    }
    if (rc == 0 || rc == OKV_ENOTFOUND || rc == OKV_RESP_GOES_ON || rc == OKV_EAGAIN)
        return rc == OKV_ENOTFOUND ? 0 : rc;
    return okv_resp_refuse(call, rc);
}

/* ---- RENAME and COPY ---- */

/* The new key is there before the old one is gone. */
static int rename_to(struct okv_resp_call *call, struct given *given, struct taken *taken)
{
    const struct okv_resp_arg *from = &call->args[1], *to = &call->args[2];
    int rc = take(taken, from);

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
    struct taken taken = {.call = call};
    struct given given = {.taken = &taken, .if_absent = if_absent};

    if (call->is_preparing)
        return prepare(call, &call->args[2], call->client->common.database);
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
                okv_resp_refuse_target(call, i);
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
    int rc = take(&copying->taken, &call->args[1]);

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
    if (call->is_preparing)
        return prepare(call, copying->to, copying->database);
    if (copying->database == call->client->common.database && !call->is_in_change && !call->staging)
        return okv_resp_in_change(call, copying->database, take_and_give);
    return take_and_give(call);
}

int okv_resp_cmd_copy(struct okv_resp_call *call)
{
    const struct okv_resp_arg *from = &call->args[1];
    struct copying copying = {
        .taken.call = call, .to = &call->args[2], .database = call->client->common.database};

    copying.given = (struct given){.taken = &copying.taken, .if_absent = true};
    if (!read_copy_options(call, &copying))
        return 0;
    bool is_own = copying.database == call->client->common.database;
    if (is_own && from->length == copying.to->length &&
        memcmp(from->text, copying.to->text, from->length) == 0)
        okv_resp_error(&call->reply, "ERR source and destination objects are the same");
    else if (!okv_resp_may(call->client, copying.database, OKV_RIGHT_WRITE))
        okv_resp_error(&call->reply, NO_WRITE_THERE);
    else if ((call->is_in_change || call->staging) && !is_own)
        okv_resp_error(&call->reply,
                       "ERR COPY to another database inside MULTI or a script is not allowed");
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

    if (rc == 0 && !copying->given.was_there) {
        call->client->move_version = copying->taken.version;
        okv_resp_build_end(call->client); /* the removal builds nothing */
    }
    return rc;
}

/* The other database has the item before this one loses it, with logs on the disk: a command waits
 * for one log at a time, so it runs once for each. */
static int move_item(struct okv_resp_call *call, struct copying *copying)
{
    struct okv_resp_client *client = call->client;
    int rc = 0;

    if (call->is_preparing)
        return client->move_version ? 0 : prepare(call, &call->args[1], copying->database);
    if (!client->move_version) {
        rc = take(&copying->taken, &call->args[1]);
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
    struct copying copying = {.taken.call = call, .given.if_absent = true};
    int database = okv_resp_database_of(call, &call->args[2]);

    copying.given.taken = &copying.taken;
    copying.database = (unsigned)database;
    if (database < 0)
        okv_resp_refuse_target(call, 2);
    else if (copying.database == call->client->common.database)
        okv_resp_error(&call->reply, "ERR source and destination objects are the same");
    else if (!okv_resp_may(call->client, copying.database, OKV_RIGHT_WRITE))
        okv_resp_error(&call->reply, NO_WRITE_THERE);
    else
        call->user = &copying;
    int rc = call->user ? move_item(call, &copying) : 0;
    okv_resp_buffer_fini(&copying.taken.value);
    return rc;
}
