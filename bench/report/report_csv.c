/* CSV: a line for each target, round and operation. */
#include <math.h>

#include "bench/report/report_figures.h"

/* As RFC 4180 says. */
void report_csv_text(const char *text, FILE *out)
{
    bool plain = true;

    for (const char *at = text; *at; at++)
        plain = plain && *at != ',' && *at != '"' && *at != '\n' && *at != '\r';
    if (!plain)
        putc('"', out);
    for (const char *at = text; *at; at++) {
        if (*at == '"')
            putc('"', out);
        putc(*at, out);
    }
    if (!plain)
        putc('"', out);
}

/* An unknown value is an empty field. */
static void write_number(double number, FILE *out)
{
    putc(',', out);
    if (isfinite(number))
        fprintf(out, "%.8g", number);
}

static void write_latency(const struct histogram *latency, FILE *out)
{
    static const double percents[] = {50, 90, 99, 99.9, 99.99, 100};

    fprintf(out, ",%llu", (unsigned long long)latency->count);
    write_number((double)latency->min / 1e3, out);
    write_number(histogram_mean(latency) / 1e3, out);
    for (unsigned i = 0; i < sizeof percents / sizeof *percents; i++)
        write_number((double)histogram_percentile(latency, percents[i]) / 1e3, out);
}

/* `round` is 0 for the load. */
static void write_head(const struct report_target *target, uint32_t round, const char *operation,
                       FILE *out)
{
    report_csv_text(target->target->name, out);
    if (round == 0)
        fputs(",load,", out);
    else
        fprintf(out, ",%u,", round);
    fputs(operation, out);
}

static void write_phase(const struct report_target *target, uint32_t round,
                        const struct phase *phase, FILE *out)
{
    for (int i = 0; i < OPERATION_COUNT; i++) {
        const struct histogram *latency = &phase->tally.latency[i];
        if (latency->count == 0)
            continue;
        write_head(target, round, operation_name((enum operation)i), out);
        write_number(phase->seconds, out);
        write_number(phase->seconds > 0 ? (double)latency->count / phase->seconds : NAN, out);
        write_latency(latency, out);
        write_number(report_reads_per_get(&phase->counters), out);
        write_number(report_wire_bytes(phase), out);
        write_number(report_cpu_us(phase, phase->client_cpu_ms), out);
        write_number(report_cpu_us(phase, phase->server_cpu_ms), out);
        write_number((double)phase->not_begun, out);
        putc('\n', out);
    }
}

static void write_floor(const struct report_target *target, uint32_t number,
                        const struct floor_round *round, FILE *out)
{
    struct floor_figures figures;

    floor_round_figures(round, &figures);
    for (int i = 0; i < FLOOR_KIND_COUNT; i++) {
        if (round->latency[i].count == 0)
            continue;
        write_head(target, number, floor_kind_name((enum floor_kind)i), out);
        write_number(round->seconds[i], out);
        write_number(figures.rate[i], out);
        write_latency(&round->latency[i], out);
        write_number(i == FLOOR_GET ? figures.reads_per_get : NAN, out);
        fputs(",,,,\n", out);
    }
}

int report_write_csv(const struct report *report, FILE *out)
{
    fputs("target,round,operation,seconds,operations_per_second,count,min_us,mean_us,p50_us,p90_us,"
          "p99_us,p99_9_us,p99_99_us,max_us,reads_per_get,wire_bytes_per_operation,"
          "client_cpu_us_per_operation,server_cpu_us_per_operation,not_begun\n",
          out);
    for (uint32_t i = 0; i < report->options->target_count; i++) {
        const struct report_target *target = &report->targets[i];
        if (target->loaded)
            write_phase(target, 0, &target->load, out);
        for (uint32_t round = 0; round < target->rounds; round++) {
            if (target->floor)
                write_floor(target, round + 1, &target->floor[round], out);
            else
                write_phase(target, round + 1, &target->run[round], out);
        }
    }
    return fflush(out) == 0 && !ferror(out) ? 0 : -1;
}
