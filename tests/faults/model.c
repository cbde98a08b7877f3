#include "tests/faults/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/error.h"

static const struct model_state absent = {.present = false};

void model_init(struct model *model)
{
    for (unsigned i = 0; i < MODEL_KEYS; i++) {
        struct model_item *item = &model->items[i];
        *item = (struct model_item){.may = {absent}, .count = 1};
        snprintf(item->key, sizeof item->key, "key-%u", i);
    }
}

static bool is_same(const struct model_state *a, const struct model_state *b)
{
    return a->present == b->present && a->fill == b->fill && a->length == b->length &&
           a->number == b->number;
}

static void add(struct model_item *item, struct model_state state)
{
    for (unsigned i = 0; i < item->count; i++)
        if (is_same(&item->may[i], &state))
            return;
    if (item->count < MODEL_STATES_MAX)
        item->may[item->count++] = state;
}

void model_wrote(struct model_item *item, int status, struct model_state state)
{
    if (status == OKV_OK)
        item->count = 0;
    if (status == OKV_OK || status == OKV_EUNKNOWN)
        add(item, state);
}

bool model_appended(struct model_item *item, int status, char fill, uint32_t length, size_t whole)
{
    struct model_item before = *item;
    bool fits = false;

    if (status != OKV_OK && status != OKV_EUNKNOWN)
        return true;
    if (status == OKV_OK)
        item->count = 0;
    for (unsigned i = 0; i < before.count; i++) {
        struct model_state state = before.may[i];
        if (!state.present)
            state = (struct model_state){.present = true, .fill = fill};
        state.length += length;
        if (status == OKV_OK && state.length != whole)
            continue;
        fits = true;
        add(item, state);
    }
    return fits;
}

bool model_counted(struct model_item *item, int status, int64_t delta, int64_t sum)
{
    struct model_item before = *item;
    bool fits = false;

    if (status != OKV_OK && status != OKV_EUNKNOWN)
        return true;
    if (status == OKV_OK)
        item->count = 0;
    for (unsigned i = 0; i < before.count; i++) {
        struct model_state state = {.present = true, .number = before.may[i].number + delta};
        if (status == OKV_OK && state.number != sum)
            continue;
        fits = true;
        add(item, state);
    }
    return fits;
}

void model_flushed(struct model *model, int status)
{
    for (unsigned i = 0; i < MODEL_KEYS; i++)
        model_wrote(&model->items[i], status, absent);
}

bool model_may_be_absent(const struct model_item *item)
{
    for (unsigned i = 0; i < item->count; i++)
        if (!item->may[i].present)
            return true;
    return false;
}

uint32_t model_value(const struct model_state *state, char *value)
{
    if (state->fill == 0)
        return (uint32_t)sprintf(value, "%" PRId64, state->number);
    memset(value, state->fill, state->length);
    return state->length;
}

bool model_may_be(const struct model_item *item, const void *value, size_t length)
{
    const char *bytes = value;

    for (unsigned i = 0; i < item->count; i++) {
        const struct model_state *state = &item->may[i];
        char digits[24];
        if (!state->present)
            continue;
        if (state->fill == 0) {
            if (length == model_value(state, digits) && memcmp(value, digits, length) == 0)
                return true;
            continue;
        }
        size_t same = 0;
        while (same < length && bytes[same] == state->fill)
            same++;
        if (length == state->length && same == length)
            return true;
    }
    return false;
}

bool model_may_have_length(const struct model_item *item, size_t length)
{
    char digits[24];

    for (unsigned i = 0; i < item->count; i++) {
        const struct model_state *state = &item->may[i];
        if (state->present && length == (state->fill ? state->length : model_value(state, digits)))
            return true;
    }
    return false;
}
