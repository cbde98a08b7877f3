#include "tests/support/linearizability_spine.h"

#include <inttypes.h>
#include <stdlib.h>

static int name_compare(const void *left, const void *right)
{
    const struct spine_name *a = left, *b = right;

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
static enum linearizability_verdict index_values(struct spine *spine,
                                                 struct linearizability_report *report)
{
    spine->values = malloc((spine->count + 1) * sizeof *spine->values);
    if (!spine->values)
        return LINEARIZABILITY_NO_MEMORY;
    for (uint32_t i = 0; i < spine->count; i++)
        if (spine->records[i].kind != HISTORY_GET && spine->records[i].kind != HISTORY_DELETE)
            spine->values[spine->value_count++] =
                (struct spine_name){spine->records[i].argument, i};
    qsort(spine->values, spine->value_count, sizeof *spine->values, name_compare);
    for (size_t i = 1; i < spine->value_count; i++) {
        const struct spine_name *pair = &spine->values[i - 1];
        if (pair[0].version != pair[1].version)
            continue;
        spine_report(spine->records, report, pair[0].record, pair[1].record, SPINE_NONE,
                     "no history: one value is written twice");
        return LINEARIZABILITY_MALFORMED;
    }
    return LINEARIZABILITY_HOLDS;
}

enum linearizability_verdict spine_validate(struct spine *spine,
                                            struct linearizability_report *report)
{
    for (uint32_t i = 0; i < spine->count; i++) {
        const char *defect = record_defect(&spine->records[i]);
        if (!defect && spine->records[i].key != spine->records[0].key)
            defect = "records of several keys";
        if (!defect && i > 0 && spine->records[i].invoke < spine->records[i - 1].invoke)
            defect = "the records are not sorted";
        if (defect) {
            spine_report(spine->records, report, i, SPINE_NONE, SPINE_NONE, "no history: %s",
                         defect);
            return LINEARIZABILITY_MALFORMED;
        }
        spine->counter = spine->counter || spine->records[i].kind == HISTORY_INCR;
    }
    return spine->counter ? LINEARIZABILITY_HOLDS : index_values(spine, report);
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

/* The slot of a version, or SPINE_NONE. */
static uint32_t slot_find(const struct spine *spine, uint64_t version)
{
    uint32_t low = 0, high = spine->slot_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (spine->slots[middle].version < version)
            low = middle + 1;
        else
            high = middle;
    }
    return low < spine->slot_count && spine->slots[low].version == version ? low : SPINE_NONE;
}

/* The write of a value, or SPINE_NONE. */
static uint32_t value_find(const struct spine *spine, uint64_t value)
{
    size_t low = 0, high = spine->value_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spine->values[middle].version < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < spine->value_count && spine->values[low].version == value
               ? spine->values[low].record
               : SPINE_NONE;
}

/* Takes over what a record says of the state; false when that contradicts what others say. */
static bool slot_note(struct spine *spine, uint32_t slot_index, uint32_t index,
                      struct linearizability_report *report)
{
    struct spine_slot *slot = &spine->slots[slot_index];
    const struct history_record *record = &spine->records[index];
    bool writes = record_known_write(record) && record->version == slot->version;

    if (record->response < slot->deadline) {
        slot->deadline = record->response;
        slot->deadline_cause = index;
    }
    if (writes) {
        if (slot->writer != SPINE_NONE) {
            spine_report(spine->records, report, index, slot->writer, SPINE_NONE,
                         "two writes returned the version %" PRIu64, slot->version);
            return false;
        }
        slot->writer = index;
        spine->slot_of[index] = slot_index;
    } else if (slot->seen_last_cause == SPINE_NONE || record->invoke > slot->seen_last) {
        slot->seen_last = record->invoke;
        slot->seen_last_cause = index;
    }
    if (!writes && !(record->kind == HISTORY_GET && record->result == HISTORY_OK))
        return true;
    uint64_t value = writes ? record_written(record) : record->value;
    if (slot->has_value && slot->value != value) {
        spine_report(spine->records, report, index, slot->writer, slot->deadline_cause,
                     "version %" PRIu64 " has two values", slot->version);
        return false;
    }
    slot->value = value;
    slot->has_value = true;
    return true;
}

/* Groups the names, which are sorted, into slots. */
static bool build_slots(struct spine *spine, const struct spine_name *names, size_t name_count,
                        struct linearizability_report *report)
{
    for (size_t i = 0; i < name_count; i++) {
        if (i == 0 || names[i].version != names[i - 1].version)
            spine->slots[spine->slot_count++] = (struct spine_slot){
                .version = names[i].version,
                .deadline = UINT64_MAX,
                .writer = SPINE_NONE,
                .earliest_cause = SPINE_NONE,
                .deadline_cause = SPINE_NONE,
                .seen_last_cause = SPINE_NONE,
            };
        if (!slot_note(spine, spine->slot_count - 1, names[i].record, report))
            return false;
    }
    return true;
}

static enum linearizability_verdict collect_slots(struct spine *spine,
                                                  struct linearizability_report *report)
{
    struct spine_name *names = malloc((2 * (size_t)spine->count + 1) * sizeof *names);
    size_t n = 0, distinct = 0;
    enum linearizability_verdict verdict = LINEARIZABILITY_NO_MEMORY;

    if (!names)
        return verdict;
    for (uint32_t i = 0; i < spine->count; i++) {
        const struct history_record *record = &spine->records[i];
        uint64_t found = version_found(record);
        if (record_known_write(record))
            names[n++] = (struct spine_name){record->version, i};
        /* A CAS that returned what it expected is seen through when the spine is walked. */
        if (found && !(record_known_write(record) && found == record->version))
            names[n++] = (struct spine_name){found, i};
    }
    qsort(names, n, sizeof *names, name_compare);
    for (size_t i = 0; i < n; i++)
        distinct += i == 0 || names[i].version != names[i - 1].version;
    spine->slots = malloc((distinct + 1) * sizeof *spine->slots);
    if (spine->slots)
        verdict =
            build_slots(spine, names, n, report) ? LINEARIZABILITY_HOLDS : LINEARIZABILITY_VIOLATED;
    free(names);
    return verdict;
}

/* ---- whose value is it ---- */

/* A register's state that no returned write accounts for: its value names the write. */
static bool tie_slot(struct spine *spine, uint32_t slot_index,
                     struct linearizability_report *report)
{
    struct spine_slot *slot = &spine->slots[slot_index];
    uint32_t reader = slot->seen_last_cause, writer = value_find(spine, slot->value);
    const char *problem = NULL;

    if (writer == SPINE_NONE)
        problem = "a value was read that nobody wrote";
    else if (spine->records[writer].result == HISTORY_OK)
        problem = "a value was read with another version than its write returned";
    else if (spine->records[writer].result != HISTORY_UNKNOWN)
        problem = "a value was read whose write had no effect";
    else if (spine->slot_of[writer] != SPINE_NONE)
        problem = "one write was seen with two versions";
    if (problem) {
        spine_report(spine->records, report, reader, writer, SPINE_NONE, "%s", problem);
        return false;
    }
    slot->writer = writer;
    spine->slot_of[writer] = slot_index;
    return true;
}

static bool tie_values(struct spine *spine, struct linearizability_report *report)
{
    for (uint32_t i = 0; i < spine->slot_count; i++)
        if (!spine->counter && spine->slots[i].has_value && spine->slots[i].writer == SPINE_NONE &&
            !tie_slot(spine, i, report))
            return false;
    return true;
}

/* A CAS that took effect follows directly upon what it expected. */
static bool check_expected(const struct spine *spine, struct linearizability_report *report)
{
    for (uint32_t i = 0; i < spine->slot_count; i++) {
        uint32_t writer = spine->slots[i].writer;
        const struct history_record *record = &spine->records[writer == SPINE_NONE ? 0 : writer];
        if (writer == SPINE_NONE || record->kind != HISTORY_CAS || record->result != HISTORY_OK ||
            (i > 0 && spine->slots[i - 1].version == record->expected))
            continue;
        uint32_t expected = slot_find(spine, record->expected);
        spine_report(spine->records, report, writer,
                     i > 0 ? spine->slots[i - 1].writer : SPINE_NONE,
                     expected == SPINE_NONE ? SPINE_NONE : spine->slots[expected].writer,
                     "a CAS took effect, but version %" PRIu64
                     " that it expected is not the one before its own",
                     record->expected);
        return false;
    }
    return true;
}

/* ---- time ---- */

static void slot_not_before(struct spine_slot *slot, uint64_t time, uint32_t cause)
{
    if (cause != SPINE_NONE && (slot->earliest_cause == SPINE_NONE || time > slot->earliest)) {
        slot->earliest = time;
        slot->earliest_cause = cause;
    }
}

static bool check_times(struct spine *spine, struct linearizability_report *report)
{
    for (uint32_t i = 0; i < spine->slot_count; i++) {
        struct spine_slot *slot = &spine->slots[i];
        if (slot->writer != SPINE_NONE)
            slot_not_before(slot, spine->records[slot->writer].invoke, slot->writer);
        if (i == 0)
            continue;
        slot_not_before(slot, slot[-1].earliest, slot[-1].earliest_cause);
        slot_not_before(slot, slot[-1].seen_last, slot[-1].seen_last_cause);
    }
    for (uint32_t i = spine->slot_count; i-- > 0;) {
        struct spine_slot *slot = &spine->slots[i];
        if (i + 1 < spine->slot_count && slot[1].deadline < slot->deadline) {
            slot->deadline = slot[1].deadline;
            slot->deadline_cause = slot[1].deadline_cause;
        }
        if (slot->earliest <= slot->deadline)
            continue;
        spine_report(spine->records, report, slot->earliest_cause, slot->deadline_cause,
                     slot->writer,
                     "against the order of versions: the second had returned before the first was "
                     "called, so that version %" PRIu64 " was there already and yet to come",
                     slot->version);
        return false;
    }
    return true;
}

/* ---- what is not on the spine ---- */

static enum linearizability_verdict collect_rest(struct spine *spine)
{
    spine->maybe = malloc((spine->count + 1) * sizeof *spine->maybe);
    spine->conditional = malloc((spine->count + 1) * sizeof *spine->conditional);
    if (!spine->maybe || !spine->conditional)
        return LINEARIZABILITY_NO_MEMORY;
    for (uint32_t i = 0; i < spine->count; i++) {
        const struct history_record *record = &spine->records[i];
        bool unknown = record_unknown_write(record);
        if (!record->expected || (!unknown && record->result != HISTORY_CONFLICT))
            continue;
        if (slot_find(spine, record->expected) == SPINE_NONE)
            spine->maybe[spine->maybe_count++] = record->expected;
        if (unknown && spine->slot_of[i] == SPINE_NONE)
            spine->conditional[spine->conditional_count++] =
                (struct spine_name){record->expected, i};
    }
    qsort(spine->maybe, spine->maybe_count, sizeof *spine->maybe, version_compare);
    qsort(spine->conditional, spine->conditional_count, sizeof *spine->conditional, name_compare);
    return LINEARIZABILITY_HOLDS;
}

enum linearizability_verdict spine_build(struct spine *spine, const struct history_record *records,
                                         size_t count, struct linearizability_report *report)
{
    *spine = (struct spine){.records = records, .count = (uint32_t)count};
    if (count >= SPINE_NONE / 2)
        return LINEARIZABILITY_UNDECIDED;
    enum linearizability_verdict verdict = spine_validate(spine, report);
    if (verdict != LINEARIZABILITY_HOLDS)
        return verdict;
    spine->slot_of = malloc((count + 1) * sizeof *spine->slot_of);
    if (!spine->slot_of)
        return LINEARIZABILITY_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        spine->slot_of[i] = SPINE_NONE;
    verdict = collect_slots(spine, report);
    if (verdict != LINEARIZABILITY_HOLDS)
        return verdict;
    if (!tie_values(spine, report) || !check_times(spine, report) || !check_expected(spine, report))
        return LINEARIZABILITY_VIOLATED;
    return collect_rest(spine);
}

void spine_free(struct spine *spine)
{
    free(spine->slots);
    free(spine->slot_of);
    free(spine->maybe);
    free(spine->conditional);
    free(spine->values);
    *spine = (struct spine){0};
}
