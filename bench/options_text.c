#include "bench/options_text.h"

#include <errno.h>
#include <math.h>
#include <okv.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/duration.h"
#include "shared/base/size.h"

#define VALUE_MAX (UINT64_C(1) << 30) /* the server reports its own, lower limit */
#define TRACE_MAX 65536               /* one value in half a million is longer */
/* Percentages are rounded to their decimals. */
#define MIX_SLACK 1e-6

uint64_t options_read_count(struct argp_state *state, const char *option, const char *text,
                            uint64_t low, uint64_t high)
{
    static const char units[] = "KMG";
    char *end = NULL;
    uint64_t scale = 1;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    bool good = errno == 0 && text[0] >= '0' && text[0] <= '9';
    if (good && *end != '\0') {
        char unit = *end >= 'a' && *end <= 'z' ? (char)(*end - 'a' + 'A') : *end;
        const char *found = strchr(units, unit);
        good = found && end[1] == '\0';
        for (const char *at = units; good && at <= found; at++)
            scale *= 1000;
    }
    if (!good || number > high / scale || number * scale < low)
        argp_error(state, "%s '%s': give a whole number from %llu to %llu, such as 1000 or 10K",
                   option, text, (unsigned long long)low, (unsigned long long)high);
    return number * scale;
}

uint32_t options_read_counts(struct argp_state *state, const char *option, const char *text,
                             uint64_t high, uint32_t *counts, uint32_t counts_max)
{
    uint32_t count = 0;

    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        char *number = strndup(at, length);
        if (!number)
            argp_failure(state, 1, ENOMEM, "%s", option);
        if (count == counts_max)
            argp_error(state, "%s '%s': give at most %u numbers", option, text, counts_max);
        counts[count] = (uint32_t)options_read_count(state, option, number, 1, high);
        free(number);
        for (uint32_t i = 0; i < count; i++)
            if (counts[i] == counts[count])
                argp_error(state, "%s '%s': give each number once", option, text);
        count++;
        at += length;
        if (*at == '\0')
            return count;
    }
}

double options_read_real(struct argp_state *state, const char *option, const char *text, double low,
                         double high)
{
    char *end = NULL;

    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= low && number <= high))
        argp_error(state, "%s '%s': give a number from %g to %g", option, text, low, high);
    return number;
}

double options_read_seconds(struct argp_state *state, const char *option, const char *text,
                            double low, double high)
{
    uint64_t ms;
    char *end = NULL;
    double seconds = strtod(text, &end);

    if (okv_duration_parse(text, &ms) == 0)
        seconds = (double)ms / 1000.0;
    else if (end == text || *end != '\0')
        seconds = -1.0;
    if (!(seconds >= low && seconds <= high))
        argp_error(state, "%s '%s': give seconds from %g to %g, or a time such as 500ms or 2m",
                   option, text, low, high);
    return seconds;
}

uint32_t options_read_size(struct argp_state *state, const char *option, const char *text,
                           uint64_t low, uint64_t high)
{
    char why[OKV_SIZE_WHY_TEXT];
    uint64_t size = 0;

    if (okv_size_read(text, low, high, &size, why))
        argp_error(state, "%s '%s': %s", option, text, why);
    return (uint32_t)size;
}

/* The operation with this name, or OPERATION_COUNT. */
static enum operation find_operation(const char *name, size_t length)
{
    for (int i = 0; i < OPERATION_MIXED_COUNT; i++) {
        const char *known = operation_name((enum operation)i);
        if (strlen(known) == length && strncmp(known, name, length) == 0)
            return (enum operation)i;
    }
    return OPERATION_COUNT;
}

/* Parses "NAME=PERCENT" at *at and moves past it. Returns the operation; OPERATION_COUNT: wrong,
 * or named before. */
static enum operation read_share(const char **at, double mix[OPERATION_MIXED_COUNT])
{
    size_t length = strcspn(*at, "=,");
    enum operation operation = find_operation(*at, length);
    char *end = NULL;

