/*
 * What a layout costs: fills a table item by item and prints, for growing fill, READs
 * and bytes per get, and how much of the memory is the user's. Everything is counted
 * by walking the images as a reader would, nothing is timed: the same on every machine.
 *
 *   layout [--memory SIZE] [--bucket-size SIZE]... [--extra-reads N] [--curve]
 *
 * One line for each bucket size and kind of item: the average over the last
 * doubling of the number of items while the index could still grow, and the table
 * when it was full. With --curve, a line for each twentieth of the region.
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "server/store/commands.h"
#include "server/store/store.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "shared/base/size.h"

#define SIZES_MAX 8
#define VALUE_MAX 32768

struct mix {
    const char *name;
    uint32_t key_length;
    unsigned kinds;
    struct {
        unsigned percent;
        uint32_t value_length;
    } values[5];
};

static const struct mix mixes[] = {
    {"8 B + 8 B", 8, 1, {{100, 8}}},
    {"16 B + 32 B", 16, 1, {{100, 32}}},
    {"24 B + 100 B", 24, 1, {{100, 100}}},
    {"32 B + 1 KiB", 32, 1, {{100, 1024}}},
    {"32 B + 4 KiB", 32, 1, {{100, 4096}}},
    {"mixed", 24, 5, {{50, 32}, {30, 100}, {15, 1024}, {4, 4096}, {1, 32768}}},
};
#define MIXES (sizeof mixes / sizeof *mixes)

struct figures {
    double items;
    double reads; /* per get of an item chosen at random */
    double bytes; /* likewise */
    double of_used;
    double of_region;
};

struct options {
    uint64_t memory;
    uint32_t bucket_sizes[SIZES_MAX];
    unsigned size_count;
    uint32_t extra_reads;
    bool curve;
};

static void walk_bucket(const struct okv_store *store, uint64_t bucket, struct figures *sum)
{
    const struct okv_table *table = &store->table;
    uint64_t offset = okv_table_bucket_offset(table, bucket);

    for (unsigned page = 1; offset; page++) {
        const uint8_t *image = table->base + offset;
        uint32_t position = 0;
        struct okv_entry entry;
        while (okv_bucket_next(image, &position, &entry) == 1) {
            sum->items++;
            sum->reads += page + entry.is_reference;
            sum->bytes += (double)page * table->bucket_size;
            if (entry.is_reference)
                sum->bytes += (double)okv_entry_extent_length(&entry);
        }
        offset = okv_bucket_chain(image);
    }
}

static struct figures measure(struct okv_store *store)
{
    struct figures figures = {0};
    double user = (double)atomic_load(&store->totals.user_bytes);

    for (uint64_t bucket = 0; bucket < atomic_load(&store->bucket_count); bucket++)
        walk_bucket(store, bucket, &figures);
    figures.reads /= figures.items;
    figures.bytes /= figures.items;
    figures.of_used = user / (double)okv_heap_used(&store->heap);
    figures.of_region = user / (double)store->length;
    return figures;
}

static uint32_t value_length(const struct mix *mix, uint64_t *random)
{
    unsigned percent = (unsigned)(okv_random_next(random) >> 33) % 100;
    unsigned kind = 0;

    while (percent >= mix->values[kind].percent)
        percent -= mix->values[kind++].percent;
    return mix->values[kind].value_length;
}

/* What filling one table has shown so far. */
struct filling {
    const struct options *options;
    const struct mix *mix;
    struct figures samples[256]; /* eight to a doubling */
    unsigned sample_count;
    double next_sample; /* items */
    double next_point;  /* of_region */
    bool growing;
};

static void curve_point(struct filling *filling, struct okv_store *store)
{
    double of_region = (double)atomic_load(&store->totals.user_bytes) / (double)store->length;

    if (!filling->options->curve || of_region < filling->next_point)
        return;
    struct figures now = measure(store);
    printf("%-13s %6u %9.3f %9.3f %9.0f\n", filling->mix->name, store->table.bucket_size,
           now.of_region, now.reads, now.bytes);
    filling->next_point += 0.05;
}

static void sample(struct filling *filling, struct okv_store *store)
{
    double items = (double)atomic_load(&store->totals.items);

    if (filling->growing && atomic_load(&store->growth_pause) > 0)
        filling->growing = false;
    if (items < filling->next_sample || filling->sample_count == 256)
        return;
    filling->next_sample *= 1.0905077; /* 2^(1/8) */
    if (filling->growing)
        filling->samples[filling->sample_count++] = measure(store);
}

static struct figures last_doubling(const struct filling *filling)
{
    struct figures mean = {0};
    unsigned count = filling->sample_count < 8 ? filling->sample_count : 8;

    for (unsigned i = filling->sample_count - count; i < filling->sample_count; i++) {
        mean.reads += filling->samples[i].reads / count;
        mean.bytes += filling->samples[i].bytes / count;
        mean.of_used += filling->samples[i].of_used / count;
    }
    return mean;
}

