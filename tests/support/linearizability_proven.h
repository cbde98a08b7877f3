/*
 * One key's history, prepared for the search: the states that the item certainly
 * had, in the order of their versions. Used by linearizability*.c only.
 */
#ifndef OKV_TESTS_LINEARIZABILITY_PROVEN_H
#define OKV_TESTS_LINEARIZABILITY_PROVEN_H

#include "tests/support/linearizability.h"

#define PROVEN_NONE UINT32_MAX

struct proven_state {
    uint64_t version;
    uint64_t value;           /* if has_value: number of the value, or the counter's number */
    uint64_t earliest;        /* the state is not entered before this time ... */
    uint64_t deadline;        /* ... and is entered no later than this */
    uint64_t seen_last;       /* the last call of what found this state */
    uint32_t writer;          /* record, or PROVEN_NONE: some unknown write */
    uint32_t earliest_cause;  /* record */
    uint32_t deadline_cause;  /* record */
    uint32_t seen_last_cause; /* record, or PROVEN_NONE */
    bool has_value;
};

/* A version that a record names, and the record. */
struct named_version {
    uint64_t version;
    uint32_t record;
};

struct proven_states {
    const struct history_record *records;
    uint32_t count; /* of records */
    bool counter;   /* the values are numbers */
    struct proven_state *slots;
    uint32_t slot_count;
    uint32_t *slot_of; /* of a record: the slot it wrote; PROVEN_NONE: none, or not known */
    /* Versions that are expected by what failed or is unknown, and are not on the proven. */
    uint64_t *maybe;
    size_t maybe_count;
    /* Unknown CAS and conditional DELETE that are not on the proven, by expected version. */
    struct named_version *conditional;
    size_t conditional_count;
    /* Writes by the number of their value; a register's only. */
    struct named_version *values;
    size_t value_count;
};

/* Anything but HOLDS: `report` says why. */
enum linearizability_verdict proven_build(struct proven_states *proven,
                                          const struct history_record *records, size_t count,
                                          struct linearizability_report *report);
void proven_free(struct proven_states *proven);

/* Whether the record can change the item and says nothing of whether it did. */
static inline bool record_unknown_write(const struct history_record *record)
{
    return record->result == HISTORY_UNKNOWN && record->kind != HISTORY_GET;
}

/* Whether the record returned a new version. */
static inline bool record_known_write(const struct history_record *record)
{
    return record->result == HISTORY_OK && record->kind != HISTORY_GET &&
           record->kind != HISTORY_DELETE;
}

static inline bool record_says_nothing(const struct history_record *record)
{
    return record->result == HISTORY_FAILED ||
           (record->result == HISTORY_UNKNOWN && record->kind == HISTORY_GET);
}

/* The number of the value (or the counter's number) that a write that returned leaves. */
static inline uint64_t record_written(const struct history_record *record)
{
    return record->kind == HISTORY_INCR ? record->value : record->argument;
}

/* Checks each record for itself and that a register's values are unique. The count is too
 * large or a record is none: MALFORMED. Leaves `values` to be freed. */
enum linearizability_verdict proven_validate(struct proven_states *proven,
                                             struct linearizability_report *report);

/* Fills the report with a sentence and the culprits; PROVEN_NONE as a culprit is left out. */
__attribute__((format(printf, 6, 7))) void proven_report(const struct history_record *records,
                                                         struct linearizability_report *report,
                                                         uint32_t first, uint32_t second,
                                                         uint32_t third, const char *format, ...);

/* linearizability_search.c: the verdict on proven states without contradictions. */
enum linearizability_verdict proven_search(const struct proven_states *proven,
                                           const struct linearizability_options *options,
                                           struct linearizability_report *report);

#endif
