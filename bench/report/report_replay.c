/* What a replay found: hits, beside those of exact policies. */
#include <math.h>
#include <string.h>

#include "bench/report/report_figures.h"
#include "bench/report/report_text.h"

#define NAME_WIDTH 24

/* A share of the requests in percent. */
static double percent(const struct report *report, uint64_t hits)
{
    return 100 * (double)hits / (double)report->options->trace->count;
}

static void print_exact(const struct report *report, const struct report_target *target, FILE *out)
{
    const struct exact_hits *exact = &target->exact;

    if (target->exact_items == 0) {
        fputs("  exact policies not known: give --replay-items, as the server does not count its "
              "items\n",
              out);
        return;
    }
    fprintf(out,
            "  with room for %u items LRU has %.2f %%, S3-FIFO %.2f %%; the best possible is "
            "%.2f %%\n",
            target->exact_items, percent(report, exact->lru), percent(report, exact->s3_fifo),
            percent(report, exact->belady));
}

void report_replay_print(const struct report *report, const struct report_target *target, FILE *out)
{
    const struct loop_tally *tally = &target->run[0].tally;
    const struct held *held = &target->run[0].held;

    fprintf(out, "  hit ratio     %.2f %%: %llu hits and %llu misses of %zu requests\n",
            percent(report, report_hits(tally)), (unsigned long long)report_hits(tally),
            (unsigned long long)tally->missing, report->options->trace->count);
    fprintf(out, "  puts          %llu, and %llu refused by a full server\n",
            (unsigned long long)report_puts(tally), (unsigned long long)tally->refused);
    if (held->samples > 0)
        fprintf(out, "  items         %.0f on average once it was full, %.0f at most\n",
                held_mean(held), held->most);
    print_exact(report, target, out);
    fprintf(out, "  values        %llu wrong; %llu operations failed\n",
            (unsigned long long)tally->wrong, (unsigned long long)tally->failed);
}

static void print_line(const struct report *report, const struct report_target *target, FILE *out)
{
    const struct exact_hits *exact = &target->exact;
    double hits[4] = {percent(report, report_hits(&target->run[0].tally)), NAN, NAN, NAN};

    if (target->exact_items > 0) {
        hits[1] = percent(report, exact->lru);
        hits[2] = percent(report, exact->s3_fifo);
        hits[3] = percent(report, exact->belady);
    }
    if (strlen(target->target->name) > NAME_WIDTH)
        fprintf(out, "%s\n%-*s", target->target->name, NAME_WIDTH, "");
    else
        fprintf(out, "%-*s", NAME_WIDTH, target->target->name);
    for (int i = 0; i < 4; i++) {
        if (isnan(hits[i]))
            fprintf(out, " %10s", "-");
        else
            fprintf(out, " %10.2f", hits[i]);
    }
    fprintf(out, " %10u\n", target->exact_items);
}

void report_replay_compare(const struct report *report, FILE *out)
{
    fputs("\nhit ratio in %, beside exact policies with room for as many items\n", out);
    fprintf(out, "%-*s %10s %10s %10s %10s %10s\n", NAME_WIDTH, "", "measured", "LRU", "S3-FIFO",
            "possible", "items");
    for (uint32_t i = 0; i < report->options->target_count; i++)
        if (report->targets[i].rounds > 0)
            print_line(report, &report->targets[i], out);
}