    if (operation == OPERATION_COUNT || (*at)[length] != '=' || !isnan(mix[operation]))
        return OPERATION_COUNT;
    const char *number = *at + length + 1;
    mix[operation] = strtod(number, &end);
    *at = end;
    return end > number && mix[operation] >= 0 && mix[operation] <= 100 ? operation
                                                                        : OPERATION_COUNT;
}

/* Adds the missing percentage to gets, else to puts. Returns whether the sum is 100 then. */
static bool complete_mix(double mix[OPERATION_MIXED_COUNT])
{
    double sum = 0;

    for (int i = 0; i < OPERATION_MIXED_COUNT; i++)
        sum += isnan(mix[i]) ? 0 : mix[i];
    if (sum < 100 && isnan(mix[OPERATION_GET]))
        mix[OPERATION_GET] = 100 - sum;
    else if (sum < 100 && isnan(mix[OPERATION_PUT]))
        mix[OPERATION_PUT] = 100 - sum;
    sum = 0;
    for (int i = 0; i < OPERATION_MIXED_COUNT; i++) {
        mix[i] = isnan(mix[i]) ? 0 : mix[i];
        sum += mix[i];
    }
    return fabs(sum - 100) < MIX_SLACK;
}

void options_read_mix(struct argp_state *state, const char *text, double mix[OPERATION_MIXED_COUNT])
{
    const char *at = text;
    bool good = true;

    for (int i = 0; i < OPERATION_MIXED_COUNT; i++)
        mix[i] = NAN;
    while (good) {
        good = read_share(&at, mix) != OPERATION_COUNT;
        if (!good || *at == '\0')
            break;
        good = *at++ == ',';
    }
    if (!good || !complete_mix(mix))
        argp_error(state,
                   "--mix '%s': give percentages of get, put, insert, delete, rmw, cas and incr "
                   "that add up to 100, such as get=95,put=5",
                   text);
}

enum workload_distribution options_read_distribution(struct argp_state *state, const char *text)
{
    for (int i = WORKLOAD_UNIFORM; i <= WORKLOAD_HOTSPOT; i++) {
        if (strcmp(text, workload_distribution_name((enum workload_distribution)i)) == 0)
            return (enum workload_distribution)i;
    }
    argp_error(state, "--distribution '%s': give uniform, zipfian, latest or hotspot", text);
    return WORKLOAD_UNIFORM;
}

void options_read_hotspot(struct argp_state *state, const char *text,
                          struct workload_choice *choice)
{
    char *end = NULL;

    choice->hot_records = strtod(text, &end);
    bool good = end > text && *end == ',';
    if (good) {
        const char *second = end + 1;
        choice->hot_operations = strtod(second, &end);
        good = end > second && *end == '\0';
    }
    if (!good || !(choice->hot_records > 0 && choice->hot_records < 1) ||
        !(choice->hot_operations > 0 && choice->hot_operations < 1))
        argp_error(state,
                   "--hotspot '%s': give the hot records' share of all and of the operations, "
                   "both between 0 and 1, such as 0.2,0.8",
                   text);
}

static uint32_t read_value_size(struct argp_state *state, const char *text)
{
    return options_read_size(state, "--value-size", text, WORKLOAD_VALUE_MIN, VALUE_MAX);
}

void options_read_values(struct argp_state *state, const char *text, struct workload_values *values)
{
    char low[32];
    const char *dash = strchr(text, '-');

    if (strncmp(text, "trace", 5) == 0 && (text[5] == '\0' || text[5] == ':')) {
        values->sizes = WORKLOAD_SIZES_TRACE;
        values->low = WORKLOAD_VALUE_MIN;
        values->high = text[5] == ':' ? read_value_size(state, text + 6) : TRACE_MAX;
    } else if (dash && dash > text && (size_t)(dash - text) < sizeof low) {
        memcpy(low, text, (size_t)(dash - text));
        low[dash - text] = '\0';
        values->sizes = WORKLOAD_SIZES_UNIFORM;
        values->low = read_value_size(state, low);
        values->high = read_value_size(state, dash + 1);
        if (values->low > values->high)
            argp_error(state, "--value-size '%s': give the smaller size first, such as 16-4K",
                       text);
    } else {
        values->sizes = WORKLOAD_SIZES_FIXED;
        values->high = values->low = read_value_size(state, text);
    }
}
