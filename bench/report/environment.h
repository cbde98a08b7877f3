/* Describes the machine of a measurement, for its report. */
#ifndef OKV_BENCH_REPORT_ENVIRONMENT_H
#define OKV_BENCH_REPORT_ENVIRONMENT_H

#include <stdbool.h>

struct environment {
    char date[32]; /* UTC, ISO 8601 */
    char kernel[192];
    char machine[80];
    char cpu[160]; /* model, or "unknown" */
    long cpus;
    char allowed_cpus[256]; /* that kv-bench may run on, as "0-3,8"; "": not known */
    bool emulated;          /* the processor is software: times mean nothing elsewhere */
    bool is_virtual;        /* under a hypervisor, which may preempt */
    double busy_cpus;       /* how many were busy before the run */
    const char *git;        /* of the sources, or "" */
    char command[1024];     /* cut when longer */
};

/* Takes 0.1 s, to measure how busy the host is. */
void environment_read(struct environment *environment, int argc, char **argv);

#endif
