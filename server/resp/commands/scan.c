/* Commands that walk over the keys of the whole table, in steps (store/iterate.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "server/command/execute.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/listing.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/resp/run/pages.h"
#include "server/resp/run/price.h"
#include "shared/base/error.h"

/* ---- steps ---- */

/* A script that may change something sees what its other commands see. */
static bool is_newest(const struct okv_resp_call *call)
{
    return call->staging && call->is_in_change;
}

/* A step has what is left of the turn, and passes at least one bucket if that is most of it. Then
 * no turn passes without one. A part of a transaction or script cannot pause, and has its price. */
static void begin_step(const struct okv_resp_call *call, struct okv_store_walk *walk)
{
    walk->is_newest = is_newest(call);
    walk->spent = 0;
    walk->limit = call->is_part ? call->price : okv_turn_left(&call->client->resp->turn);
    walk->is_first = walk->limit > OKV_TURN_WORK / 2;
}

static void end_step(const struct okv_resp_call *call, const struct okv_store_walk *walk)
{
    okv_turn_spend(&call->client->resp->turn, walk->spent);
}

/* ---- listing keys ---- */

static void keep_for_pages(struct okv_store_walk *walk, uint64_t bytes)
{
    uint64_t work = okv_resp_price_of_filled(bytes);

    walk->limit -= work < walk->limit ? work : walk->limit;
}

static void list_key(void *user, const void *key, uint32_t key_length)
{
    struct okv_resp_listing *listing = user;
    const struct okv_resp_reply to = {&listing->keys, 2};
    size_t before = listing->keys.used;

    listing->met++;
    if (listing->has_pattern &&
        !okv_resp_pattern_matches(&listing->pattern, key, key_length, &listing->walk.spent))
        return;
    okv_resp_bulk(&to, key, key_length);
    listing->walk.spent += key_length;
    listing->listed++;
    if (listing->keeps_for_pages)
        keep_for_pages(&listing->walk, 2 * (listing->keys.used - before));
}

/* Meets up to about `most` keys, as far as the work of a step suffices. */
static int list_keys(struct okv_resp_call *call, struct okv_resp_listing *listing, uint64_t most)
{
    struct okv_store *store = &call->executor->database->store;
    struct okv_store_walk *walk = &listing->walk;
    int rc;

    do
        rc = okv_store_iterate(store, walk, list_key, listing);
    while (rc == 0 && walk->position && walk->spent < walk->limit && listing->met < most);
    end_step(call, walk);
    return rc;
}

/* False: an error was replied. */
static bool read_pattern(struct okv_resp_call *call, const struct okv_resp_arg *text,
                         struct okv_resp_listing *listing)
{
    okv_resp_pattern_fini(&listing->pattern); /* the last of several counts */
    int rc = okv_resp_pattern_init(&listing->pattern, text->text, text->length);

    listing->has_pattern = rc == 0;
    listing->walk.price += okv_resp_pattern_price(&listing->pattern);
    if (rc == OKV_EINVAL)
        okv_resp_error(&call->reply, "ERR a pattern has at most %u bytes", OKV_RESP_PATTERN_MAX);
    else if (rc)
        okv_resp_refuse(call, rc);
    else
        okv_turn_spend(&call->client->resp->turn, okv_resp_pattern_bytes(&listing->pattern) / 8);
    return rc == 0;
}

static void add_listed(struct okv_resp_call *call, const struct okv_resp_listing *listing)
{
    const struct okv_resp_buffer *keys = &listing->keys;

    okv_resp_array(&call->reply, listing->listed);
    okv_resp_buffer_add(call->reply.out, keys->bytes + OKV_RESP_LISTING_ROOM,
                        keys->used - OKV_RESP_LISTING_ROOM);
    call->reply.out->has_failed = call->reply.out->has_failed || keys->has_failed;
}

/* ---- KEYS ---- */

/* Longer replies are not copied. */
#define COPIED_MAX (64u << 10)

/* Returns 0 with the client's listing, or an error was replied and it has none. */
static int begin_keys(struct okv_resp_call *call)
{
    struct okv_resp_listing *listing = okv_resp_listing_create(call->client);

    if (!listing)
        return OKV_ENOMEM;
    if (!read_pattern(call, &call->args[1], listing))
        okv_resp_listing_destroy(call->client);
    return 0;
}

/* There is room for its price, which long keys and patterns may exceed, and for what is spare. */
static int keys_in_part(struct okv_resp_call *call, struct okv_resp_listing *listing)
{
    struct okv_store_walk *walk = &listing->walk;

    const uint64_t most = call->price + call->spare;

    walk->is_newest = is_newest(call);
    walk->limit = most;
    walk->spent = 0;
    walk->is_first = false;
    listing->keeps_for_pages = true;
    int rc = list_keys(call, listing, UINT64_MAX);
    /* The keys are copied. */
    uint64_t work = walk->spent + listing->keys.used + most - walk->limit;

    if (rc && rc != OKV_EAGAIN)
        okv_resp_refuse(call, rc);
    else if (rc || walk->position || work > most)
        okv_resp_refuse_length(call);
    else
        add_listed(call, listing);
    if (work > call->price)
        call->spare -= work < most ? work - call->price : call->spare;
    okv_resp_spend_filled(call->client);
    okv_resp_listing_destroy(call->client);
    return 0;
}

/* The walk has ended. A long reply waits until all earlier ones have left. */
static int reply_keys(struct okv_resp_call *call, struct okv_resp_listing *listing)
{
    if (listing->keys.used <= COPIED_MAX || listing->keys.has_failed) {
        add_listed(call, listing);
        return 0;
    }
    if (call->client->replies != OKV_RESP_REPLIES_ALL)
        return 0;
    listing->is_complete = true;
    return call->reply.out->used > 0 ? OKV_RESP_GOES_ON : 0;
}

