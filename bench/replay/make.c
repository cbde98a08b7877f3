#include "bench/replay/make.h"

#include <inttypes.h>
#include <math.h>
#include <okv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load/workload.h"

#define ITEMS_MAX UINT64_C(1000000000)
#define SHARE_OF_LOOP (1.0 / 3)
#define REQUESTS_PER_SCANNED 6

/* ---- kinds --------------------------------------------------------------- */

/*
 * tw: clusters of Twitter's caches with the mean of requests per key, the share of keys that are
 * asked for once and the sizes that https://github.com/twitter/cache-trace states, scaled down; of
 * their requests the gets.
 */
static const struct make kinds[] = {
    {.kind = "zipf", .requests = 2000000, .items = 200000, .theta = 0.99},
    {.kind = "drift", .requests = 2000000, .items = 100000, .theta = 0.9, .drift = 0.05},
    {.kind = "scan", .requests = 2400000, .items = 100000, .theta = 0.9, .scan = 20000},
    {.kind = "loop", .requests = 1500000, .items = 50000, .theta = 0.9, .loop = 60000},
    {.kind = "onehit", .requests = 2000000, .items = 100000, .theta = 0.9, .once = 0.2},
    {.kind = "mixed",
     .requests = 2000000,
     .items = 100000,
     .theta = 0.9,
     .drift = 0.02,
     .once = 0.1,
     .key_bytes = 20,
     .value_bytes = 1000},
    {.kind = "tw4",
     .requests = 1855000,
     .items = 24735,
     .theta = 0.9,
     .churn = 0.01333,
     .once = 0.01107,
     .key_bytes = 67,
     .value_bytes = 2439},
    {.kind = "tw29",
     .requests = 1800000,
     .items = 30784,
     .theta = 0.9,
     .churn = 0.0171,
     .once = 0.01024,
     .key_bytes = 36,
     .value_bytes = 799},
    {.kind = "tw45",
     .requests = 1160000,
     .items = 102520,
     .theta = 0.8,
     .churn = 0.08838,
     .once = 0.16807,
     .key_bytes = 10,
     .value_bytes = 120},
    {.kind = "tw52",
     .requests = 1956000,
     .items = 24192,
     .theta = 1.0,
     .churn = 0.01237,
     .once = 0.00594,
     .key_bytes = 20,
     .value_bytes = 273},
    {.kind = "tw54",
     .requests = 1470000,
     .items = 33878,
     .theta = 1.0,
     .churn = 0.02305,
     .once = 0.05595,
     .key_bytes = 19,
     .value_bytes = 246},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* What may follow the kind: a count, or if `is_real` a number that may have decimals. */
static const struct parameter {
    const char *name;
    size_t offset;
    bool is_real;
    double least, most;
} parameters[] = {
    {"requests", offsetof(struct make, requests), false, 1, UINT32_MAX - 1},
    {"items", offsetof(struct make, items), false, 1, ITEMS_MAX},
    {"theta", offsetof(struct make, theta), true, 0, 10},
    {"drift", offsetof(struct make, drift), true, 0, 1},
    {"churn", offsetof(struct make, churn), true, 0, 1},
    {"once", offsetof(struct make, once), true, 0, 1},
    {"scan", offsetof(struct make, scan), false, 0, ITEMS_MAX},
    {"loop", offsetof(struct make, loop), false, 0, ITEMS_MAX},
    {"key", offsetof(struct make, key_bytes), false, 0, OKV_KEY_MAX_BYTES},
    {"value", offsetof(struct make, value_bytes), false, 0, 1 << 24},
    {"seed", offsetof(struct make, seed), false, 0, UINT32_MAX},
};
#define PARAMETERS (sizeof parameters / sizeof *parameters)

static const struct make *find_kind(const char *name, size_t length)
{
    for (size_t i = 0; i < KINDS; i++)
        if (strlen(kinds[i].kind) == length && strncmp(kinds[i].kind, name, length) == 0)
            return &kinds[i];
    return NULL;
}

static int refuse_kind(const char *text, size_t length, struct okv_diag *why)
{
    char names[128] = "";

    for (size_t i = 0; i < KINDS; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                 i == 0          ? ""
                 : i + 1 < KINDS ? ", "
                                 : " or ",
                 kinds[i].kind);
    return okv_diag_set(why, OKV_EINVAL, " '%.*s': give %s", (int)length, text, names);
}

/* A number with a decimal K or M perhaps, up to the end or a comma. NAN: it is none. */
static double read_number(const char *text, const char **end)
{
    char *after;
    double number = *text >= '0' && *text <= '9' ? strtod(text, &after) : NAN;

    if (isnan(number))
        return NAN;
    if (*after == 'K' || *after == 'M')
        number *= *after++ == 'K' ? 1e3 : 1e6;
    *end = after;
    return *after == '\0' || *after == ',' ? number : NAN;
}

static void set(struct make *make, const struct parameter *parameter, double number)
{
    char *field = (char *)make + parameter->offset;
    uint64_t count = (uint64_t)number;

    if (parameter->is_real)
        memcpy(field, &number, sizeof number);
    else
        memcpy(field, &count, sizeof count);
}

/* "NAME=VALUE" at *at, and moves past it. */
static int parse_parameter(const char **at, struct make *make, struct okv_diag *why)
{
    size_t length = strcspn(*at, "=,"), i = 0;
    const char *text = *at;

    while (i < PARAMETERS &&
           (strlen(parameters[i].name) != length || strncmp(parameters[i].name, text, length) != 0))
        i++;
    if (i == PARAMETERS || text[length] != '=')
        return okv_diag_set(why, OKV_EINVAL,
                            " '%.*s': give requests, items, theta, drift, churn, once, scan, loop, "
                            "key, value or seed, as in zipf,theta=0.9",
                            (int)strcspn(text, ","), text);
    double number = read_number(text + length + 1, at);
    if (!(number >= parameters[i].least && number <= parameters[i].most))
        return okv_diag_set(why, OKV_EINVAL, " '%.*s': give a number from %.0f to %.0f",
                            (int)strcspn(text, ","), text, parameters[i].least, parameters[i].most);
    set(make, &parameters[i], number);
    return OKV_OK;
}

int make_parse(const char *text, struct make *make, struct okv_diag *why)
{
    size_t length = strcspn(text, ",");
    const struct make *kind = find_kind(text, length);
    const char *at = text + length;
    int rc = kind ? OKV_OK : refuse_kind(text, length, why);

    if (rc == OKV_OK)
        *make = *kind;
    while (rc == OKV_OK && *at == ',') {
        at++;
        rc = parse_parameter(&at, make, why);
    }
    return rc;
}

/* ---- a trace ------------------------------------------------------------- */

struct maker {
    const struct make *make;
    struct workload_random random;
    double *below;   /* [items]: probability of this rank and the more popular ones */
    uint64_t *keys;  /* [items]: by rank */
    uint64_t fresh;  /* the next new key */
    uint64_t rounds; /* requests of the loop so far; its keys follow the first items */
};

static bool maker_init(struct maker *maker, const struct make *make)
{
    double sum = 0;

    *maker = (struct maker){.make = make,
                            .random = {.state = make->seed},
                            .below = malloc(make->items * sizeof *maker->below),
                            .keys = malloc(make->items * sizeof *maker->keys),
                            .fresh = make->items + make->loop};
    if (!maker->below || !maker->keys)
        return false;
    for (uint64_t rank = 0; rank < make->items; rank++) {
        sum += pow((double)(rank + 1), -make->theta);
        maker->below[rank] = sum;
        maker->keys[rank] = rank;
    }
    for (uint64_t rank = 0; rank < make->items; rank++)
        maker->below[rank] /= sum;
    return true;
}

static void maker_fini(struct maker *maker)
{
    free(maker->below);
    free(maker->keys);
}

/* The first rank whose probability, with those before, exceeds a random number. */
static uint64_t draw_rank(struct maker *maker)
{
    double unit = workload_random_unit(&maker->random);
    uint64_t low = 0, high = maker->make->items - 1;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (maker->below[middle] > unit)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* True for this share of the calls. Zero takes no random number, so that what a kind leaves out
 * does not change the rest. */
static bool draw(struct maker *maker, double share)
{
    return share > 0 && workload_random_unit(&maker->random) < share;
}

static uint64_t next_key(struct maker *maker, uint64_t request)
{
    const struct make *make = maker->make;
    uint64_t of_scans = make->scan * REQUESTS_PER_SCANNED;

    if (of_scans > 0 && request % of_scans >= of_scans - make->scan)
        return maker->fresh++;
    if (draw(maker, make->once))
        return maker->fresh++;
    if (make->loop > 0 && draw(maker, SHARE_OF_LOOP))
        return make->items + maker->rounds++ % make->loop;
    if (draw(maker, make->drift))
        maker->keys[draw_rank(maker)] = maker->fresh++;
    if (draw(maker, make->churn))
        maker->keys[workload_random_below(&maker->random, make->items)] = maker->fresh++;
    return maker->keys[draw_rank(maker)];
}

/* Lognormal with a deviation of 1, by Box and Muller, of the key's own random numbers. */
static uint64_t value_bytes(const struct make *make, uint64_t key)
{
    struct workload_random random = {.state = workload_mix(key + 1)};
    double length = sqrt(-2 * log(1 - workload_random_unit(&random)));
    double normal = length * cos(2 * M_PI * workload_random_unit(&random));
    double bytes = (double)make->value_bytes * exp(normal - 0.5);

    return bytes < WORKLOAD_VALUE_MIN ? WORKLOAD_VALUE_MIN : (uint64_t)bytes;
}

static void write_head(const struct make *make, FILE *out)
{
    fprintf(out, "# kv-bench --make-trace %s", make->kind);
    for (size_t i = 0; i < PARAMETERS; i++) {
        const char *field = (const char *)make + parameters[i].offset;
        if (parameters[i].is_real)
            fprintf(out, ",%s=%g", parameters[i].name, *(const double *)field);
        else
            fprintf(out, ",%s=%" PRIu64, parameters[i].name, *(const uint64_t *)field);
    }
    putc('\n', out);
}

int make_trace(const struct make *make, FILE *out)
{
    struct maker maker;
    bool begun = maker_init(&maker, make);

    if (begun)
        write_head(make, out);
    for (uint64_t i = 0; begun && i < make->requests && !ferror(out); i++) {
        uint64_t key = next_key(&maker, i);
        fprintf(out, "%0*" PRIu64, (int)make->key_bytes, key);
        if (make->value_bytes > 0)
            fprintf(out, " %" PRIu64, value_bytes(make, key));
        putc('\n', out);
    }
    maker_fini(&maker);
    if (!begun)
        return OKV_ENOMEM;
    return fflush(out) == 0 && !ferror(out) ? OKV_OK : OKV_EIO;
}