static int fill(struct okv_store *store, struct okv_store_work *work, struct filling *filling)
{
    static uint8_t value[VALUE_MAX];
    uint8_t key[OKV_KEY_MAX] = {0};
    uint64_t random = 88172645463325252u; /* the same items in the same order each time */

    for (;;) {
        uint64_t name = okv_random_next(&random);
        memcpy(key, &name, sizeof name);
        const struct okv_store_write write = {
            .key = key,
            .key_length = filling->mix->key_length,
            .value = value,
            .value_length = value_length(filling->mix, &random),
        };
        struct okv_store_outcome outcome;
        int rc = okv_store_put(store, work, &write, &outcome);
        if (rc)
            return rc == OKV_EFULL ? 0 : rc;
        sample(filling, store);
        curve_point(filling, store);
    }
}

static int run(const struct options *options, uint32_t bucket_size, const struct mix *mix)
{
    struct okv_store_work work;
    struct okv_store *store = calloc(1, sizeof *store);
    void *base = mmap(NULL, options->memory, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct okv_store_params params = {
        .base = base,
        .length = options->memory,
        .bucket_size = bucket_size,
        .extra_reads = options->extra_reads,
        .max_value = VALUE_MAX,
        .boot_id = 1,
        .hash_seed = 1,
    };
    struct filling filling = {
        .options = options, .mix = mix, .next_sample = 1000, .next_point = 0.05, .growing = true};
    int rc = store && base != MAP_FAILED ? okv_store_init(store, &params) : OKV_ENOMEM;

    if (!rc)
        rc = okv_store_work_init(&work, bucket_size);
    if (!rc)
        rc = fill(store, &work, &filling);
    if (rc) {
        fprintf(stderr, "layout: %s\n", okv_error_text(rc));
        return rc;
    }
    struct figures growing = last_doubling(&filling), full = measure(store);
    if (!options->curve)
        printf("%-13s %6u | %6.3f %7.0f %6.3f | %6.3f %7.0f %6.3f | %9.0f %8.2f\n", mix->name,
               bucket_size, growing.reads, growing.bytes, growing.of_used, full.reads, full.bytes,
               full.of_region, full.items,
               (double)okv_store_index_length(store) / (double)store->length);
    fflush(stdout);
    okv_store_work_fini(&work);
    okv_store_fini(store);
    munmap(base, options->memory);
    free(store);
    return 0;
}

enum option_key { OPTION_BUCKET_SIZE = 256, OPTION_EXTRA_READS, OPTION_CURVE };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    uint64_t size;

    switch (key) {
    case 'm':
        if (okv_size_parse(text, &size) || size < 1 << 20)
            argp_error(state, "--memory %s: give a size from 1M", text);
        options->memory = size / 4096 * 4096;
        return 0;
    case OPTION_BUCKET_SIZE:
        if (okv_size_parse(text, &size) || !okv_bucket_size_valid(size) ||
            options->size_count == SIZES_MAX)
            argp_error(state, "--bucket-size %s: give 256, 512, 1K, 2K or 4K", text);
        options->bucket_sizes[options->size_count++] = (uint32_t)size;
        return 0;
    case OPTION_EXTRA_READS:
        options->extra_reads = (uint32_t)strtoul(text, NULL, 10);
        if (options->extra_reads < 1 || options->extra_reads > 1000)
            argp_error(state, "--extra-reads %s: give a number from 1 to 1000", text);
        return 0;
    case OPTION_CURVE:
        options->curve = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"memory", 'm', "SIZE", 0, "Region to fill (256M)", 0},
        {"bucket-size", OPTION_BUCKET_SIZE, "SIZE", 0, "May be repeated (256 to 2K)", 0},
        {"extra-reads", OPTION_EXTRA_READS, "N", 0, "As the server's option", 0},
        {"curve", OPTION_CURVE, NULL, 0, "READs against fill, instead of the table", 0},
        {0},
    };
    static const struct argp parser = {
        .options = known, .parser = parse_option, .doc = "Measures the layout of okv's table."};
    struct options options = {.memory = UINT64_C(256) << 20};

    argp_parse(&parser, argc, argv, 0, NULL, &options);
    for (uint32_t size = 256; size <= 2048 && options.size_count < SIZES_MAX &&
                              (options.size_count == 0 || options.bucket_sizes[0] == 256);
         size *= 2)
        options.bucket_sizes[options.size_count++] = size;
    if (options.curve)
        printf("%-13s %6s %9s %9s %9s\n", "items", "bucket", "fill", "reads", "bytes");
    else
        printf("%-13s %6s | %6s %7s %6s | %6s %7s %6s | %9s %8s\n", "items", "bucket", "reads",
               "bytes", "used", "reads", "bytes", "region", "items", "index");
    for (unsigned m = 0; m < MIXES; m++)
        for (unsigned i = 0; i < options.size_count; i++)
            if (run(&options, options.bucket_sizes[i], &mixes[m]))
                return 1;
    return 0;
}
