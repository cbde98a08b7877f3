#include "server/resp/run/staging.h"

#include <stdlib.h>
#include <string.h>

#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/proto/parser.h"
#include "server/resp/run/call.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

#define SLOTS_MIN 16u
/* Items whose memory is kept between scripts. */
#define KEPT 1024u
/* Work of an item when the changes are made: its bucket is searched, prepared and published. */
#define ITEM_WORK (UINT64_C(3) * OKV_TURN_ITEM)

/* An item that the script has looked at. */
struct okv_resp_staged {
    uint8_t *key, *value; /* own memory; the value is NULL while the item is as it is stored */
    uint32_t key_length, value_length;
    uint64_t hash;
    uint64_t expiry_ms;
    uint64_t version; /* of the stored item; 0: there is none */
    bool is_known;    /* `version` */
    bool is_changed, is_there;
};

/* ---- the items ---- */

static void drop_items(struct okv_resp_staging *staging)
{
    for (uint32_t i = 0; i < staging->count; i++) {
        free(staging->items[i].key);
        free(staging->items[i].value);
    }
    staging->count = 0;
}

void okv_resp_staging_fini(struct okv_resp_staging *staging)
{
    drop_items(staging);
    free(staging->items);
    free(staging->slots);
    *staging = (struct okv_resp_staging){.count = 0};
}

void okv_resp_staging_clear(struct okv_resp_staging *staging)
{
    drop_items(staging);
    if (staging->capacity > KEPT)
        okv_resp_staging_fini(staging);
    if (staging->slots)
        memset(staging->slots, 0, (staging->mask + 1) * sizeof *staging->slots);
    staging->bytes = 0;
    staging->wall = (struct timeval){.tv_sec = 0};
    staging->is_outdated = staging->has_no_memory = false;
}

bool okv_resp_staging_has_neighbours(const struct okv_resp_call *call)
{
    return call->client->resp->server->config.workers > 1;
}

uint32_t okv_resp_staging_changes(const struct okv_resp_staging *staging)
{
    uint32_t changes = 0;

    for (uint32_t i = 0; i < staging->count; i++)
        changes += staging->items[i].is_changed;
    return changes;
}

static void enter(struct okv_resp_staging *staging, uint32_t index)
{
    uint32_t at = (uint32_t)staging->items[index].hash & staging->mask;

    while (staging->slots[at])
        at = (at + 1) & staging->mask;
    staging->slots[at] = index + 1;
}

/* Twice as many slots as items. */
static bool grow(struct okv_resp_staging *staging)
{
    uint32_t capacity = staging->capacity ? 2 * staging->capacity : SLOTS_MIN / 2;
    struct okv_resp_staged *items = realloc(staging->items, capacity * sizeof *items);
    uint32_t *slots = items ? calloc(2 * (size_t)capacity, sizeof *slots) : NULL;

    if (items) {
        staging->items = items;
        staging->capacity = slots ? capacity : staging->capacity;
    }
    if (!slots)
        return false;
    free(staging->slots);
    staging->slots = slots;
    staging->mask = 2 * capacity - 1;
    for (uint32_t i = 0; i < staging->count; i++)
        enter(staging, i);
    return true;
}

static bool is_of_key(const struct okv_resp_staged *item, uint64_t hash,
                      const struct okv_resp_arg *key)
{
    return item->hash == hash && item->key_length == key->length &&
           memcmp(item->key, key->text, key->length) == 0;
}

static struct okv_resp_staged *add(struct okv_resp_staging *staging, uint64_t hash,
                                   const struct okv_resp_arg *key)
{
    uint8_t *copy = NULL;

    if (staging->count < staging->capacity || grow(staging))
        copy = malloc(key->length);
    if (!copy) {
        staging->has_no_memory = true;
        return NULL;
    }
    memcpy(copy, key->text, key->length);
    staging->items[staging->count] =
        (struct okv_resp_staged){.key = copy, .key_length = key->length, .hash = hash};
    enter(staging, staging->count);
    staging->bytes += key->length;
    return &staging->items[staging->count++];
}

