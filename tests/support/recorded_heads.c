/* HEADs in a history: recorded_client.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/numbered_value.h"
#include "tests/support/recorded_client.h"

struct state {
    uint64_t version, value;
};

static bool is_head(const struct history_record *record)
{
    return record->kind == HISTORY_GET && record->argument;
}

/* The state of the item that a record tells of: a version and its value. */
static bool tells_state(const struct history_record *record, struct state *state)
{
    bool numbered =
        record->kind == HISTORY_PUT || record->kind == HISTORY_CAS || record->kind == HISTORY_ADD;

    *state = (struct state){record->version, numbered ? record->argument : record->value};
    return record->result == HISTORY_OK && record->kind != HISTORY_DELETE && !is_head(record);
}

static int state_compare(const void *left, const void *right)
{
    const struct state *a = left, *b = right;

    return (a->version > b->version) - (a->version < b->version);
}

static size_t length_of(uint32_t key, uint64_t value)
{
    if (key >= RECORDED_REGISTERS)
        return (size_t)snprintf(NULL, 0, "%" PRId64, (int64_t)value);
    return numbered_value_length(key, value);
}

static size_t resolve_key(struct history_record *records, size_t count, struct state *states,
                          char *text, size_t size)
{
    size_t state_count = 0, wrong = 0;
    bool unknown = false;

    for (size_t i = 0; i < count; i++) {
        state_count += tells_state(&records[i], &states[state_count]);
        unknown = unknown || records[i].result == HISTORY_UNKNOWN;
    }
    qsort(states, state_count, sizeof *states, state_compare);
    for (size_t i = 0; i < count; i++) {
        struct history_record *record = &records[i];
        if (!is_head(record))
            continue;
        size_t length = record->argument - 1;
        const struct state *state = bsearch(&(struct state){record->version, 0}, states,
                                            state_count, sizeof *states, state_compare);
        record->argument = 0;
        if (state && length_of(record->key, state->value) == length) {
            record->value = state->value;
            continue;
        }
        /* Of an unknown write nobody else may have seen anything. */
        if (state || !unknown) {
            snprintf(text, size, "key %u: a head found version %" PRIu64 " with %zu bytes, %s",
                     record->key, record->version, length,
                     state ? "which has another length" : "which nobody wrote");
            wrong++;
        }
        record->version = 0;
        record->result = HISTORY_FAILED;
    }
    return wrong;
}

size_t recorded_heads_resolve(const struct history *history, char *text, size_t size)
{
    struct state *states = malloc((history->length + 1) * sizeof *states);
    size_t wrong = 0;

    if (!states) {
        snprintf(text, size, "no memory");
        return 1;
    }
    for (size_t first = 0, end; first < history->length; first = end) {
        end = history_key_end(history, first);
        wrong += resolve_key(history->records + first, end - first, states, text, size);
    }
    free(states);
    return wrong;
}
