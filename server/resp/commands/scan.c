/* Commands that list keys of the whole table. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/proto/pattern.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/store/iterate.h"
#include "shared/base/error.h"

/* ---- SCAN and KEYS ---- */

/* Keys that one SCAN lists, whatever its COUNT. */
#define COUNT_MAX 10000

struct listing {
    struct okv_resp_reply reply; /* into a buffer of its own */
    struct okv_resp_buffer keys;
    struct okv_resp_pattern pattern;
    bool has_pattern; /* else all are listed */
    uint64_t met, listed, work;
};

static void list_key(void *user, const void *key, uint32_t key_length)
{
    struct listing *listing = user;

    listing->met++;
    if (listing->has_pattern &&
        !okv_resp_pattern_matches(&listing->pattern, key, key_length, &listing->work))
        return;
    okv_resp_bulk(&listing->reply, key, key_length);
    listing->listed++;
}

static void add_listed(struct okv_resp_call *call, struct listing *listing)
{
    okv_resp_array(&call->reply, listing->listed);
    okv_resp_buffer_add(call->reply.out, listing->keys.bytes, listing->keys.used);
    call->reply.out->has_failed = call->reply.out->has_failed || listing->keys.has_failed;
}

/* False: an error was replied. */
static bool read_pattern(struct okv_resp_call *call, const struct okv_resp_arg *text,
                         struct listing *listing)
{
    okv_resp_pattern_fini(&listing->pattern); /* the last of several counts */
    int rc = okv_resp_pattern_init(&listing->pattern, text->text, text->length);

    listing->has_pattern = rc == 0;
    if (rc == OKV_EINVAL)
        okv_resp_error(&call->reply, "ERR a pattern has at most %u bytes", OKV_RESP_PATTERN_MAX);
    else if (rc)
        okv_resp_refuse(call, rc);
    return rc == 0;
}

static void end_listing(struct listing *listing)
{
    okv_resp_pattern_fini(&listing->pattern);
    okv_resp_buffer_fini(&listing->keys);
}

int okv_resp_cmd_keys(struct okv_resp_call *call)
{
    struct listing listing = {.met = 0};
    uint64_t position = 0;
    int rc;

    if (!read_pattern(call, &call->args[1], &listing))
        return 0;
    listing.reply = (struct okv_resp_reply){&listing.keys, call->reply.protocol};
    do
        rc = okv_store_iterate(&call->executor->database->store, &position, list_key, &listing);
    while (rc == 0 && position && !listing.keys.has_failed);
    if (rc == 0)
        add_listed(call, &listing);
    end_listing(&listing);
    return rc ? okv_resp_refuse(call, rc) : 0;
}

struct scan {
    struct listing listing;
    int64_t count;
    bool lists_nothing; /* TYPE of something other than strings */
};

/* Returns false when an error was replied. */
static bool read_scan_options(struct okv_resp_call *call, struct scan *scan)
{
    for (uint32_t i = 2; i < call->count; i += 2) {
        const struct okv_resp_arg *option = &call->args[i];
        if (i + 1 == call->count) {
            okv_resp_syntax_error(call);
            return false;
        }
        if (okv_resp_arg_is(option, "COUNT")) {
            if (!okv_resp_need_integer(call, i + 1, &scan->count))
                return false;
            if (scan->count < 1) {
                okv_resp_syntax_error(call);
                return false;
            }
            scan->count = scan->count > COUNT_MAX ? COUNT_MAX : scan->count;
        } else if (okv_resp_arg_is(option, "MATCH")) {
            if (!read_pattern(call, &call->args[i + 1], &scan->listing))
                return false;
        } else if (okv_resp_arg_is(option, "TYPE")) {
            scan->lists_nothing = !okv_resp_arg_is(&call->args[i + 1], "string");
        } else {
            okv_resp_syntax_error(call);
            return false;
        }
    }
    return true;
}

static bool read_cursor(const struct okv_resp_arg *arg, uint64_t *cursor)
{
    *cursor = 0;
    if (arg->length == 0 || arg->length > 20)
        return false;
    for (uint32_t i = 0; i < arg->length; i++)
        if (arg->text[i] < '0' || arg->text[i] > '9' ||
            __builtin_mul_overflow(*cursor, 10u, cursor) ||
            __builtin_add_overflow(*cursor, (unsigned)(arg->text[i] - '0'), cursor))
            return false;
    return true;
}

int okv_resp_cmd_scan(struct okv_resp_call *call)
{
    struct scan scan = {.count = 10};
    struct listing *listing = &scan.listing;
    uint64_t position;
    char cursor[24];
    int rc;

    if (!read_cursor(&call->args[1], &position)) {
        okv_resp_error(&call->reply, "ERR invalid cursor");
        return 0;
    }
    if (!read_scan_options(call, &scan)) {
        end_listing(listing);
        return 0;
    }
    listing->reply = (struct okv_resp_reply){&listing->keys, call->reply.protocol};
    /* An empty bucket counts, too: a sparse table is to be passed over in bounded steps. */
    int64_t passed = 0;
    do
        rc = okv_store_iterate(&call->executor->database->store, &position, list_key, listing);
    while (rc == 0 && position && listing->met < (uint64_t)scan.count &&
           ++passed / 10 < scan.count);
    if (rc == 0) {
        if (scan.lists_nothing)
            listing->listed = listing->keys.used = 0;
        snprintf(cursor, sizeof cursor, "%" PRIu64, position);
        okv_resp_array(&call->reply, 2);
        okv_resp_text(&call->reply, cursor);
        add_listed(call, listing);
    }
    end_listing(listing);
    return rc ? okv_resp_refuse(call, rc) : 0;
}

/* ---- RANDOMKEY ---- */

/* One of this many consecutive keys is picked: the first alone would come up the more often, the
 * more buckets before it are empty. */
#define CANDIDATES 16u

struct pick {
    uint64_t random;
    uint32_t met;
    uint32_t length;
    uint8_t key[OKV_KEY_MAX];
};

/* Each key that is met with the same probability. */
static void pick_key(void *user, const void *key, uint32_t key_length)
{
    struct pick *pick = user;

    if ((pick->random >> 32) % ++pick->met == 0) {
        memcpy(pick->key, key, key_length);
        pick->length = key_length;
    }
    pick->random = pick->random * UINT64_C(6364136223846793005) + 1;
}

/* From any bucket, once around the table at most. */
static int pick_from(struct okv_store *store, uint64_t start, struct pick *pick)
{
    uint64_t position = start;
    unsigned ends = 0;
    int rc;

    do {
        rc = okv_store_iterate(store, &position, pick_key, pick);
        ends += position == 0;
    } while (rc == 0 && pick->met < CANDIDATES && (ends == 0 || (ends == 1 && position < start)));
    return rc;
}

int okv_resp_cmd_randomkey(struct okv_resp_call *call)
{
    struct okv_store *store = &call->executor->database->store;
    struct pick pick = {.met = 0};
    uint64_t start = 0;
    int rc = 0;

    if (getrandom(&pick.random, sizeof pick.random, 0) == sizeof pick.random)
        start = pick.random;
    if (atomic_load(&store->totals.items) > 0)
        rc = pick_from(store, start, &pick);
    if (rc)
        return okv_resp_refuse(call, rc);
    if (pick.met)
        okv_resp_bulk(&call->reply, pick.key, pick.length);
    else
        okv_resp_null(&call->reply);
    return 0;
}
