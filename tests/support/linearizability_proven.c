#include "tests/support/linearizability_proven.h"

#include <inttypes.h>
#include <stdlib.h>

static int name_compare(const void *left, const void *right)
{
    const struct named_version *a = left, *b = right;

    if (a->version != b->version)
        return a->version < b->version ? -1 : 1;
    return (a->record > b->record) - (a->record < b->record);
}

static int version_compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

/* ---- each record for itself ---- */

/* Results that an operation may have, one bit for each enum history_result. */
static unsigned results_of(const struct history_record *record)
{
    const unsigned always = 1u << HISTORY_OK | 1u << HISTORY_UNKNOWN | 1u << HISTORY_FAILED;

    switch (record->kind) {
    case HISTORY_PUT:
        return always;
    case HISTORY_ADD:
        return always | 1u << HISTORY_EXISTS;
    case HISTORY_CAS:
        return always | 1u << HISTORY_NOTFOUND | 1u << HISTORY_CONFLICT;
    case HISTORY_DELETE:
        return always | 1u << HISTORY_NOTFOUND | (record->expected ? 1u << HISTORY_CONFLICT : 0);
    case HISTORY_GET:
    case HISTORY_INCR:
        return always | 1u << HISTORY_NOTFOUND;
    default:
        return 0;
    }
}

/* NULL: none. */
static const char *record_defect(const struct history_record *record)
{
    if (record->result > HISTORY_FAILED || !(results_of(record) & 1u << record->result))
        return "the operation has no such result";
    if (record->response < record->invoke && record->result != HISTORY_UNKNOWN)
        return "the operation returned before it was called";
    if (record->version >> 63 || record->expected >> 63)
        return "a version of 2^63 or more";
    if (record->expected && record->kind != HISTORY_CAS && record->kind != HISTORY_DELETE)
        return "an operation that expects no version has one";
    if (record->kind == HISTORY_CAS && !record->expected)
        return "a CAS without an expected version";
    if (record->result == HISTORY_OK && record->kind != HISTORY_DELETE && !record->version)
        return "a success without a version";
    return NULL;
}

/* Sorts a register's writes by value; two of one value tell nothing apart. */
static enum linearizability_verdict index_values(struct proven_states *proven,
                                                 struct linearizability_report *report)
{
    proven->values = malloc((proven->count + 1) * sizeof *proven->values);
    if (!proven->values)
        return LINEARIZABILITY_NO_MEMORY;
    for (uint32_t i = 0; i < proven->count; i++)
        if (proven->records[i].kind != HISTORY_GET && proven->records[i].kind != HISTORY_DELETE)
            proven->values[proven->value_count++] =
                (struct named_version){proven->records[i].argument, i};
    qsort(proven->values, proven->value_count, sizeof *proven->values, name_compare);
    for (size_t i = 1; i < proven->value_count; i++) {
        const struct named_version *pair = &proven->values[i - 1];
        if (pair[0].version != pair[1].version)
            continue;
        proven_report(proven->records, report, pair[0].record, pair[1].record, PROVEN_NONE,
                      "no history: one value is written twice");
        return LINEARIZABILITY_MALFORMED;
    }
    return LINEARIZABILITY_HOLDS;
}

enum linearizability_verdict proven_validate(struct proven_states *proven,
                                             struct linearizability_report *report)
{
    for (uint32_t i = 0; i < proven->count; i++) {
        const char *defect = record_defect(&proven->records[i]);
        if (!defect && proven->records[i].key != proven->records[0].key)
            defect = "records of several keys";
        if (!defect && i > 0 && proven->records[i].invoke < proven->records[i - 1].invoke)
            defect = "the records are not sorted";
        if (defect) {
            proven_report(proven->records, report, i, PROVEN_NONE, PROVEN_NONE, "no history: %s",
                          defect);
            return LINEARIZABILITY_MALFORMED;
        }
        proven->counter = proven->counter || proven->records[i].kind == HISTORY_INCR;
    }
    return proven->counter ? LINEARIZABILITY_HOLDS : index_values(proven, report);
}

/* ---- versions ---- */

/* The version that a record proves to have existed before it, or 0. */
static uint64_t version_found(const struct history_record *record)
{
    switch (record->result) {
    case HISTORY_OK:
        return record->kind == HISTORY_GET ? record->version : record->expected;
    case HISTORY_EXISTS:
    case HISTORY_CONFLICT:
        return record->version;
    default:
        return 0;
    }
}

/* The slot of a version, or PROVEN_NONE. */
static uint32_t slot_find(const struct proven_states *proven, uint64_t version)
{
    uint32_t low = 0, high = proven->slot_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (proven->slots[middle].version < version)
            low = middle + 1;
        else
            high = middle;
    }
    return low < proven->slot_count && proven->slots[low].version == version ? low : PROVEN_NONE;
}