/* The item of a key, which it adds; NULL: there is no memory. */
static struct okv_resp_staged *item_of(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    struct okv_resp_staging *staging = call->staging;
    uint64_t hash = okv_hash_key(key->text, key->length, call->client->resp->hash_seed);
    uint32_t index;

    for (uint32_t at = (uint32_t)hash & staging->mask;
         staging->slots && (index = staging->slots[at]); at = (at + 1) & staging->mask)
        if (is_of_key(&staging->items[index - 1], hash, key))
            return &staging->items[index - 1];
    return add(staging, hash, key);
}

/* ---- looking ---- */

static struct okv_store *store_of(const struct okv_resp_call *call)
{
    return &call->executor->database->store;
}

/* Both at once, so that an expiry is the same on either. */
static void need_times(const struct okv_resp_call *call)
{
    struct okv_resp_staging *staging = call->staging;

    if (staging->wall.tv_sec)
        return;
    staging->clock_ms = atomic_load(&store_of(call)->clock_ms);
    gettimeofday(&staging->wall, NULL);
}

uint64_t okv_resp_staging_now_ms(const struct okv_resp_call *call)
{
    need_times(call);
    return call->staging->clock_ms;
}

struct timeval okv_resp_staging_wall(const struct okv_resp_call *call)
{
    need_times(call);
    return call->staging->wall;
}

static void know(struct okv_resp_staging *staging, struct okv_resp_staged *item, uint64_t version)
{
    staging->is_outdated = staging->is_outdated || (item->is_known && item->version != version);
    item->version = version;
    item->is_known = true;
}

/* As the script's commands see it now. False: there is none. */
static bool staged_now(const struct okv_resp_call *call, const struct okv_resp_staged *item,
                       struct okv_store_now *now)
{
    *now = (struct okv_store_now){.value = item->value,
                                  .value_length = item->value_length,
                                  .version = item->version + 1,
                                  .expiry_ms = item->expiry_ms};
    return item->is_there && !(item->expiry_ms && item->expiry_ms <= okv_resp_staging_now_ms(call));
}

struct look {
    struct okv_resp_call *call;
    struct okv_resp_staged *item;
    bool is_use;
    okv_store_visit *visit;
    void *user;
};

static int visit_stored(void *user, const struct okv_store_now *now)
{
    struct look *look = user;

    know(look->call->staging, look->item, now->version);
    return look->visit(look->user, now);
}

static int look_at(struct look *look)
{
    struct okv_resp_call *call = look->call;
    struct okv_resp_staged *item = look->item;
    struct okv_store_now now;

    if (item->is_changed)
        return staged_now(call, item, &now) ? look->visit(look->user, &now) : OKV_ENOTFOUND;
    const struct okv_store_view view = {.newest = call->is_in_change,
                                        .is_use = look->is_use,
                                        .clock_ms = okv_resp_staging_now_ms(call)};
    int rc = okv_store_look(store_of(call), call->executor->work, item->key, item->key_length,
                            &view, visit_stored, look);
    if (rc == OKV_ENOTFOUND)
        know(call->staging, item, 0);
    return rc;
}

int okv_resp_staging_look(struct okv_resp_call *call, const struct okv_resp_arg *key, bool is_use,
                          okv_store_visit *visit, void *user)
{
    struct look look = {.call = call, .is_use = is_use, .visit = visit, .user = user};

    if (key->length < 1 || key->length > OKV_KEY_MAX)
        return OKV_ENOTFOUND;
    look.item = item_of(call, key);
    return look.item ? look_at(&look) : OKV_ENOMEM;
}

/* ---- changing ---- */

static void spend(struct okv_resp_call *call, uint64_t bytes)
{
    unsigned copies = 2 + (call->executor->database->wal != NULL);

    call->executor->work->bytes += ITEM_WORK + bytes * copies;
}

static void set_absent(struct okv_resp_call *call, struct okv_resp_staged *item)
{
    call->staging->bytes -= item->value_length;
    free(item->value);
    item->value = NULL;
    item->value_length = 0;
    item->is_there = false;
    item->is_changed = true;
    spend(call, 0);
}

/* The new value may be part of the old one. */
static int set_value(struct okv_resp_call *call, struct okv_resp_staged *item,
                     const struct okv_store_next *next)
{
    uint8_t *copy;

    if (next->value_length > store_of(call)->max_value)
        return OKV_EVALUESIZE;
    copy = malloc(next->value_length ? next->value_length : 1);
    if (!copy)
        return OKV_ENOMEM;
    if (next->value_length)
        memcpy(copy, next->value, next->value_length);
    free(item->value);
    call->staging->bytes += (uint64_t)next->value_length - item->value_length;
    item->value = copy;
    item->value_length = next->value_length;
    item->expiry_ms = next->expiry_ms;
    item->is_there = item->is_changed = true;
    spend(call, next->value_length);
    return 0;
}

