#include "tests/support/store_watch.h"

#include <inttypes.h>

#include "tests/support/test.h"

#include "shared/base/error.h"

static void make_key(const struct store_watch *watch, unsigned index, uint8_t *key)
{
    memset(key, '.', watch->key_length);
    okv_put_u64(key, index);
}

static void make_value(uint8_t *value, uint32_t length, uint32_t index, uint32_t change)
{
    struct store_random random = {.state = (uint64_t)index << 32 | change};

    okv_put_u32(value, index);
    okv_put_u32(value + 4, change);
    if (length >= 12)
        okv_put_u32(value + 8, length);
    for (uint32_t at = 12; at < length; at += 8) {
        uint8_t word[8];
        okv_put_u64(word, store_random_next(&random));
        memcpy(value + at, word, length - at < 8 ? length - at : 8);
    }
}

static bool value_is_whole(const uint8_t *value, uint32_t length)
{
    struct store_random random = {.state =
                                      (uint64_t)okv_get_u32(value) << 32 | okv_get_u32(value + 4)};

    for (uint32_t at = 12; at < length; at += 8) {
        uint8_t word[8];
        okv_put_u64(word, store_random_next(&random));
        if (memcmp(value + at, word, length - at < 8 ? length - at : 8) != 0)
            return false;
    }
    return length < 12 || okv_get_u32(value + 8) == length;
}

void store_watch_open(struct store_watch *watch, struct store_region *region, unsigned count,
                      uint32_t key_length, uint32_t value_max)
{
    *watch = (struct store_watch){
        .region = region,
        .count = count,
        .key_length = key_length,
        .value_max = value_max,
        .keys = calloc(count, sizeof *watch->keys),
        .known = count,
    };
    assert_non_null(watch->keys);
    pthread_mutex_init(&watch->lock, NULL);
}

void store_watch_close(struct store_watch *watch)
{
    pthread_mutex_destroy(&watch->lock);
    free(watch->keys);
}

static void report(struct store_watch *watch, const char *what, unsigned index, int rc,
                   uint32_t done, uint32_t begun, uint32_t found)
{
    pthread_mutex_lock(&watch->lock);
    if (!atomic_exchange(&watch->failed, true))
        snprintf(watch->failure, sizeof watch->failure,
                 "%s: key %u, status %d, change %" PRIu32 " (%s) done, %" PRIu32
                 " begun, found %" PRIu32,
                 what, index, rc, done / 2, done % 2 ? "put" : "away", begun / 2, found);
    pthread_mutex_unlock(&watch->lock);
}

int store_watch_put(struct store_watch *watch, struct okv_store_work *work, uint8_t *value,
                    unsigned index, uint32_t length)
{
    struct store_watched *watched = &watch->keys[index];
    uint8_t key[OKV_KEY_MAX];
    uint32_t before = atomic_load(&watched->begun), change = before / 2 + 1;
    struct okv_store_outcome outcome;

    make_key(watch, index, key);
    make_value(value, length, index, change);
    const struct okv_store_write write = {
        .key = key, .key_length = watch->key_length, .value = value, .value_length = length};
    atomic_store(&watched->begun, 2 * change + 1);
    int rc = okv_store_put(&watch->region->store, work, &write, &outcome);
    if (rc == OKV_EFULL)
        atomic_store(&watched->begun, before);
    else
        atomic_store(&watched->done, 2 * change + 1);
    if (rc && rc != OKV_EFULL)
        report(watch, "put failed", index, rc, 0, 2 * change, 0);
    return rc;
}

int store_watch_delete(struct store_watch *watch, struct okv_store_work *work, unsigned index)
{
    struct store_watched *watched = &watch->keys[index];
    uint8_t key[OKV_KEY_MAX];
    uint32_t before = atomic_load(&watched->begun), change = before / 2 + 1;
    struct okv_store_outcome outcome;

    make_key(watch, index, key);
    const struct okv_store_write write = {.key = key, .key_length = watch->key_length};
    atomic_store(&watched->away, change);
    atomic_store(&watched->begun, 2 * change);
    int rc = okv_store_delete(&watch->region->store, work, &write, &outcome);
    atomic_store(&watched->done, 2 * change);
    if (rc != (before % 2 ? 0 : OKV_ENOTFOUND))
        report(watch, "delete", index, rc, before, 2 * change, 0);
    return rc;
}

bool store_watch_check(struct store_watch *watch, struct store_reader *reader, unsigned index)
{
    struct store_watched *watched = &watch->keys[index];
    uint8_t key[OKV_KEY_MAX];
    struct store_found found;

    make_key(watch, index, key);
    uint32_t done = atomic_load(&watched->done);
    int rc = store_reader_find(reader, key, watch->key_length, &found);
    uint32_t begun = atomic_load(&watched->begun), away = atomic_load(&watched->away);
    const char *wrong = NULL;
    uint32_t change = 0;
    if (rc == OKV_ENOTFOUND) {
        if (done % 2 && away <= done / 2)
            wrong = "a false miss";
    } else if (rc || found.value_length < WATCH_VALUE_MIN) {
        wrong = "not readable";
    } else {
        change = okv_get_u32(found.value + 4);
        if (okv_get_u32(found.value) != index || !value_is_whole(found.value, found.value_length))
            wrong = "a foreign or mixed value";
        else if (change > begun / 2)
            wrong = "a value of the future";
        else if (change < done / 2 || (change == done / 2 && done % 2 == 0))
            wrong = "an old value";
    }
    if (wrong)
        report(watch, wrong, index, rc, done, begun, change);
    return !wrong;
}

static void *watch_keys(void *argument)
{
    struct store_watcher *watcher = argument;
    struct store_watch *watch = watcher->watch;
    struct store_random random = {.state = watcher->seed};
    struct store_reader reader;
    uint64_t gets = 0;

    store_reader_open(&reader, watch->region->base, watch->region->length, watch->value_max);
    while (!atomic_load(&watch->stop) && !atomic_load(&watch->failed)) {
        unsigned known = atomic_load(&watch->known);
        if (known == 0)
            continue;
        store_watch_check(watch, &reader, store_random_below(&random, known));
        gets++;
    }
    atomic_fetch_add(&watch->gets, gets);
    store_reader_close(&reader);
    return NULL;
}

void store_watch_start(struct store_watch *watch, struct store_watcher *watchers, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        watchers[i] = (struct store_watcher){.watch = watch, .seed = i + 1};
        assert_int_equal(pthread_create(&watchers[i].thread, NULL, watch_keys, &watchers[i]), 0);
    }
}

void store_watch_join(struct store_watch *watch, struct store_watcher *watchers, unsigned count)
{
    atomic_store(&watch->stop, true);
    for (unsigned i = 0; i < count; i++)
        pthread_join(watchers[i].thread, NULL);
    if (atomic_load(&watch->failed))
        fail_msg("%s", watch->failure);
    print_message("watchers: %llu gets\n", (unsigned long long)atomic_load(&watch->gets));
}
