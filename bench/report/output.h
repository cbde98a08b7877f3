/* A file whose content is known at the end of a long run: it is there when it is whole, and what it
 * had before stays until then. */
#ifndef OKV_BENCH_REPORT_OUTPUT_H
#define OKV_BENCH_REPORT_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct output {
    FILE *file;
    char *path; /* where it is to be; NULL: written in place, as pipes and devices are */
    char *part; /* where it is until then */
};

/* Whether `name`, or "-" for stdout, could be written now; touches nothing. Returns 0 or an errno.
 */
int output_check(const char *name);

/* Returns 0 or an errno. */
int output_begin(struct output *output, const char *name);
/* Puts it in its place or, unless it is `whole`, takes it away. Returns 0 or an errno; then *kept
 * names the file that has all of it and could not be put in its place, to be freed, or is NULL and
 * what was begun is gone. */
int output_end(struct output *output, bool whole, char **kept);

#endif