/* The write of a value, or PROVEN_NONE. */
static uint32_t value_find(const struct proven_states *proven, uint64_t value)
{
    size_t low = 0, high = proven->value_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (proven->values[middle].version < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < proven->value_count && proven->values[low].version == value
               ? proven->values[low].record
               : PROVEN_NONE;
}

/* Takes over what a record says of the state; false when that contradicts what others say. */
static bool slot_note(struct proven_states *proven, uint32_t slot_index, uint32_t index,
                      struct linearizability_report *report)
{
    struct proven_state *slot = &proven->slots[slot_index];
    const struct history_record *record = &proven->records[index];
    bool writes = record_known_write(record) && record->version == slot->version;

    if (record->response < slot->deadline) {
        slot->deadline = record->response;
        slot->deadline_cause = index;
    }
    if (writes) {
        if (slot->writer != PROVEN_NONE) {
            proven_report(proven->records, report, index, slot->writer, PROVEN_NONE,
                          "two writes returned the version %" PRIu64, slot->version);
            return false;
        }
        slot->writer = index;
        proven->slot_of[index] = slot_index;
    } else if (slot->seen_last_cause == PROVEN_NONE || record->invoke > slot->seen_last) {
        slot->seen_last = record->invoke;
        slot->seen_last_cause = index;
    }
    if (!writes && !(record->kind == HISTORY_GET && record->result == HISTORY_OK))
        return true;
    uint64_t value = writes ? record_written(record) : record->value;
    if (slot->has_value && slot->value != value) {
        proven_report(proven->records, report, index, slot->writer, slot->deadline_cause,
                      "version %" PRIu64 " has two values", slot->version);
        return false;
    }
    slot->value = value;
    slot->has_value = true;
    return true;
}

/* Groups the names, which are sorted, into slots. */
static bool build_slots(struct proven_states *proven, const struct named_version *names,
                        size_t name_count, struct linearizability_report *report)
{
    for (size_t i = 0; i < name_count; i++) {
        if (i == 0 || names[i].version != names[i - 1].version)
            proven->slots[proven->slot_count++] = (struct proven_state){
                .version = names[i].version,
                .deadline = UINT64_MAX,
                .writer = PROVEN_NONE,
                .earliest_cause = PROVEN_NONE,
                .deadline_cause = PROVEN_NONE,
                .seen_last_cause = PROVEN_NONE,
            };
        if (!slot_note(proven, proven->slot_count - 1, names[i].record, report))
            return false;
    }
    return true;
}

static enum linearizability_verdict collect_slots(struct proven_states *proven,
                                                  struct linearizability_report *report)
{
    struct named_version *names = malloc((2 * (size_t)proven->count + 1) * sizeof *names);
    size_t n = 0, distinct = 0;
    enum linearizability_verdict verdict = LINEARIZABILITY_NO_MEMORY;

    if (!names)
        return verdict;
    for (uint32_t i = 0; i < proven->count; i++) {
        const struct history_record *record = &proven->records[i];
        uint64_t found = version_found(record);
        if (record_known_write(record))
            names[n++] = (struct named_version){record->version, i};
        /* A CAS that returned what it expected is seen through when the proven states are walked.
         */
        if (found && !(record_known_write(record) && found == record->version))
            names[n++] = (struct named_version){found, i};
    }
    qsort(names, n, sizeof *names, name_compare);
    for (size_t i = 0; i < n; i++)
        distinct += i == 0 || names[i].version != names[i - 1].version;
    proven->slots = malloc((distinct + 1) * sizeof *proven->slots);
    if (proven->slots)
        verdict = build_slots(proven, names, n, report) ? LINEARIZABILITY_HOLDS
                                                        : LINEARIZABILITY_VIOLATED;
    free(names);
    return verdict;
}

/* ---- whose value is it ---- */

/* A register's state that no returned write accounts for: its value names the write. */
static bool tie_slot(struct proven_states *proven, uint32_t slot_index,
                     struct linearizability_report *report)
{
    struct proven_state *slot = &proven->slots[slot_index];
    uint32_t reader = slot->seen_last_cause, writer = value_find(proven, slot->value);
    const char *problem = NULL;

    if (writer == PROVEN_NONE)
        problem = "a value was read that nobody wrote";
    else if (proven->records[writer].result == HISTORY_OK)
        problem = "a value was read with another version than its write returned";
    else if (proven->records[writer].result != HISTORY_UNKNOWN)
        problem = "a value was read whose write had no effect";
    else if (proven->slot_of[writer] != PROVEN_NONE)
        problem = "one write was seen with two versions";
    if (problem) {
        proven_report(proven->records, report, reader, writer, PROVEN_NONE, "%s", problem);
        return false;
    }
    slot->writer = writer;
    proven->slot_of[writer] = slot_index;
    return true;
}

static bool tie_values(struct proven_states *proven, struct linearizability_report *report)
{
    for (uint32_t i = 0; i < proven->slot_count; i++)
        if (!proven->counter && proven->slots[i].has_value &&
            proven->slots[i].writer == PROVEN_NONE && !tie_slot(proven, i, report))
            return false;
    return true;
}

/* A CAS that took effect follows directly upon what it expected. */
static bool check_expected(const struct proven_states *proven,
                           struct linearizability_report *report)
{
    for (uint32_t i = 0; i < proven->slot_count; i++) {
        uint32_t writer = proven->slots[i].writer;
        const struct history_record *record = &proven->records[writer == PROVEN_NONE ? 0 : writer];
        if (writer == PROVEN_NONE || record->kind != HISTORY_CAS || record->result != HISTORY_OK ||
            (i > 0 && proven->slots[i - 1].version == record->expected))
            continue;
        uint32_t expected = slot_find(proven, record->expected);
        proven_report(proven->records, report, writer,
                      i > 0 ? proven->slots[i - 1].writer : PROVEN_NONE,
                      expected == PROVEN_NONE ? PROVEN_NONE : proven->slots[expected].writer,
                      "a CAS took effect, but version %" PRIu64
                      " that it expected is not the one before its own",
                      record->expected);
        return false;
    }
    return true;
}

/* ---- time ---- */

static void slot_not_before(struct proven_state *slot, uint64_t time, uint32_t cause)
{
    if (cause != PROVEN_NONE && (slot->earliest_cause == PROVEN_NONE || time > slot->earliest)) {
        slot->earliest = time;
        slot->earliest_cause = cause;
    }
}

static bool check_times(struct proven_states *proven, struct linearizability_report *report)
{
    for (uint32_t i = 0; i < proven->slot_count; i++) {
        struct proven_state *slot = &proven->slots[i];
        if (slot->writer != PROVEN_NONE)
            slot_not_before(slot, proven->records[slot->writer].invoke, slot->writer);
        if (i == 0)
            continue;
        slot_not_before(slot, slot[-1].earliest, slot[-1].earliest_cause);
        slot_not_before(slot, slot[-1].seen_last, slot[-1].seen_last_cause);
    }
    for (uint32_t i = proven->slot_count; i-- > 0;) {
        struct proven_state *slot = &proven->slots[i];
        if (i + 1 < proven->slot_count && slot[1].deadline < slot->deadline) {
            slot->deadline = slot[1].deadline;
            slot->deadline_cause = slot[1].deadline_cause;
        }
        if (slot->earliest <= slot->deadline)
            continue;
        proven_report(proven->records, report, slot->earliest_cause, slot->deadline_cause,
                      slot->writer,
                      "against the order of versions: the second had returned before the first was "
                      "called, so that version %" PRIu64 " was there already and yet to come",
                      slot->version);
        return false;
    }
    return true;
}

/* ---- what is not proven ---- */

static enum linearizability_verdict collect_rest(struct proven_states *proven)
{
    proven->maybe = malloc((proven->count + 1) * sizeof *proven->maybe);
    proven->conditional = malloc((proven->count + 1) * sizeof *proven->conditional);
    if (!proven->maybe || !proven->conditional)
        return LINEARIZABILITY_NO_MEMORY;
    for (uint32_t i = 0; i < proven->count; i++) {
        const struct history_record *record = &proven->records[i];
        bool unknown = record_unknown_write(record);
        if (!record->expected || (!unknown && record->result != HISTORY_CONFLICT))
            continue;
        if (slot_find(proven, record->expected) == PROVEN_NONE)
            proven->maybe[proven->maybe_count++] = record->expected;
        if (unknown && proven->slot_of[i] == PROVEN_NONE)
            proven->conditional[proven->conditional_count++] =
                (struct named_version){record->expected, i};
    }
    qsort(proven->maybe, proven->maybe_count, sizeof *proven->maybe, version_compare);
    qsort(proven->conditional, proven->conditional_count, sizeof *proven->conditional,
          name_compare);
    return LINEARIZABILITY_HOLDS;
}

enum linearizability_verdict proven_build(struct proven_states *proven,
                                          const struct history_record *records, size_t count,
                                          struct linearizability_report *report)
{
    *proven = (struct proven_states){.records = records, .count = (uint32_t)count};
    if (count >= PROVEN_NONE / 2)
        return LINEARIZABILITY_UNDECIDED;
    enum linearizability_verdict verdict = proven_validate(proven, report);
    if (verdict != LINEARIZABILITY_HOLDS)
        return verdict;
    proven->slot_of = malloc((count + 1) * sizeof *proven->slot_of);
    if (!proven->slot_of)
        return LINEARIZABILITY_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        proven->slot_of[i] = PROVEN_NONE;
    verdict = collect_slots(proven, report);
    if (verdict != LINEARIZABILITY_HOLDS)
        return verdict;
    if (!tie_values(proven, report) || !check_times(proven, report) ||
        !check_expected(proven, report))
        return LINEARIZABILITY_VIOLATED;
    return collect_rest(proven);
}

void proven_free(struct proven_states *proven)
{
    free(proven->slots);
    free(proven->slot_of);
    free(proven->maybe);
    free(proven->conditional);
    free(proven->values);
    *proven = (struct proven_states){0};
}
