#include "client/cli/doctor/report.h"

#include <stdarg.h>

#include "client/cli/item_json.h"

#define TEXT_SIZE 512

static const char *const level_names[] = {"ok", "note", "problem"};

void doctor_report_init(struct doctor_report *report)
{
    *report = (struct doctor_report){.findings = json_array()};
}

void doctor_report_fini(struct doctor_report *report)
{
    json_decref(report->findings);
}

void doctor_add(struct doctor_report *report, enum doctor_level level, const char *what,
                const char *fix, const char *format, ...)
{
    char text[TEXT_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    report->problems += level == DOCTOR_PROBLEM;
    json_t *finding = json_pack("{ss ss ss ss*}", "level", level_names[level], "what", what, "text",
                                text, "fix", fix);
    if (!finding || json_array_append_new(report->findings, finding)) {
        json_decref(report->findings);
        report->findings = NULL;
    }
}

static const char *field(const json_t *finding, const char *name)
{
    return json_string_value(json_object_get(finding, name));
}

static void print_text(const struct doctor_report *report, FILE *stream)
{
    const json_t *finding;
    size_t i;

    json_array_foreach(report->findings, i, finding)
    {
        const char *fix = field(finding, "fix");
        fprintf(stream, "%-8s %-14s %s\n", field(finding, "level"), field(finding, "what"),
                field(finding, "text"));
        if (fix)
            fprintf(stream, "%-8s %-14s -> %s\n", "", "", fix);
    }
    fprintf(stream, "%u problem%s\n", report->problems, report->problems == 1 ? "" : "s");
}

bool doctor_report_print(const struct doctor_report *report, bool as_json, FILE *stream)
{
    if (!report->findings)
        return false;
    if (!as_json) {
        print_text(report, stream);
        return true;
    }
    json_t *whole =
        json_pack("{si sO}", "problems", (int)report->problems, "findings", report->findings);
    bool is_made = whole && (cli_json_dump(whole, JSON_INDENT(2), stream) == 0 || ferror(stream));
    fputc('\n', stream);
    json_decref(whole);
    return is_made;
}
