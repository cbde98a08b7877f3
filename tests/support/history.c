#include "tests/support/history.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool history_log_init(struct history_log *log, uint16_t thread, size_t capacity)
{
    *log = (struct history_log){.thread = thread, .capacity = capacity ? capacity : 1};
    log->records = malloc(log->capacity * sizeof *log->records);
    if (!log->records)
        return false;
    memset(log->records, 0xff, log->capacity * sizeof *log->records);
    return true;
}

void history_log_fini(struct history_log *log)
{
    free(log->records);
    log->records = NULL;
    log->length = log->capacity = 0;
}

static bool log_grow(struct history_log *log)
{
    size_t capacity = log->capacity ? 2 * log->capacity : 1024;
    struct history_record *records = realloc(log->records, capacity * sizeof *records);

    if (!records)
        return false;
    log->records = records;
    log->capacity = capacity;
    return true;
}

bool history_log_append(struct history_log *log, const struct history_record *record)
{
    if (log->length == log->capacity && !log_grow(log))
        return false;
    log->records[log->length] = *record;
    log->records[log->length++].thread = log->thread;
    return true;
}

static int record_compare(const void *left, const void *right)
{
    const struct history_record *a = left, *b = right;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->invoke != b->invoke)
        return a->invoke < b->invoke ? -1 : 1;
    return (a->response > b->response) - (a->response < b->response);
}

void history_sort(struct history_record *records, size_t length)
{
    if (length)
        qsort(records, length, sizeof *records, record_compare);
}

bool history_merge(struct history *history, struct history_log *logs, size_t log_count)
{
    size_t length = 0, at = 0;

    *history = (struct history){0};
    for (size_t i = 0; i < log_count; i++)
        length += logs[i].length;
    history->records = malloc((length ? length : 1) * sizeof *history->records);
    if (!history->records)
        return false;
    for (size_t i = 0; i < log_count; i++) {
        if (logs[i].length)
            memcpy(history->records + at, logs[i].records, logs[i].length * sizeof *logs->records);
        at += logs[i].length;
        history_log_fini(&logs[i]); /* now, so that not everything is there twice while sorting */
    }
    history->length = length;
    history_sort(history->records, length);
    return true;
}

void history_fini(struct history *history)
{
    free(history->records);
    *history = (struct history){0};
}

size_t history_key_end(const struct history *history, size_t first)
{
    size_t end = first;

    while (end < history->length && history->records[end].key == history->records[first].key)
        end++;
    return end;
}

/* Appends to what is in `out`; returns the length that all of it would have. */
__attribute__((format(printf, 4, 5))) static size_t add(char *out, size_t size, size_t length,
                                                        const char *format, ...)
{
    va_list arguments;
    size_t at = length < size ? length : size;

    va_start(arguments, format);
    int n = vsnprintf(out + at, size - at, format, arguments);
    va_end(arguments);
    return length + (n > 0 ? (size_t)n : 0);
}

int history_record_format(const struct history_record *record, size_t index, char *out, size_t size)
{
    static const char *const kinds[] = {"get", "put", "delete", "cas", "add", "incr"};
    static const char *const results[] = {"ok",       "notfound", "exists",
                                          "conflict", "UNKNOWN",  "failed"};
    const char *kind = record->kind <= HISTORY_INCR ? kinds[record->kind] : "?";
    const char *result = record->result <= HISTORY_FAILED ? results[record->result] : "?";
    size_t n = add(out, size, 0, "#%zu thread %u: %s key %" PRIu32, index, record->thread, kind,
                   record->key);

    if (record->expected)
        n = add(out, size, n, " expected %" PRIu64, record->expected);
    if (record->kind == HISTORY_INCR)
        n = add(out, size, n, " by %" PRId64, (int64_t)record->argument);
    else if (record->kind != HISTORY_GET && record->kind != HISTORY_DELETE)
        n = add(out, size, n, " value %" PRIu64, record->argument);
    n = add(out, size, n, " -> %s", result);
    if (record->result == HISTORY_OK &&
        (record->kind == HISTORY_GET || record->kind == HISTORY_INCR))
        n = add(out, size, n, " value %" PRId64, (int64_t)record->value);
    if (record->version)
        n = add(out, size, n, " version %" PRIu64, record->version);
    n = add(out, size, n, " [%" PRIu64 ", ", record->invoke);
    if (record->result == HISTORY_UNKNOWN)
        return (int)add(out, size, n, "...)");
    return (int)add(out, size, n, "%" PRIu64 "]", record->response);
}
