#include "tests/support/wal_pair.h"

#include <sched.h>

#include "tests/support/test.h"

#include "server/store/iterate.h"
#include "server/wal/null_files.h"
#include "shared/base/error.h"

static const struct okv_wal_identity identity = {
    .database_id = "a shard of two", .hash_seed = 99, .position = WAL_PAIR_BEGIN};

static void note_change(void *user)
{
    struct wal_copy *copy = user;

    atomic_fetch_add(&copy->changes, 1);
}

/* ---- their life ---- */

void wal_copy_init(struct wal_copy *copy, bool keeps_nothing)
{
    memset(copy, 0, sizeof *copy);
    crash_disk_init(&copy->disk, 1);
    wal_machine_init(&copy->machine, &copy->disk, WAL_PAIR_REGION);
    if (keeps_nothing)
        copy->machine.files = okv_null_files();
    copy->params = (struct okv_wal_copies_params){note_change, copy, NULL};
    copy->machine.identity = &identity;
    copy->machine.copies = &copy->params;
    copy->machine.keep = 1 << 20;
}

void wal_copy_start(struct wal_copy *copy)
{
    if (wal_machine_start(&copy->machine))
        fail_msg("start: %s", copy->machine.diag.text);
}

void wal_copy_fini(struct wal_copy *copy)
{
    if (copy->machine.wal)
        wal_machine_stop(&copy->machine);
    crash_disk_fini(&copy->disk);
}

struct wal_pair *wal_pair_begin(void)
{
    struct wal_pair *pair = calloc(1, sizeof *pair);

    assert_non_null(pair);
    for (unsigned i = 0; i < 2; i++) {
        wal_copy_init(&pair->of[i], true);
        wal_copy_start(&pair->of[i]);
    }
    return pair;
}

void wal_pair_end(struct wal_pair *pair)
{
    wal_copy_fini(&pair->of[0]);
    wal_copy_fini(&pair->of[1]);
    free(pair);
}

/* ---- what the cluster's thread does ---- */

struct okv_wal_copies_state wal_copy_state(struct wal_copy *copy)
{
    struct okv_wal_copies_state state;

    okv_wal_copies_get(copy->machine.wal, &state);
    return state;
}

void wal_copy_await_durable(struct wal_copy *copy)
{
    struct okv_wal_copies_state state = wal_copy_state(copy);

    for (; state.durable < state.sealed; state = wal_copy_state(copy))
        sched_yield();
}

void wal_copy_await_applied(struct wal_copy *copy)
{
    struct okv_wal_copies_state state = wal_copy_state(copy);

    for (; state.applied < state.sealed; state = wal_copy_state(copy))
        sched_yield();
}

void wal_copy_await_open(struct wal_copy *copy, bool is_open)
{
    while (wal_copy_state(copy).takes_changes != is_open)
        sched_yield();
}

void wal_pair_lead(struct wal_pair *pair, unsigned leader)
{
    assert_int_equal(okv_wal_copies_lead(pair->of[leader].machine.wal, ++pair->epoch, 0), 0);
    wal_pair_ship(pair, leader);
    wal_pair_publish(pair, leader);
    wal_copy_await_open(&pair->of[leader], true);
}

void wal_pair_ship(struct wal_pair *pair, unsigned from)
{
    struct okv_wal *source = pair->of[from].machine.wal, *target = pair->of[!from].machine.wal;
    uint64_t end = wal_copy_state(&pair->of[from]).sealed, at;
    static uint8_t bytes[1 << 18];
    size_t used;

    while ((at = wal_copy_state(&pair->of[!from]).sealed) < end) {
        assert_int_equal(okv_wal_copies_read(source, at, end, bytes, sizeof bytes, &used), 0);
        assert_int_equal(okv_wal_copies_append(target, bytes, used), 0);
    }
}

void wal_pair_publish(struct wal_pair *pair, unsigned from)
{
    uint64_t position = wal_copy_state(&pair->of[!from]).sealed;

    okv_wal_copies_publish(pair->of[from].machine.wal, position);
    okv_wal_copies_publish(pair->of[!from].machine.wal, position);
}

