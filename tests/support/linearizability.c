#include "tests/support/linearizability.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/linearizability_proven.h"

const char *linearizability_verdict_text(enum linearizability_verdict verdict)
{
    static const char *const texts[] = {"linearizable", "NOT linearizable", "malformed",
                                        "undecided", "no memory"};

    return verdict <= LINEARIZABILITY_NO_MEMORY ? texts[verdict] : "?";
}

/* The lines of the culprits, below the sentence; again when their indices have changed. */
static void report_list(const struct history_record *records, struct linearizability_report *report)
{
    char *end = strchr(report->text, '\n');
    size_t length = end ? (size_t)(end - report->text) : strlen(report->text);

    for (unsigned i = 0; i < report->count; i++) {
        char line[300];
        history_record_format(&records[report->culprits[i]], report->culprits[i], line,
                              sizeof line);
        int n = snprintf(report->text + length, sizeof report->text - length, "\n  %s", line);
        length += (size_t)n;
        if (length >= sizeof report->text)
            break;
    }
}

void proven_report(const struct history_record *records, struct linearizability_report *report,
                   uint32_t first, uint32_t second, uint32_t third, const char *format, ...)
{
    const uint32_t culprits[] = {first, second, third};
    va_list arguments;

    *report = (struct linearizability_report){0};
    for (unsigned i = 0; i < 3; i++) {
        bool known = culprits[i] == PROVEN_NONE;
        for (unsigned j = 0; j < report->count; j++)
            known = known || report->culprits[j] == culprits[i];
        if (!known)
            report->culprits[report->count++] = culprits[i];
    }
    va_start(arguments, format);
    vsnprintf(report->text, sizeof report->text, format, arguments);
    va_end(arguments);
    if (report->count)
        report->key = records[report->culprits[0]].key;
    report_list(records, report);
}

enum linearizability_verdict
linearizability_check_key(const struct history_record *records, size_t count,
                          const struct linearizability_options *options,
                          struct linearizability_report *report)
{
    const struct linearizability_options defaults = {0};
    struct linearizability_report unwanted;
    struct proven_states proven;

    if (!report)
        report = &unwanted;
    *report = (struct linearizability_report){0};
    enum linearizability_verdict verdict = proven_build(&proven, records, count, report);
    if (verdict == LINEARIZABILITY_HOLDS)
        verdict = proven_search(&proven, options ? options : &defaults, report);
    proven_free(&proven);
    if (verdict == LINEARIZABILITY_NO_MEMORY)
        snprintf(report->text, sizeof report->text, "no memory for the check");
    return verdict;
}

enum linearizability_verdict linearizability_check(const struct history *history,
                                                   const struct linearizability_options *options,
                                                   struct linearizability_report *report)
{
    struct linearizability_report unwanted;

    if (!report)
        report = &unwanted;
    *report = (struct linearizability_report){0};
    for (size_t first = 0, end; first < history->length; first = end) {
        end = history_key_end(history, first);
        enum linearizability_verdict verdict =
            linearizability_check_key(history->records + first, end - first, options, report);
        if (verdict == LINEARIZABILITY_HOLDS)
            continue;
        report->key = history->records[first].key;
        for (unsigned i = 0; i < report->count; i++)
            report->culprits[i] += first;
        report_list(history->records, report);
        return verdict;
    }
    return LINEARIZABILITY_HOLDS;
}

void linearizability_report_print(const struct linearizability_report *report, FILE *file)
{
    fprintf(file, "key %u: %s\n", report->key, report->text);
}
