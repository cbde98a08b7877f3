#include "server/resp/run/lookup.h"

#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/run/call.h"
#include "server/resp/run/long_build.h"
#include "server/resp/run/once.h"
#include "server/resp/run/staging.h"
#include "server/resp/run/upload.h"
#include "server/store/fullness.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* ---- reading ---- */

static int look_at(struct okv_resp_call *call, const struct okv_resp_arg *key, bool is_use,
                   okv_store_visit *visit, void *user)
{
    const struct okv_store_view view = {.newest = call->is_in_change, .is_use = is_use};

    if (call->staging)
        return okv_resp_staging_look(call, key, is_use, visit, user);
    int rc = okv_store_look(&call->executor->database->store, call->executor->work, key->text,
                            key->length, &view, visit, user);

    /* Redis has keys of any length. Those that okv cannot store do not exist. */
    return rc == OKV_EKEYSIZE ? OKV_ENOTFOUND : rc;
}

/* A command that runs again uses an item once. */
static int use(struct okv_resp_call *call, const struct okv_resp_arg *key, okv_store_visit *visit,
               void *user)
{
    struct okv_resp_once *uses = &call->client->uses;
    int rc = look_at(call, key, okv_resp_once_is_new(uses), visit, user);

    if (rc >= 0)
        okv_resp_once_pass(uses);
    return rc;
}

int okv_resp_look(struct okv_resp_call *call, const struct okv_resp_arg *key,
                  okv_store_visit *visit, void *user)
{
    return atomic_load_explicit(&call->client->no_touch, memory_order_relaxed)
               ? okv_resp_peek(call, key, visit, user)
               : use(call, key, visit, user);
}

int okv_resp_peek(struct okv_resp_call *call, const struct okv_resp_arg *key,
                  okv_store_visit *visit, void *user)
{
    return look_at(call, key, false, visit, user);
}

static int see(void *user, const struct okv_store_now *now)
{
    (void)user;
    (void)now;
    return 0;
}

static int has_of(int rc)
{
    return rc == 0 ? 1 : rc == OKV_ENOTFOUND ? 0 : rc;
}

int okv_resp_has(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    return has_of(okv_resp_peek(call, key, see, NULL));
}

int okv_resp_exists(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    return has_of(okv_resp_look(call, key, see, NULL));
}

int okv_resp_touch(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    return has_of(use(call, key, see, NULL));
}

/* ---- changing ---- */

/* A change that leaves a long value as it is, such as EXPIRE, sets a copy of it in a durable
 * database: the log takes the value, in steps. */
struct change {
    struct okv_resp_call *call;
    okv_store_decide *decide;
    void *user;
    uint32_t length; /* of the value that was taken for that */
};

static int decide_change(void *user, const struct okv_store_now *now, struct okv_store_next *next)
{
    struct change *change = user;
    struct okv_resp_call *call = change->call;
    int rc = change->decide(change->user, now, next);

    if (rc || !now || next->value != now->value || now->value_length < OKV_STORE_LONG_LOGGED ||
        call->is_part || !call->executor->database->wal)
        return rc;
    if (okv_resp_build_is_of(call->client, now->version)) {
        next->value = okv_store_long_bytes(&call->executor->database->store,
                                           okv_resp_long_value(call->client));
        return 0;
    }
    okv_resp_build_end(call->client);
    rc = okv_resp_build_take(call, now);
    change->length = rc ? 0 : now->value_length;
    return rc ? rc : OKV_STORE_KEEP;
}

static void count_change(struct okv_resp_call *call, const struct okv_resp_arg *key,
                         const struct okv_store_outcome *outcome)
{
    struct okv_counts *counts = &call->executor->database->counts;

    if (outcome->is_removed) {
        call->has_changed = true;
        OKV_STATS_ADD(counts, deletes, 1);
    } else if (outcome->version) {
        call->has_changed = true;
        okv_resp_long_value_keep(call->client, key, outcome->version);
        OKV_STATS_ADD(counts, puts, 1);
    }
}

