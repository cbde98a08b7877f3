#include "tests/chaos/attack_figures.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static const char *const names[HONEST_KINDS] = {"put", "get", "open"};

static double us(const struct honest_figures *figures, unsigned kind, double percent)
{
    return (double)histogram_percentile(&figures->times[kind], percent) / 1e3;
}

static double ratio(const struct attack_figures *figures, unsigned kind, double percent)
{
    return us(&figures->attacked, kind, percent) / us(&figures->at_rest, kind, percent);
}

void attack_figures_init(struct attack_figures *figures)
{
    *figures = (struct attack_figures){.kill_ms = -1, .stop_ms = -1};
    honest_figures_init(&figures->at_rest);
    honest_figures_init(&figures->attacked);
}

void attack_figures_print(const struct attack_figures *figures)
{
    const struct honest_figures *rest = &figures->at_rest, *attacked = &figures->attacked;

    printf("%-5s %31s  %31s  %13s\n", "", "at rest, us", "attacked, us", "ratio");
    printf("%-5s %9s %9s %11s  %9s %9s %11s  %6s %6s\n", "", "p50", "p99", "count", "p50", "p99",
           "count", "p50", "p99");
    for (unsigned kind = 0; kind < HONEST_KINDS; kind++)
        printf("%-5s %9.1f %9.1f %11" PRIu64 "  %9.1f %9.1f %11" PRIu64 "  %6.2f %6.2f\n",
               names[kind], us(rest, kind, 50), us(rest, kind, 99), rest->times[kind].count,
               us(attacked, kind, 50), us(attacked, kind, 99), attacked->times[kind].count,
               ratio(figures, kind, 50), ratio(figures, kind, 99));
    if (figures->kill_ms >= 0)
        printf("sessions that were killed were gone within %.1f ms\n", figures->kill_ms);
    printf("the server ended %.1f ms after SIGTERM\n", figures->stop_ms);
}

static void write_numbers(FILE *out, const char *name, const struct honest_figures *figures,
                          unsigned kind)
{
    fprintf(out,
            "\"%s\": {\"p50\": %.1f, \"p99\": %.1f, \"count\": %" PRIu64 ", \"failed\": %" PRIu64
            "}",
            name, us(figures, kind, 50), us(figures, kind, 99), figures->times[kind].count,
            figures->failed[kind]);
}

static void write_row(FILE *out, const struct attack_figures *figures, unsigned kind)
{
    const struct honest_figures *rest = &figures->at_rest, *attacked = &figures->attacked;

    fprintf(out,
            "        {\"cells\": [\"%s\", \"%s\", \"%.1f; %.1f\", \"%.2f\", \"%.1f; %.1f\", "
            "\"%.2f\", \"%" PRIu64 "\"],\n         ",
            kind ? "" : figures->name, names[kind], us(rest, kind, 50), us(attacked, kind, 50),
            ratio(figures, kind, 50), us(rest, kind, 99), us(attacked, kind, 99),
            ratio(figures, kind, 99), attacked->failed[kind]);
    write_numbers(out, "at_rest", rest, kind);
    fprintf(out, ", ");
    write_numbers(out, "attacked", attacked, kind);
    fprintf(out, "}%s\n", kind + 1 < HONEST_KINDS ? "," : "");
}

int attack_figures_write(const struct attack_figures *figures, const char *path)
{
    FILE *out = fopen(path, "w");

    if (!out)
        return -errno;
    fprintf(out, "{\n  \"schema\": \"okv-figures-1\",\n  \"tables\": [\n    {\n"
                 "      \"columns\": [\"attack\", \"operation\", \"p50\", \"ratio\", \"p99\", "
                 "\"ratio\", \"failed\"],\n      \"rows\": [\n");
    for (unsigned kind = 0; kind < HONEST_KINDS; kind++)
        write_row(out, figures, kind);
    fprintf(out,
            "      ]\n    }\n  ],\n"
            "  \"kill_ms\": %.1f, \"stop_ms\": %.1f\n}\n",
            figures->kill_ms, figures->stop_ms);
    return fclose(out) ? -errno : 0;
}
