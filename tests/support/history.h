/*
 * What clients did and saw, for linearizability.h. Each client thread appends to
 * a log of its own, without a lock; afterwards the logs become one history,
 * sorted by key and by the time of the call.
 *
 * All times are of one monotonic clock that all threads share (CLOCK_MONOTONIC),
 * read just before the call and just after its return. An operation precedes
 * another one only when it returned at a strictly earlier time than the other
 * was called; so a clock that is too coarse hides violations, but invents none.
 */
#ifndef OKV_TESTS_HISTORY_H
#define OKV_TESTS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum history_kind {
    HISTORY_GET,
    HISTORY_PUT,
    HISTORY_DELETE, /* with `expected` not 0: only if the item has that version */
    HISTORY_CAS,    /* put if the item has the version `expected` */
    HISTORY_ADD,    /* put if there is no item */
    HISTORY_INCR,
};

enum history_result {
    HISTORY_OK,
    HISTORY_NOTFOUND, /* there was no item: GET, DELETE, CAS, INCR */
    HISTORY_EXISTS,   /* ADD: there was an item */
    HISTORY_CONFLICT, /* CAS, DELETE: the item had another version */
    HISTORY_UNKNOWN,  /* happened at any time from the call on, or never */
    HISTORY_FAILED,   /* certainly without effect, and nothing was learnt */
};

/* A field that an operation does not have is 0. No version is 0. */
struct history_record {
    uint64_t invoke;   /* ns */
    uint64_t response; /* ns; of no meaning when the result is UNKNOWN */
    uint64_t argument; /* PUT, CAS, ADD: number of the value, written once only; INCR: the delta */
    uint64_t value;    /* GET: number of the value that was read; INCR: the result */
    uint64_t expected; /* CAS, DELETE */
    uint64_t version;  /* GET: of what was read. PUT, CAS, ADD, INCR: the new one. EXISTS,
                          CONFLICT: the one that was found, or 0 when the store does not say */
    uint32_t key;
    uint16_t thread; /* history_log_append fills this in */
    uint8_t kind;    /* enum history_kind */
    uint8_t result;  /* enum history_result */
};
_Static_assert(sizeof(struct history_record) == 56, "ten million records are 560 MB");

/* One thread's log; aligned, so that no two threads write to one cache line. */
struct history_log {
    _Alignas(64) struct history_record *records;
    size_t length;
    size_t capacity;
    uint16_t thread;
};

/* Room for `capacity` records, which are touched here so that appending them takes no page
 * faults. False: no memory. */
bool history_log_init(struct history_log *log, uint16_t thread, size_t capacity);
void history_log_fini(struct history_log *log);
/* Doubles the log when it is full. False: no memory, and the record is not in the log. */
bool history_log_append(struct history_log *log, const struct history_record *record);

struct history {
    struct history_record *records; /* by key, then by invoke */
    size_t length;
};

/* Moves the records out of the logs, which are empty afterwards and still want
 * history_log_fini. False: no memory, and the logs are as they were. */
bool history_merge(struct history *history, struct history_log *logs, size_t log_count);
void history_fini(struct history *history);
void history_sort(struct history_record *records, size_t length);
/* Index behind the last record of the key of record `first`. */
size_t history_key_end(const struct history *history, size_t first);

/* One line without its end, as "#5 thread 2: cas key 7 expected 3 value 9 -> ok version 4
 * [100, 120]". Returns what snprintf does. */
int history_record_format(const struct history_record *record, size_t index, char *out,
                          size_t size);

#endif
