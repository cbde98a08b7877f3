#include "bench/report/report_summary.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "bench/report/report_text.h"

/* Columns of the terminal: with names of 16 at most a line has 80. */
#define NAME_WIDTH_MAX 24
#define FIGURE_WIDTH 13
#define BAR_WIDTH 40

enum { COLUMN_RATE, COLUMN_GET_P50, COLUMN_GET_P99, COLUMN_PUT_P50, COLUMN_CPU, COLUMNS };

/* The figure of a column in a run and in a floor. */
static const struct column {
    const char *name;
    const char *of_floor; /* its name where it is another one */
    const char *unit;
    bool higher; /* is better */
    bool alike;  /* comparable between a run and a floor */
    uint32_t run;
    uint32_t floor;
} columns[COLUMNS] = {
    [COLUMN_RATE] = {"operations/s", "gets/s", "", true, false, REPORT_RATE,
                     REPORT_FLOOR(FLOOR_GET, REPORT_FLOOR_RATE)},
    [COLUMN_GET_P50] = {"get p50", NULL, ", us", false, true,
                        REPORT_LATENCY(OPERATION_GET, REPORT_P50),
                        REPORT_FLOOR(FLOOR_GET, REPORT_FLOOR_P50)},
    [COLUMN_GET_P99] = {"get p99", NULL, ", us", false, true,
                        REPORT_LATENCY(OPERATION_GET, REPORT_P99),
                        REPORT_FLOOR(FLOOR_GET, REPORT_FLOOR_P99)},
    [COLUMN_PUT_P50] = {"put p50", NULL, ", us", false, true,
                        REPORT_LATENCY(OPERATION_PUT, REPORT_P50),
                        REPORT_FLOOR(FLOOR_PUT, REPORT_FLOOR_P50)},
    [COLUMN_CPU] = {"server CPU", NULL, ", us", false, false, REPORT_SERVER_CPU,
                    REPORT_FLOOR_SERVER_CPU},
};

/* Of all targets. */
struct summary {
    uint32_t targets;
    bool floor;
    int name_width;
    const char *names[OPTIONS_TARGETS_MAX];
    double values[OPTIONS_TARGETS_MAX][COLUMNS]; /* medians; NAN: not known */
};

static double value_of(const struct summary *summary, const struct report_target *target,
                       const struct report_rounds *rounds, const struct column *column)
{
    struct report_spread spread;
    bool known = summary->floor == (target->floor != NULL) || column->alike;
    uint32_t figure = target->floor ? column->floor : column->run;

    return known && report_rounds_spread(rounds, figure, &spread) ? spread.median : NAN;
}

static void summary_init(struct summary *summary, const struct report *report,
                         const struct report_rounds *rounds)
{
    *summary =
        (struct summary){.targets = report->options->target_count, .floor = report->options->floor};
    for (uint32_t i = 0; i < summary->targets; i++) {
        int length = (int)strlen(report->options->targets[i].name);
        summary->names[i] = report->options->targets[i].name;
        if (length > summary->name_width)
            summary->name_width = length < NAME_WIDTH_MAX ? length : NAME_WIDTH_MAX;
        for (int column = 0; column < COLUMNS; column++)
            summary->values[i][column] =
                value_of(summary, &report->targets[i], &rounds[i], &columns[column]);
    }
    int least = (int)strlen("better when");
    if (summary->name_width < least)
        summary->name_width = least;
}

static const char *name_of(const struct summary *summary, const struct column *column)
{
    return summary->floor && column->of_floor ? column->of_floor : column->name;
}

static const char *better(const struct column *column)
{
    return column->higher ? "higher" : "lower";
}

/* A long name has a line of its own. */
static void print_name(const struct summary *summary, const char *name, FILE *out)
{
    if ((int)strlen(name) > summary->name_width)
        fprintf(out, "%s\n%-*s", name, summary->name_width, "");
    else
        fprintf(out, "%-*s", summary->name_width, name);
}

static void print_lines(const struct summary *summary, uint32_t rounds, FILE *out)
{
    char text[REPORT_NUMBER_TEXT];

    fprintf(out, "\n%s: %stimes in us, server CPU per %s\n",
            summary->targets > 1 ? "side by side" : "in short",
            rounds > 1 ? "medians of the rounds, " : "", summary->floor ? "get" : "operation");
    print_name(summary, "", out);
    for (int i = 0; i < COLUMNS; i++)
        fprintf(out, "%*s", FIGURE_WIDTH, name_of(summary, &columns[i]));
    putc('\n', out);
    print_name(summary, "better when", out);
    for (int i = 0; i < COLUMNS; i++)
        fprintf(out, "%*s", FIGURE_WIDTH, better(&columns[i]));
    putc('\n', out);
    for (uint32_t target = 0; target < summary->targets; target++) {
        print_name(summary, summary->names[target], out);
        for (int i = 0; i < COLUMNS; i++)
            fprintf(out, "%*s", FIGURE_WIDTH, report_number_text(summary->values[target][i], text));
        putc('\n', out);
    }
}

/* A bar for each target; nothing where fewer than two have the figure. */
static void print_bars(const struct summary *summary, int index, FILE *out)
{
    static const char marks[] = "########################################";
    const struct column *column = &columns[index];
    char text[REPORT_NUMBER_TEXT];
    uint32_t known = 0;
    double most = 0;

    _Static_assert(sizeof marks == BAR_WIDTH + 1, "a mark for each column");
    for (uint32_t target = 0; target < summary->targets; target++) {
        known += !isnan(summary->values[target][index]);
        most = fmax(most, summary->values[target][index]);
    }
    if (known < 2 || most <= 0)
        return;
    fprintf(out, "\n%s%s: %s is better\n", name_of(summary, column), column->unit, better(column));
    for (uint32_t target = 0; target < summary->targets; target++) {
        double value = summary->values[target][index];
        /* The least one can be seen, too. */
        int length = isnan(value) ? 0 : (int)fmax(1, round(BAR_WIDTH * value / most));
        print_name(summary, summary->names[target], out);
        fprintf(out, "  %.*s%s%s\n", length, marks, length > 0 ? " " : "",
                report_number_text(value, text));
    }
}

void report_summary_print(const struct report *report, const struct report_rounds *rounds,
                          FILE *out)
{
    struct summary summary;

    summary_init(&summary, report, rounds);
    print_lines(&summary, report->options->rounds, out);
    print_bars(&summary, COLUMN_RATE, out);
    print_bars(&summary, COLUMN_GET_P50, out);
}
