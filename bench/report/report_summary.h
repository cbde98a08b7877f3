/* The end of the report: a line for each target, and bars where there are several. */
#ifndef OKV_BENCH_REPORT_REPORT_SUMMARY_H
#define OKV_BENCH_REPORT_REPORT_SUMMARY_H

#include <stdio.h>

#include "bench/report/report_figures.h"

/* Prints a line for each target, with which of two figures is the better one, and bars of two of
 * them if several have it. rounds[i] are of report->targets[i]. */
void report_summary_print(const struct report *report, const struct report_rounds *rounds,
                          FILE *out);

#endif
