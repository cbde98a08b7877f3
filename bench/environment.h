/* What a measurement was made on, for its report. */
#ifndef OKV_BENCH_ENVIRONMENT_H
#define OKV_BENCH_ENVIRONMENT_H

struct environment {
    char date[32]; /* UTC, ISO 8601 */
    char kernel[192];
    char machine[80];
    char cpu[160]; /* model, or "unknown" */
    long cpus;
    char command[1024]; /* cut when longer */
};

void environment_read(struct environment *environment, int argc, char **argv);

#endif