struct modify {
    struct look look; /* first */
    okv_store_decide *decide;
    void *user;
    bool had_item;
};

static int decide(struct modify *modify, const struct okv_store_now *now)
{
    struct okv_store_next next = {0};
    int rc = modify->decide(modify->user, now, &next);

    modify->had_item = now;
    if (rc == OKV_STORE_KEEP)
        return 0;
    if (rc == OKV_STORE_REMOVE && now)
        set_absent(modify->look.call, modify->look.item);
    if (rc == OKV_STORE_REMOVE)
        return now ? 0 : OKV_ENOTFOUND;
    return rc ? rc : set_value(modify->look.call, modify->look.item, &next);
}

static int visit_and_decide(void *user, const struct okv_store_now *now)
{
    return decide(user, now);
}

int okv_resp_staging_modify(struct okv_resp_call *call, const struct okv_resp_arg *key,
                            okv_store_decide *how, void *user)
{
    struct modify modify = {
        .look = {.call = call, .visit = visit_and_decide}, .decide = how, .user = user};

    if (key->length < 1 || key->length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    modify.look.item = item_of(call, key);
    if (!modify.look.item)
        return OKV_ENOMEM;
    modify.look.user = &modify;
    int rc = look_at(&modify.look);
    return rc == OKV_ENOTFOUND && !modify.had_item ? decide(&modify, NULL) : rc;
}

static int visit_nothing(void *user, const struct okv_store_now *now)
{
    (void)user;
    (void)now;
    return 0;
}

int okv_resp_staging_remove(struct okv_resp_call *call, const struct okv_resp_arg *key)
{
    int rc = okv_resp_staging_look(call, key, false, visit_nothing, NULL);

    if (rc == 0)
        set_absent(call, item_of(call, key));
    return rc;
}

/* ---- the end ---- */

/* What was made and removed again is as it was. */
static struct okv_store_set_change change_of(const struct okv_resp_staged *item)
{
    struct okv_store_set_change change = {.kind = OKV_STORE_SET_READ,
                                          .key = item->key,
                                          .key_length = item->key_length,
                                          .version = item->version};

    if (!item->is_changed)
        return change;
    change.kind = item->is_there ? OKV_STORE_SET_PUT
                                 : (item->version ? OKV_STORE_SET_REMOVE : OKV_STORE_SET_READ);
    change.value = item->value;
    change.value_length = item->value_length;
    change.expiry_ms = item->expiry_ms;
    return change;
}

static void count_changes(struct okv_resp_call *call, const struct okv_store_set *set)
{
    struct okv_counts *counts = &call->executor->database->counts;

    for (uint32_t i = 0; i < set->count; i++) {
        if (set->changes[i].kind == OKV_STORE_SET_PUT)
            OKV_STATS_ADD(counts, puts, 1);
        else if (set->changes[i].kind == OKV_STORE_SET_REMOVE)
            OKV_STATS_ADD(counts, deletes, 1);
        else
            continue;
        call->has_changed = true;
    }
}

int okv_resp_staging_apply(struct okv_resp_call *call, bool compares)
{
    const struct okv_resp_staging *staging = call->staging;
    struct okv_store_set set = {
        .count = 0, .compares = compares, .steps = &call->client->room_steps};
    int rc;

    if (staging->has_no_memory)
        return OKV_ENOMEM;
    if (compares && staging->is_outdated)
        return OKV_ECONFLICT;
    set.changes = malloc((staging->count + 1) * sizeof *set.changes);
    if (!set.changes)
        return OKV_ENOMEM;
    for (uint32_t i = 0; i < staging->count; i++)
        if (compares || staging->items[i].is_changed)
            set.changes[set.count++] = change_of(&staging->items[i]);
    rc = set.count ? okv_store_change_set(store_of(call), call->executor->work, &set) : 0;
    if (rc == 0)
        count_changes(call, &set);
    free(set.changes);
    return rc;
}
