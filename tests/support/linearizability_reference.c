#include <stdlib.h>

#include "tests/support/linearizability_proven.h"

/*
 * Every order is tried, depth first (Wing & Gong 1993); a pair of (operations done, state) that
 * was reached before is not tried again (Lowe 2017). Versions are only compared.
 */

#define OPERATIONS_MAX LINEARIZABILITY_REFERENCE_MAX

struct item {
    uint64_t value;
    uint64_t last; /* the highest version ever; that of the item, when it is present */
    bool present;
};

struct visit {
    struct item item;
    uint32_t done; /* a bit for each operation; 0: the entry is empty */
};

struct reference {
    const struct history_record *operations[OPERATIONS_MAX];
    unsigned count;
    uint32_t returned; /* those that must be in the order */
    bool incr_needs_item, may_vanish;
    uint64_t named[2 * OPERATIONS_MAX]; /* all versions that any record names */
    unsigned named_count;
    struct visit *visits;
    size_t visit_count, visit_capacity;
    bool no_memory;
};

static size_t visit_place(const struct reference *reference, const struct visit *visit)
{
    uint64_t hash = visit->done * UINT64_C(0x9e3779b97f4a7c15);

    hash = (hash ^ visit->item.last) * UINT64_C(0xff51afd7ed558ccd);
    hash = (hash ^ hash >> 29 ^ visit->item.value) * UINT64_C(0xc4ceb9fe1a85ec53);
    hash ^= hash >> 32 ^ visit->item.present;
    for (size_t at = hash;; at++) {
        struct visit *entry = &reference->visits[at & (reference->visit_capacity - 1)];
        if (!entry->done ||
            (entry->done == visit->done && entry->item.last == visit->item.last &&
             entry->item.value == visit->item.value && entry->item.present == visit->item.present))
            return at & (reference->visit_capacity - 1);
    }
}

static bool visits_grow(struct reference *reference)
{
    struct visit *old = reference->visits;
    size_t old_capacity = reference->visit_capacity;

    reference->visit_capacity = old_capacity ? 4 * old_capacity : 1024;
    reference->visits = calloc(reference->visit_capacity, sizeof *reference->visits);
    if (!reference->visits) {
        reference->visits = old;
        reference->visit_capacity = old_capacity;
        reference->no_memory = true;
        return false;
    }
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].done)
            reference->visits[visit_place(reference, &old[i])] = old[i];
    free(old);
    return true;
}

/* Whether this is the first visit. */
static bool visit_first(struct reference *reference, uint32_t done, const struct item *item)
{
    struct visit visit = {*item, done};

    if (2 * reference->visit_count >= reference->visit_capacity && !visits_grow(reference))
        return false;
    size_t place = visit_place(reference, &visit);
    if (reference->visits[place].done)
        return false;
    reference->visits[place] = visit;
    reference->visit_count++;
    return true;
}

/* What an operation needs to take effect. */
static bool effect_possible(const struct reference *reference, const struct history_record *record,
                            const struct item *item)
{
    switch (record->kind) {
    case HISTORY_CAS:
        return item->present && item->last == record->expected;
    case HISTORY_DELETE:
        return item->present && (!record->expected || item->last == record->expected);
    case HISTORY_ADD:
        return !item->present;
    case HISTORY_INCR:
        return item->present || !reference->incr_needs_item;
    default:
        return true;
    }
}

static void effect(const struct history_record *record, uint64_t version, struct item *item)
{
    if (record->kind == HISTORY_DELETE) {
        item->present = false;
        item->value = 0;
        return;
    }
    item->value = record->kind == HISTORY_INCR ? item->value + record->argument : record->argument;
    item->present = true;
    item->last = version;
}

/* Carries out an operation that returned; false: it would not have returned this. */
static bool replay(const struct reference *reference, const struct history_record *record,
                   struct item *item)
{
    bool found = item->present && (!record->version || record->version == item->last);

