/*
 * What a put costs the store: no message, no other thread.
 *
 *   put_cost [--items N] [--value-size SIZE] [--puts N] [--rounds N]
 *
 * Fills a table with items of 16-byte keys, then overwrites items chosen at random; prints the
 * ns per put of each round. Instructions per put, which do not depend on what else the machine
 * does, are callgrind's sum for put_all() divided by the puts:
 *
 *   valgrind --tool=callgrind --toggle-collect=put_all put_cost --items 20000 --puts 10000
 */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "server/store/store.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/size.h"
#include "tests/support/random.h"

#define BUCKET_SIZE 512
#define VALUE_MAX (1u << 20)
/* Bytes of the region for an item besides twice its value, and in any case. */
#define ITEM_ROOM 512
#define ROOM_MIN (UINT64_C(64) << 20)
#define PAGE UINT64_C(4096)

struct options {
    uint64_t items, value_size, puts, rounds;
};

struct table {
    struct okv_store store;
    struct okv_store_work work;
    uint8_t *value;
    uint32_t value_length;
};

static int put(struct table *table, uint64_t item)
{
    uint64_t key[2] = {random_mix(item), item};
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .key = key,
        .key_length = sizeof key,
        .value = table->value,
        .value_length = table->value_length,
    };

    table->value[0]++;
    return okv_store_put(&table->store, &table->work, &write, &outcome);
}

static int fill(struct table *table, uint64_t items)
{
    int rc = 0;

    for (uint64_t item = 0; item < items && !rc; item++)
        rc = put(table, item);
    return rc;
}

/* Callgrind is told this name. */
static __attribute__((noinline)) int put_all(struct table *table, const struct options *options,
                                             uint64_t *random)
{
    int rc = 0;

    for (uint64_t i = 0; i < options->puts && !rc; i++)
        rc = put(table, random_below(random, options->items));
    return rc;
}

static int measure(struct table *table, const struct options *options)
{
    uint64_t random = 1;

    for (uint64_t round = 0; round < options->rounds; round++) {
        uint64_t begun = okv_clock_ns();
        int rc = put_all(table, options, &random);
        if (rc)
            return rc;
        printf("%.1f\n", (double)(okv_clock_ns() - begun) / (double)options->puts);
        fflush(stdout);
    }
    return 0;
}

static int run(const struct options *options)
{
    uint64_t length =
        ROOM_MIN + options->items * (ITEM_ROOM + 2 * options->value_size) / PAGE * PAGE;
    struct table *table = calloc(1, sizeof *table);
    void *base = mmap(NULL, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const struct okv_store_params params = {
        .base = base,
        .length = length,
        .bucket_size = BUCKET_SIZE,
        .max_value = VALUE_MAX,
        .boot_id = 1,
        .hash_seed = 1,
        .one_thread = true,
    };
    int rc = table && base != MAP_FAILED ? okv_store_init(&table->store, &params) : OKV_ENOMEM;

    if (!rc)
        rc = okv_store_work_init(&table->work, BUCKET_SIZE);
    if (rc)
        return rc;
    table->value_length = (uint32_t)options->value_size;
    table->value = calloc(1, VALUE_MAX);
    rc = table->value ? fill(table, options->items) : OKV_ENOMEM;
    return rc ? rc : measure(table, options);
}

enum option_key { OPTION_ITEMS = 256, OPTION_VALUE_SIZE, OPTION_PUTS, OPTION_ROUNDS };

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct options *options = state->input;
    uint64_t *const numbers[] = {&options->items, &options->value_size, &options->puts,
                                 &options->rounds};

    if (key < OPTION_ITEMS || key > OPTION_ROUNDS)
        return ARGP_ERR_UNKNOWN;
    if (okv_size_parse(text, numbers[key - OPTION_ITEMS]) || *numbers[key - OPTION_ITEMS] == 0)
        argp_error(state, "%s: give a number from 1", text);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option known[] = {
        {"items", OPTION_ITEMS, "N", 0, "Items in the table (1M)", 0},
        {"value-size", OPTION_VALUE_SIZE, "SIZE", 0, "Bytes of each value, to 1M (32)", 0},
        {"puts", OPTION_PUTS, "N", 0, "Puts of a round (1M)", 0},
        {"rounds", OPTION_ROUNDS, "N", 0, "Rounds (1)", 0},
        {0},
    };
    static const struct argp parser = {.options = known,
                                       .parser = parse_option,
                                       .doc = "Measures what a put costs without any message."};
    struct options options = {.items = 1u << 20, .value_size = 32, .puts = 1u << 20, .rounds = 1};

    argp_parse(&parser, argc, argv, 0, NULL, &options);
    if (options.value_size > VALUE_MAX) {
        fprintf(stderr, "put_cost: --value-size: at most 1M\n");
        return 2;
    }
    int rc = run(&options);
    if (rc)
        fprintf(stderr, "put_cost: %s\n", okv_error_text(rc));
    return rc ? 1 : 0;
}
