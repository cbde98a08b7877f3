#include "tests/support/cluster_items.h"

#include <stdbool.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/format/hash.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"

#define LARGE_ITEMS 60u
#define LARGE_BYTES (1u << 20)

/* Longer than a test lasts: nothing expires between two walks. */
#define TTL_MS (100 * INT64_C(3600000))
/* As okv.h has it of a time to live, for either walk. */
#define TTL_SLACK_MS 200

/* ---- changes ---- */

static size_t name_item(uint64_t number, char name[32])
{
    return (size_t)snprintf(name, 32, "item %llu", (unsigned long long)number);
}

/* Many are short, few are long. */
static size_t length_of(uint64_t number, size_t longest)
{
    uint64_t chance = random_mix(number);

    return 8 + (size_t)(random_mix(chance) % longest >> (chance % 4 * 4));
}

static void must(int rc, int other)
{
    if (rc != OKV_OK && rc != other)
        fail_msg("a change of an item: %s", okv_errname(rc));
}

static void put(okv *handle, const char *name, size_t length, const void *value, size_t size,
                uint64_t number)
{
    struct okv_put_options options = {.flags = 0};

    if (number % 3 == 0) {
        options.flags |= OKV_WITH_TTL;
        options.ttl_ms = TTL_MS + (int64_t)number * 1000;
    }
    must(okv_put_with(handle, name, length, value, size, &options, NULL), OKV_OK);
}

/* Only if it is as it was, or is not there. */
static void put_if(okv *handle, const char *name, size_t length, const void *value, size_t size)
{
    struct okv_put_options options = {.flags = OKV_IF_ABSENT};
    uint64_t version = 0;
    int rc = okv_put_with(handle, name, length, value, size, &options, &version);

    must(rc, OKV_EEXISTS);
    if (rc == OKV_OK)
        return;
    options = (struct okv_put_options){.flags = OKV_IF_VERSION | OKV_KEEP_TTL, .version = version};
    must(okv_put_with(handle, name, length, value, size, &options, NULL), OKV_OK);
}

void cluster_items_change(okv *handle, unsigned count, size_t longest, uint64_t number)
{
    size_t size = length_of(number, longest);
    char *value = malloc(size);
    char name[32];
    size_t length = name_item(random_mix(number) % count, name);

    assert_non_null(value);
    memset(value, 'a' + (int)(number % 26), size);
    memcpy(value, &number, sizeof number);
    switch (number % 5) {
    case 0:
        must(okv_delete(handle, name, length), OKV_ENOTFOUND);
        break;
    case 1:
        must(okv_touch(handle, name, length, number % 2 ? OKV_TTL_NONE : TTL_MS, NULL),
             OKV_ENOTFOUND);
        break;
    case 2:
        put_if(handle, name, length, value, size);
        break;
    case 3:
        must(okv_append(handle, name, length, value, size % 100, NULL, NULL), OKV_EVALUESIZE);
        break;
    default:
        put(handle, name, length, value, size, number);
        break;
    }
    free(value);
}

void cluster_items_put(okv *handle, unsigned count, size_t longest)
{
    char name[32];
    char *value = malloc(longest + 8);

    assert_non_null(value);
    for (unsigned i = 0; i < count; i++) {
        size_t length = name_item(i, name), size = length_of(i, longest);
        memset(value, 'A' + (int)(i % 26), size);
        put(handle, name, length, value, size, i);
    }
    free(value);
    for (unsigned i = 0; i < count / 4; i++)
        cluster_items_change(handle, count, longest, i);
}

/* ---- walks ---- */

static int note(void *user, const struct okv_item *item)
{
    struct cluster_items *items = user;
    size_t prefix = strlen(items->prefix);

    if (item->key_length < prefix || memcmp(item->key, items->prefix, prefix) != 0)
        return 0;
    if (items->count == items->room) {
        items->room = items->room ? 2 * items->room : 64;
        items->of = realloc(items->of, items->room * sizeof *items->of);
        assert_non_null(items->of);
    }
    struct cluster_item *into = &items->of[items->count++];
    *into = (struct cluster_item){
        .length = item->value_length,
        .checksum = okv_hash_checksum(item->value, item->value_length, 0),
        .version = item->version,
        .ttl_ms = item->ttl_ms,
    };
    assert_in_range(item->key_length, 1, sizeof into->key - 1);
    memcpy(into->key, item->key, item->key_length);
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct cluster_item *)a)->key, ((const struct cluster_item *)b)->key);
}

struct cluster_items cluster_items_walk(okv *handle, const char *prefix)
{
    struct cluster_items items = {.prefix = prefix, .begun_ns = okv_clock_ns()};
    uint64_t end = pace_guard_end();
    int rc;

    /* A scan ends with its connection, as after a hand-over. */
    do {
        items.count = 0;
        rc = okv_scan(handle, note, &items);
    } while (rc == OKV_EDISCONNECTED && okv_clock_ns() < end);
    if (rc)
        fail_msg("a walk: %s: %s", okv_errname(rc), okv_why(handle));
    items.ended_ns = okv_clock_ns();
    if (items.count > 0)
        qsort(items.of, items.count, sizeof *items.of, by_key);
    return items;
}

void cluster_items_free(struct cluster_items *items)
{
    free(items->of);
    *items = (struct cluster_items){.count = 0};
}

static void compare(const struct cluster_item *before, const struct cluster_item *after,
                    int64_t longest_ms)
{
    if (strcmp(before->key, after->key) != 0)
        fail_msg("'%s' is there, instead of '%s'", after->key, before->key);
    if (before->version != after->version || before->length != after->length ||
        before->checksum != after->checksum)
        fail_msg("%s: version %llu, %zu bytes, was version %llu, %zu bytes", before->key,
                 (unsigned long long)after->version, after->length,
                 (unsigned long long)before->version, before->length);
    bool is_same = before->ttl_ms == OKV_TTL_NONE
                       ? after->ttl_ms == OKV_TTL_NONE
                       : after->ttl_ms <= before->ttl_ms + TTL_SLACK_MS &&
                             after->ttl_ms >= before->ttl_ms - longest_ms - TTL_SLACK_MS;
    if (!is_same)
        fail_msg("%s: %lld ms to live, had %lld, at most %lld ms before", before->key,
                 (long long)after->ttl_ms, (long long)before->ttl_ms, (long long)longest_ms);
}

void cluster_items_compare(const struct cluster_items *before, const struct cluster_items *after)
{
    int64_t longest_ms = (int64_t)((after->ended_ns - before->begun_ns) / 1000000);
    size_t both = before->count < after->count ? before->count : after->count;

    for (size_t i = 0; i < both; i++)
        compare(&before->of[i], &after->of[i], longest_ms);
    assert_int_equal(after->count, before->count);
}

void cluster_items_put_large(okv *handle)
{
    char *value = malloc(LARGE_BYTES);
    char name[32];

    assert_non_null(value);
    for (unsigned i = 0; i < LARGE_ITEMS; i++) {
        memset(value, 'a' + (int)(i % 26), LARGE_BYTES);
        size_t length = (size_t)snprintf(name, sizeof name, "large %u", i);
        assert_int_equal(okv_put(handle, name, length, value, LARGE_BYTES - i, NULL), OKV_OK);
    }
    free(value);
}