int okv_resp_cmd_keys(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    int rc = client->listing ? 0 : begin_keys(call);
    struct okv_resp_listing *listing = client->listing;

    if (rc)
        return okv_resp_refuse(call, rc);
    if (!listing)
        return 0;
    if (call->is_part)
        return keys_in_part(call, listing);
    if (listing->is_complete)
        return reply_keys(call, listing);
    listing->keys.most = client->out.most;
    begin_step(call, &listing->walk);
    rc = list_keys(call, listing, UINT64_MAX);
    if (rc && rc != OKV_EAGAIN)
        return okv_resp_refuse(call, rc);
    return rc || (listing->walk.position && !listing->keys.has_failed) ? OKV_RESP_GOES_ON
                                                                       : reply_keys(call, listing);
}

/* ---- SCAN ---- */

/* With each option once: they are read in each step. */
#define SCAN_WORDS 8u

struct scan {
    struct okv_resp_listing listing;
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

/* A decimal number of up to 15 digits: positions are that short, so that clients may hold one as a
 * double, or as a signed number. */
static bool read_cursor(const struct okv_resp_arg *arg, uint64_t *cursor)
{
    *cursor = 0;
    if (arg->length == 0 || arg->length > 15)
        return false;
    for (uint32_t i = 0; i < arg->length; i++) {
        if (arg->text[i] < '0' || arg->text[i] > '9')
            return false;
        *cursor = *cursor * 10 + (unsigned)(arg->text[i] - '0');
    }
    return *cursor >> OKV_STORE_POSITION_BITS == 0;
}

static int reply_scan(struct okv_resp_call *call, struct scan *scan)
{
    struct okv_resp_listing *listing = &scan->listing;
    char cursor[24];

    if (scan->lists_nothing) {
        listing->listed = 0;
        listing->keys.used = OKV_RESP_LISTING_ROOM;
    }
    snprintf(cursor, sizeof cursor, "%" PRIu64, listing->walk.position);
    okv_resp_array(&call->reply, 2);
    okv_resp_text(&call->reply, cursor);
    add_listed(call, listing);
    return 0;
}

static int scan_from(struct okv_resp_call *call, struct scan *scan)
{
    struct okv_resp_listing *listing = &scan->listing;
    uint64_t start = listing->walk.position;

    if (!read_scan_options(call, scan))
        return 0;
    begin_step(call, &listing->walk);
    int rc = list_keys(call, listing, (uint64_t)scan->count);
    if (rc == OKV_EAGAIN && listing->walk.position == start)
        return OKV_RESP_GOES_ON; /* with another turn's work */
    return rc && rc != OKV_EAGAIN ? okv_resp_refuse(call, rc) : reply_scan(call, scan);
}

int okv_resp_cmd_scan(struct okv_resp_call *call)
{
    struct scan scan = {.count = 10};
    uint64_t cursor;
    int rc;

    if (!okv_resp_need_few(call, SCAN_WORDS))
        return 0;
    if (!read_cursor(&call->args[1], &cursor)) {
        okv_resp_error(&call->reply, "ERR invalid cursor");
        return 0;
    }
    if (!okv_resp_listing_init(&scan.listing))
        return okv_resp_refuse(call, OKV_ENOMEM);
    scan.listing.walk.position = cursor;
    rc = scan_from(call, &scan);
    okv_resp_listing_fini(&scan.listing);
    return rc;
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

static void begin_random(struct okv_resp_random_progress *progress, uint64_t random)
{
    uint64_t start = random >> (64 - OKV_STORE_POSITION_BITS);

    *progress =
        (struct okv_resp_random_progress){.start = start, .position = start, .is_under_way = true};
}

/* From any position, once around the table at most. */
static int pick_from(struct okv_resp_call *call, struct okv_resp_random_progress *progress,
                     struct pick *pick)
{
    struct okv_store_walk walk = {.position = progress->position, .price = 1};
    bool is_around;
    int rc;

    begin_step(call, &walk);
    do {
        rc = okv_store_iterate(&call->executor->database->store, &walk, pick_key, pick);
        progress->has_wrapped = progress->has_wrapped || (rc == 0 && walk.position == 0);
        is_around = progress->has_wrapped && walk.position >= progress->start;
    } while (rc == 0 && !is_around && walk.spent < walk.limit && pick->met < CANDIDATES);
    progress->position = walk.position;
    end_step(call, &walk);
    if (rc == OKV_EAGAIN || (rc == 0 && !is_around))
        return pick->met || call->is_part ? 0 : OKV_RESP_GOES_ON;
    return rc;
}

int okv_resp_cmd_randomkey(struct okv_resp_call *call)
{
    struct okv_resp_random_progress *progress = &call->client->random;
    struct pick pick = {.met = 0};
    int rc = 0;

    if (getrandom(&pick.random, sizeof pick.random, 0) != sizeof pick.random)
        pick.random = call->client->id;
    if (!progress->is_under_way)
        begin_random(progress, pick.random);
    if (atomic_load(&call->executor->database->store.totals.items) > 0)
        rc = pick_from(call, progress, &pick);
    if (rc == OKV_RESP_GOES_ON)
        return rc;
    progress->is_under_way = false;
    if (rc)
        return okv_resp_refuse(call, rc);
    if (pick.met)
        okv_resp_bulk(&call->reply, pick.key, pick.length);
    else
        okv_resp_null(&call->reply);
    return 0;
}
