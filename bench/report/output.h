/* Output files: each appears only when it is complete; an earlier file of that name stays until
 * then. */
#ifndef OKV_BENCH_REPORT_OUTPUT_H
#define OKV_BENCH_REPORT_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct output {
    FILE *file;
    char *path; /* its final name; NULL: written in place, for pipes and devices */
    char *part; /* its name until then */
};

/* Checks whether `name` ("-": stdout) could be written, without a change. Returns 0 or an errno. */
int output_check(const char *name);

/* Returns 0 or an errno. */
int output_begin(struct output *output, const char *name);
/* Renames a complete file to its final name, or removes it unless it is `whole`. Returns 0 or an
 * errno. If only renaming failed, *kept is the name of the complete file, to be freed; else NULL.
 */
int output_end(struct output *output, bool whole, char **kept);

#endif