int okv_resp_modify(struct okv_resp_call *call, const struct okv_resp_arg *key,
                    okv_store_decide *decide, void *user)
{
    struct change change = {call, decide, user, 0};
    struct okv_store_outcome outcome;

    if (call->staging)
        return okv_resp_staging_modify(call, key, decide, user);
    int rc = okv_resp_build_step(call->client, NULL);

    if (rc)
        return rc;
    const struct okv_store_write write = {.key = key->text,
                                          .key_length = key->length,
                                          .long_value = okv_resp_long_value(call->client),
                                          .is_part = call->is_part,
                                          .steps = call->is_part ? &call->client->room_steps : NULL,
                                          .cannot_wait = call->is_part && call->has_changed,
                                          .decide = decide_change,
                                          .user = &change};
    rc = okv_store_modify(&call->executor->database->store, call->executor->work, &write, &outcome);
    if (rc == 0 && change.length) {
        const struct okv_resp_plan plan = {
            .key = key, .database = call->client->build->database, .length = change.length};
        return okv_resp_build_begin(call, &plan);
    }
    if (rc == 0)
        count_change(call, key, &outcome);
    return rc;
}

int okv_resp_remove(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    struct okv_database *database = call->executor->database;
    const struct okv_store_write write = {
        .key = key->text, .key_length = key->length, .is_part = call->is_part};
    struct okv_store_outcome outcome;

    if (call->staging)
        return okv_resp_staging_remove(call, key);
    int rc = okv_store_delete(&database->store, call->executor->work, &write, &outcome);

    if (rc == 0) {
        call->has_changed = true;
        OKV_STATS_ADD(&database->counts, deletes, 1);
    }
    return rc == OKV_EKEYSIZE ? OKV_ENOTFOUND : rc;
}

int okv_resp_refuse(struct okv_resp_call *call, int code)
{
    const struct okv_resp_reply *to = &call->reply;

    if (code == OKV_EAGAIN && !call->has_changed)
        return OKV_EAGAIN;
    to->out->used = call->reply_start;
    if (code == OKV_RESP_GOES_ON)
        return code;
    switch (code) {
    case OKV_EAGAIN:
        okv_resp_error(to, "TRYAGAIN there is no room at the moment, and a part of this was done");
        break;
    case OKV_ECONFLICT:
        okv_resp_error(to, "TRYAGAIN others change the values that this reads all the time");
        break;
    case OKV_EKEYSIZE:
        okv_resp_error(to, "ERR a key has 1 to %d bytes", OKV_KEY_MAX);
        break;
    case OKV_EVALUESIZE:
        okv_resp_error(to,
                       "ERR string exceeds maximum allowed size (proto-max-bulk-len): a value of "
                       "this database has at most %u bytes",
                       call->executor->database->store.max_value);
        break;
    case OKV_EFULL:
    case OKV_EBUCKETFULL:
        okv_resp_error(to, "OOM command not allowed when used memory > 'maxmemory': %s",
                       okv_store_fullness_advice(&call->executor->database->store));
        break;
    case OKV_EREADONLY:
        okv_resp_error(to, "MISCONF the log of this database failed: it can be read only until the "
                           "server is started again");
        break;
    case OKV_EDISKFULL:
        okv_resp_error(to, "MISCONF the disk of the log is full: writes are refused until it has "
                           "room");
        break;
    case OKV_EFEWCOPIES:
        okv_resp_error(to, "NOREPLICAS Not enough good replicas to write.");
        break;
    default:
        okv_resp_error(to, "ERR %s", okv_error_text(code));
        break;
    }
    return 0;
}

/* ---- times ---- */

/* The current ms may be nearly over: an item that lives for n ms expires n + 1 ms after it. */
#define CURRENT_MS 1

uint64_t okv_resp_now_ms(const struct okv_resp_call *call)
{
    return call->staging ? okv_resp_staging_now_ms(call)
                         : atomic_load(&call->executor->database->store.clock_ms);
}

int64_t okv_resp_wall_ms(const struct okv_resp_call *call)
{
    if (!call->staging)
        return (int64_t)okv_clock_wall_ms();
    struct timeval wall = okv_resp_staging_wall(call);
    return (int64_t)wall.tv_sec * 1000 + wall.tv_usec / 1000;
}

int64_t okv_resp_wall_of(const struct okv_resp_call *call, uint64_t expiry_ms)
{
    return okv_server_wall_offset_ms(call->client->resp->server) + (int64_t)expiry_ms - CURRENT_MS;
}

/* The server's clock may be behind. */
uint64_t okv_resp_expiry_of(const struct okv_resp_call *call, int64_t wall_ms)
{
    int64_t expiry_ms =
        wall_ms - okv_server_wall_offset_ms(call->client->resp->server) + CURRENT_MS;

    if (wall_ms <= okv_resp_wall_ms(call))
        return 0;
    return expiry_ms > (int64_t)okv_resp_now_ms(call) + CURRENT_MS ? (uint64_t)expiry_ms : 0;
}