/* ---- changes ---- */

int wal_copy_put(struct wal_copy *copy, unsigned key, uint32_t number, uint64_t ttl_ms)
{
    uint8_t value[WAL_PAIR_VALUE];
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {.key = &key,
                                          .key_length = sizeof key,
                                          .value = value,
                                          .value_length = sizeof value,
                                          .ttl_ms = ttl_ms};

    memset(value, (uint8_t)number, sizeof value);
    memcpy(value, &number, sizeof number);
    return okv_store_put(&copy->machine.store, &copy->machine.work, &write, &outcome);
}

uint64_t wal_copy_begin_batch(struct wal_copy *copy, unsigned key, uint32_t number)
{
    wal_machine_enter(&copy->machine);
    assert_int_equal(wal_copy_put(copy, key, number, 0), 0);
    uint64_t batch = okv_wal_request_commit(copy->machine.wal);
    okv_wal_end_change(copy->machine.wal);
    return batch;
}

int wal_copy_await_batch(struct wal_copy *copy, uint64_t batch)
{
    int status;

    while (!okv_wal_is_committed(copy->machine.wal, batch, &status))
        sched_yield();
    return status;
}

bool wal_copy_has_ended(struct wal_copy *copy, uint64_t batch)
{
    int status;

    return okv_wal_is_committed(copy->machine.wal, batch, &status);
}

uint32_t wal_copy_number(struct wal_copy *copy, unsigned key)
{
    return wal_machine_number(&copy->machine.store, key);
}

/* ---- what they have ---- */

struct item {
    uint8_t value[256];
    uint32_t value_length;
    uint64_t version, expiry_ms;
};

static int take_item(void *user, const struct okv_store_now *now)
{
    struct item *item = user;

    assert_in_range(now->value_length, 0, sizeof item->value);
    memcpy(item->value, now->value, now->value_length);
    item->value_length = now->value_length;
    item->version = now->version;
    item->expiry_ms = now->expiry_ms;
    return 0;
}

uint64_t wal_copy_version(struct wal_copy *copy, unsigned key)
{
    const struct okv_store_view view = {.clock_ms = 0};
    struct item item = {.version = 0};

    assert_int_equal(
        okv_store_look(&copy->machine.store, NULL, &key, sizeof key, &view, take_item, &item), 0);
    return item.version;
}

struct comparison {
    struct wal_copy *copy, *other;
    unsigned count;
};

/* Those that have expired may be in one of them only. */
static void compare(void *user, const void *key, uint32_t key_length)
{
    const struct okv_store_view view = {.clock_ms = 0};
    struct comparison *comparison = user;
    struct item item = {.version = 0}, same = item;

    if (okv_store_look(&comparison->copy->machine.store, NULL, key, key_length, &view, take_item,
                       &item))
        return;
    comparison->count++;
    assert_int_equal(okv_store_look(&comparison->other->machine.store, NULL, key, key_length, &view,
                                    take_item, &same),
                     0);
    assert_int_equal(same.value_length, item.value_length);
    assert_memory_equal(same.value, item.value, item.value_length);
    assert_int_equal(same.version, item.version);
    assert_int_equal(same.expiry_ms, item.expiry_ms);
}

static unsigned count_equal(struct wal_copy *copy, struct wal_copy *other)
{
    struct comparison comparison = {copy, other, 0};
    struct okv_store_walk walk = {.limit = UINT64_MAX};

    do {
        walk.spent = 0;
        walk.is_first = true;
        assert_int_equal(okv_store_iterate(&copy->machine.store, &walk, compare, &comparison), 0);
    } while (walk.position);
    return comparison.count;
}

unsigned wal_pair_expect_equal(struct wal_pair *pair)
{
    wal_copy_await_applied(&pair->of[0]);
    wal_copy_await_applied(&pair->of[1]);
    unsigned count = count_equal(&pair->of[0], &pair->of[1]);

    assert_int_equal(count_equal(&pair->of[1], &pair->of[0]), count);
    return count;
}
