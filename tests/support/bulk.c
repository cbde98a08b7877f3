#include "tests/support/bulk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/random.h"

#define WAIT_MS 1000

struct bulk_slot {
    uint64_t index; /* of the operation, from 0 in the order of their beginning */
    bool busy;
    char key[BULK_KEY_BYTES];
    uint8_t value[BULK_VALUE_BYTES];
};

struct bulk_run {
    okv *handle;
    const struct bulk *bulk;
    uint64_t count, begun; /* operations */
    struct bulk_slot slots[BULK_UNDER_WAY];
    int failure;
    uint64_t culprit;
};

void bulk_key(char key[BULK_KEY_BYTES], uint64_t n)
{
    char text[24];

    snprintf(text, sizeof text, "%016" PRIx64, n);
    memcpy(key, text, BULK_KEY_BYTES);
}

void bulk_value(uint8_t value[BULK_VALUE_BYTES], uint64_t n)
{
    for (unsigned i = 0; i < BULK_VALUE_BYTES / 8; i++) {
        uint64_t word = i == 0 ? n : random_mix(n * 4 + i);
        memcpy(value + (size_t)i * 8, &word, 8);
    }
}

bool bulk_value_is(const uint8_t *value, size_t length, uint64_t n)
{
    uint8_t expected[BULK_VALUE_BYTES];

    bulk_value(expected, n);
    return length == sizeof expected && memcmp(value, expected, sizeof expected) == 0;
}

static uint64_t step_of(const struct bulk *bulk)
{
    return bulk->step ? bulk->step : 1;
}

static uint64_t item_of(const struct bulk_run *run, uint64_t index)
{
    if (run->bulk->kind == OKV_DELETE)
        index = run->count - 1 - index;
    return run->bulk->begin + index * step_of(run->bulk);
}

static int begin_one(struct bulk_run *run, struct bulk_slot *slot)
{
    uint64_t n = item_of(run, run->begun);
    struct okv_command command = {
        .kind = (uint32_t)run->bulk->kind,
        .tag = (uint64_t)(slot - run->slots),
        .key = slot->key,
        .key_length = BULK_KEY_BYTES,
    };

    slot->index = run->begun;
    bulk_key(slot->key, n);
    if (run->bulk->kind == OKV_PUT) {
        bulk_value(slot->value, n);
        command.value = slot->value;
        command.value_length = sizeof slot->value;
    } else if (run->bulk->kind == OKV_GET) {
        command.buffer = slot->value;
        command.buffer_size = sizeof slot->value;
    } else if (run->bulk->there_end) {
        atomic_store(run->bulk->there_end, n);
    }
    int rc = okv_submit(run->handle, &command, 1, NULL);
    if (rc == OKV_OK) {
        slot->busy = true;
        run->begun++;
    }
    return rc;
}

static void end_one(struct bulk_run *run, const struct okv_result *result)
{
    struct bulk_slot *slot = &run->slots[result->tag];
    uint64_t n = item_of(run, slot->index);
    int status = result->status;

    slot->busy = false;
    if (run->bulk->kind == OKV_GET && status == OKV_ETOOSMALL)
        status = OKV_ECORRUPT;
    if (run->bulk->kind == OKV_GET && status == OKV_OK &&
        !bulk_value_is(slot->value, result->length, n))
        status = OKV_ECORRUPT;
    if (status && !run->failure) {
        run->failure = status;
        run->culprit = n;
    }
}

/* Puts may end in any order: what is there for certain ends with the first that has not. */
static void publish_puts(struct bulk_run *run)
{
    uint64_t ended = run->begun;

    if (run->bulk->kind != OKV_PUT || !run->bulk->there_end || run->failure)
        return;
    for (unsigned i = 0; i < BULK_UNDER_WAY; i++)
        if (run->slots[i].busy && run->slots[i].index < ended)
            ended = run->slots[i].index;
    atomic_store(run->bulk->there_end, ended < run->count
                                           ? run->bulk->begin + ended * step_of(run->bulk)
                                           : run->bulk->end);
}

static void fill_slots(struct bulk_run *run)
{
    for (unsigned i = 0; i < BULK_UNDER_WAY && run->begun < run->count && !run->failure; i++)
        if (!run->slots[i].busy)
            run->failure = begin_one(run, &run->slots[i]);
}

int bulk_run(okv *handle, const struct bulk *bulk, uint64_t *culprit)
{
    struct bulk_run run = {.handle = handle, .bulk = bulk};
    struct okv_result results[BULK_UNDER_WAY];

    if (bulk->end > bulk->begin)
        run.count = (bulk->end - bulk->begin - 1) / step_of(bulk) + 1;
    for (;;) {
        if (!bulk->stop || !atomic_load(bulk->stop))
            fill_slots(&run);
        if (okv_pending(handle) == 0)
            break;
        int done = okv_poll(handle, results, BULK_UNDER_WAY);
        if (done == 0)
            okv_wait(handle, WAIT_MS);
        for (int i = 0; i < done; i++)
            end_one(&run, &results[i]);
        if (done < 0) {
            run.failure = run.failure ? run.failure : done;
            break;
        }
        publish_puts(&run);
    }
    if (culprit)
        *culprit = run.culprit;
    return run.failure;
}
