/* Histograms in the text format of HdrHistogram, which its plotters read: in microseconds. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report/report_figures.h"

/* Lines for each halving of the distance to 100 %. */
#define LINES_PER_HALF 5
/* Room for a target's name within a file's. */
#define NAME_ROOM 128

/* ---- one histogram ------------------------------------------------------- */

/* The percentile of line `number`, from 0. */
static double share_of(int number)
{
    int halves = number / LINES_PER_HALF;
    double left = ldexp(1, -halves);

    return 1 - left + left / 2 * (number % LINES_PER_HALF) / LINES_PER_HALF;
}

/* From the buckets, with their resolution. */
static double deviation_ns(const struct histogram *latency)
{
    double mean = histogram_mean(latency);
    struct histogram_step step;
    unsigned bucket = 0;
    double sum = 0;

    while (histogram_next(latency, &bucket, &step))
        sum += (double)step.count * ((double)step.upper - mean) * ((double)step.upper - mean);
    return latency->count > 0 ? sqrt(sum / (double)latency->count) : 0;
}

int report_hdr_text(const struct histogram *latency, FILE *out)
{
    struct histogram_step step;
    uint64_t seen = 0;
    unsigned bucket = 0;
    int line = 0;

    fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
            "1/(1-Percentile)");
    while (histogram_next(latency, &bucket, &step)) {
        seen += step.count;
        for (; seen < latency->count; line++) {
            double share = share_of(line);
            if ((double)seen < share * (double)latency->count)
                break;
            fprintf(out, "%12.3f %2.12f %10llu %14.2f\n", (double)step.upper / 1e3, share,
                    (unsigned long long)seen, 1 / (1 - share));
        }
    }
    fprintf(out, "%12.3f %2.12f %10llu\n", (double)latency->max / 1e3, 1.0,
            (unsigned long long)latency->count);
    fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", histogram_mean(latency) / 1e3,
            deviation_ns(latency) / 1e3);
    fprintf(out, "#[Max     = %12.3f, Total count    = %12llu]\n", (double)latency->max / 1e3,
            (unsigned long long)latency->count);
    fprintf(out, "#[Buckets = %12u, SubBuckets     = %12u]\n", 64u - HISTOGRAM_SUB_BITS + 1,
            1u << HISTOGRAM_SUB_BITS);
    return ferror(out) ? -1 : 0;
}

/* ---- the files ----------------------------------------------------------- */

/* The target's name for use in a file name: unsafe characters become "_". */
static void safe_name(const char *name, char *out, size_t size)
{
    size_t length = 0;

    for (; name[length] != '\0' && length + 1 < size; length++) {
        unsigned char c = (unsigned char)name[length];
        out[length] = (char)(isalnum(c) || c == '-' || c == '_' || c == '.' ? c : '_');
    }
    out[length] = '\0';
}

/* True when an earlier target has the same file name. */
static bool is_taken(const struct report *report, uint32_t index, const char *name)
{
    char other[NAME_ROOM];

    for (uint32_t i = 0; i < index; i++) {
        safe_name(report->targets[i].target->name, other, sizeof other);
        if (strcmp(other, name) == 0)
            return true;
    }
    return false;
}

static int write_file(const char *prefix, const char *name, const char *operation,
                      const struct histogram *latency)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s.%s.%s.hgrm", prefix, name, operation);

    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    FILE *out = fopen(path, "w");
    if (!out)
        return -1;
    int rc = report_hdr_text(latency, out);
    return fclose(out) == 0 ? rc : -1;
}

/* Merges an operation's latencies of all rounds. */
static void merge_rounds(const struct report_target *target, int operation, struct histogram *into)
{
    histogram_init(into);
    for (uint32_t i = 0; i < target->rounds; i++)
        histogram_merge(into, target->floor ? &target->floor[i].latency[operation]
                                            : &target->run[i].tally.latency[operation]);
}

static int write_target(const struct report_target *target, const char *prefix, const char *name,
                        struct histogram *latency)
{
    int count = target->floor ? (int)FLOOR_KIND_COUNT : (int)OPERATION_COUNT;
    int rc = 0;

    for (int i = 0; i < count && rc == 0; i++) {
        const char *operation =
            target->floor ? floor_kind_name((enum floor_kind)i) : operation_name((enum operation)i);
        merge_rounds(target, i, latency);
        if (latency->count > 0)
            rc = write_file(prefix, name, operation, latency);
    }
    return rc;
}

int report_write_hdr(const struct report *report, const char *prefix)
{
    struct histogram *latency = malloc(sizeof *latency);
    int rc = latency ? 0 : -1;

    for (uint32_t i = 0; i < report->options->target_count && rc == 0; i++) {
        char name[NAME_ROOM];
        safe_name(report->targets[i].target->name, name, sizeof name);
        if (is_taken(report, i, name)) {
            size_t length = strlen(name);
            size_t room = sizeof name - 4 < length ? sizeof name - 4 : length;
            snprintf(name + room, sizeof name - room, "-%u", i + 1);
        }
        rc = write_target(&report->targets[i], prefix, name, latency);
    }
    free(latency);
    return rc;
}
