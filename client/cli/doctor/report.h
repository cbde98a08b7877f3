/* The report of okv doctor: a list of findings, each with a level and a fix. */
#ifndef OKV_CLIENT_CLI_DOCTOR_REPORT_H
#define OKV_CLIENT_CLI_DOCTOR_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum doctor_level {
    DOCTOR_OK,
    DOCTOR_NOTE,   /* nothing is broken, but it is good to know */
    DOCTOR_PROBLEM /* something exists and cannot be used */
};

struct doctor_report {
    json_t *findings; /* an array; NULL when there was no memory for one */
    unsigned problems;
};

void doctor_report_init(struct doctor_report *report);
void doctor_report_fini(struct doctor_report *report);

/* Adds a finding about `what`. `fix` is a command or a sentence; NULL: there is nothing to do. */
void doctor_add(struct doctor_report *report, enum doctor_level level, const char *what,
                const char *fix, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Writes a line for each finding, and its fix below it; or one JSON object. False: no memory. */
bool doctor_report_print(const struct doctor_report *report, bool as_json, FILE *stream);

#endif