    switch (record->result) {
    case HISTORY_NOTFOUND:
        return !item->present && (record->kind != HISTORY_INCR || reference->incr_needs_item);
    case HISTORY_EXISTS:
        return found;
    case HISTORY_CONFLICT:
        return found && item->last != record->expected;
    default:
        break;
    }
    if (record->kind == HISTORY_GET)
        return found && item->value == record->value;
    if (!effect_possible(reference, record, item))
        return false;
    if (record->kind != HISTORY_DELETE && record->version <= item->last)
        return false;
    effect(record, record->version, item);
    return record->kind != HISTORY_INCR || item->value == record->value;
}

/* Whether an operation that is not done had returned before this one was called. */
static bool too_early(const struct reference *reference, unsigned index, uint32_t done)
{
    for (unsigned i = 0; i < reference->count; i++)
        if (reference->returned & ~done & 1u << i &&
            reference->operations[i]->response < reference->operations[index]->invoke)
            return true;
    return false;
}

static bool version_named(const struct reference *reference, uint64_t version)
{
    for (unsigned i = 0; i < reference->named_count; i++)
        if (reference->named[i] == version)
            return true;
    return false;
}

static bool go_on(struct reference *reference, uint32_t done, const struct item *item);

/* An unknown write took any of the versions that somebody names, or one that nobody does, and
 * then best the lowest. */
static bool try_unknown(struct reference *reference, unsigned index, uint32_t done,
                        const struct item *item)
{
    const struct history_record *record = reference->operations[index];
    uint64_t lowest = item->last + 1;
    struct item after = *item;

    if (!effect_possible(reference, record, item))
        return false;
    while (version_named(reference, lowest))
        lowest++;
    effect(record, lowest, &after);
    if (go_on(reference, done | 1u << index, &after))
        return true;
    for (unsigned i = 0; record->kind != HISTORY_DELETE && i < reference->named_count; i++) {
        after = *item;
        if (reference->named[i] <= item->last)
            continue;
        effect(record, reference->named[i], &after);
        if (go_on(reference, done | 1u << index, &after))
            return true;
    }
    return false;
}

static bool go_on(struct reference *reference, uint32_t done, const struct item *item)
{
    if ((done & reference->returned) == reference->returned)
        return true;
    if (done && !visit_first(reference, done, item))
        return false;
    if (reference->may_vanish && item->present) {
        const struct item vanished = {.last = item->last};
        if (go_on(reference, done, &vanished))
            return true;
    }
    for (unsigned i = 0; i < reference->count; i++) {
        struct item after = *item;
        if (done & 1u << i || too_early(reference, i, done))
            continue;
        if (!(reference->returned & 1u << i)) {
            if (try_unknown(reference, i, done, item))
                return true;
        } else if (replay(reference, reference->operations[i], &after) &&
                   go_on(reference, done | 1u << i, &after)) {
            return true;
        }
    }
    return false;
}

static void reference_add(struct reference *reference, const struct history_record *record)
{
    if (record_says_nothing(record))
        return;
    if (!record_unknown_write(record))
        reference->returned |= 1u << reference->count;
    reference->operations[reference->count++] = record;
    if (record->version)
        reference->named[reference->named_count++] = record->version;
    if (record->expected)
        reference->named[reference->named_count++] = record->expected;
}

enum linearizability_verdict
linearizability_check_reference(const struct history_record *records, size_t count,
                                const struct linearizability_options *options)
{
    struct proven_states proven = {.records = records, .count = (uint32_t)count};
    struct reference reference = {.incr_needs_item = options && options->incr_needs_item,
                                  .may_vanish = options && options->may_vanish};
    struct linearizability_report report;
    struct item absent = {0};

    if (count > OPERATIONS_MAX)
        return LINEARIZABILITY_MALFORMED;
    enum linearizability_verdict verdict = proven_validate(&proven, &report);
    proven_free(&proven);
    if (verdict != LINEARIZABILITY_HOLDS)
        return verdict;
    for (size_t i = 0; i < count; i++)
        reference_add(&reference, &records[i]);
    verdict = go_on(&reference, 0, &absent) ? LINEARIZABILITY_HOLDS : LINEARIZABILITY_VIOLATED;
    free(reference.visits);
    return reference.no_memory ? LINEARIZABILITY_NO_MEMORY : verdict;
}
