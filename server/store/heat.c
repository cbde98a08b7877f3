#include "server/store/heat.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The record of a bucket with c cells: the high bytes of c tags, of which 0 is none; their low
 * bytes; c / 2 bytes of two cells each; c / 2 - 2 prints, of which 0 is none; the number of the
 * next one to be replaced; a reserved byte. Buckets of 512 bytes and less have MIN cells. With tags
 * of a byte one of twenty items would share its cell, and stay as long as another one is used. */
#define CELLS_MIN 16u
#define BUCKET_BYTES_PER_CELL 32u

struct okv_heat *okv_heat_create(uint64_t buckets, uint32_t bucket_size)
{
    struct okv_heat *heat = malloc(sizeof *heat);
    uint32_t cells = bucket_size / BUCKET_BYTES_PER_CELL;

    if (!heat)
        return NULL;
    if (cells < CELLS_MIN)
        cells = CELLS_MIN;
    *heat = (struct okv_heat){.buckets = buckets, .cells = cells, .stride = 3 * cells};
    heat->records = mmap(NULL, buckets * heat->stride, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (heat->records != MAP_FAILED)
        return heat;
    free(heat);
    return NULL;
}

void okv_heat_destroy(struct okv_heat *heat)
{
    if (heat)
        munmap(heat->records, heat->buckets * heat->stride);
    free(heat);
}

static uint8_t *record_of(const struct okv_heat *heat, uint64_t bucket)
{
    return heat->records + bucket * heat->stride;
}

/* Marks come without a lock. */
static uint8_t get(const uint8_t *byte)
{
    return atomic_load_explicit((const _Atomic uint8_t *)byte, memory_order_relaxed);
}

static void set(uint8_t *byte, uint8_t value)
{
    atomic_store_explicit((_Atomic uint8_t *)byte, value, memory_order_relaxed);
}

static uint8_t high_of(uint16_t tag)
{
    return tag >> 8 ? (uint8_t)(tag >> 8) : 1;
}

static uint8_t print_of(uint16_t tag)
{
    return tag & 0xff ? (uint8_t)tag : 1;
}

/* ---- cells ---- */

static bool is_own(const struct okv_heat *heat, const uint8_t *record, uint32_t cell, uint16_t tag)
{
    return get(record + cell) == high_of(tag) && get(record + heat->cells + cell) == (uint8_t)tag;
}

/* The cell of a tag, or the one that items without their own share. */
static uint32_t cell_of(const struct okv_heat *heat, const uint8_t *record, uint16_t tag)
{
    for (uint32_t cell = 0; cell < heat->cells; cell++)
        if (is_own(heat, record, cell, tag))
            return cell;
    return tag % heat->cells;
}

static uint8_t *pair_of(const struct okv_heat *heat, uint8_t *record, uint32_t cell)
{
    return record + 2 * heat->cells + cell / 2;
}

static uint8_t cell_get(const struct okv_heat *heat, const uint8_t *record, uint32_t cell)
{
    uint8_t pair = get(pair_of(heat, (uint8_t *)record, cell));

    return cell % 2 ? pair >> 4 : pair & 0xf;
}

static void cell_set(const struct okv_heat *heat, uint8_t *record, uint32_t cell, uint8_t item)
{
    uint8_t *pair = pair_of(heat, record, cell);
    uint8_t before = get(pair);

    set(pair, cell % 2 ? (uint8_t)((before & 0xf) | item << 4) : (uint8_t)((before & 0xf0) | item));
}

uint8_t okv_heat_added(const struct okv_heat *heat, const uint8_t *record, uint16_t tag)
{
    return cell_get(heat, record, cell_of(heat, record, tag));
}

uint8_t okv_heat_of(const struct okv_heat *heat, uint64_t bucket, uint16_t tag)
{
    return okv_heat_added(heat, record_of(heat, bucket), tag);
}

void okv_heat_prefetch(const struct okv_heat *heat, uint64_t bucket)
{
    __builtin_prefetch(record_of(heat, bucket), 1);
}

/* Changes a counter alone: if the record is rewritten meanwhile, the mark is lost. While cells are
 * free, the last one is, and no item shares one: what has none is not there. */
void okv_heat_mark(const struct okv_heat *heat, uint64_t bucket, uint16_t tag)
{
    uint8_t *record = record_of(heat, bucket);
    uint32_t cell = cell_of(heat, record, tag);
    uint8_t *pair = pair_of(heat, record, cell);
    uint8_t before = get(pair);
    unsigned shift = cell % 2 ? 4 : 0;

    if (get(record + cell) != high_of(tag) && get(record + heat->cells - 1) == 0)
        return;
    if (okv_heat_counter_of(before >> shift & 0xf) < OKV_HEAT_COUNTER_MAX)
        atomic_compare_exchange_strong_explicit((_Atomic uint8_t *)pair, &before,
                                                (uint8_t)(before + (1u << shift)),
                                                memory_order_relaxed, memory_order_relaxed);
}

/* ---- ghosts ---- */

/* Bytes of tags and cells, before the ghosts. */
static uint32_t items_length(const struct okv_heat *heat)
{
    return 2 * heat->cells + heat->cells / 2;
}

static uint32_t ghosts(const struct okv_heat *heat)
{
    return heat->cells / 2 - 2;
}

static uint8_t *ghosts_of(const struct okv_heat *heat, uint8_t *record)
{
    return record + items_length(heat);
}

static bool is_ghost(const struct okv_heat *heat, uint64_t bucket, uint16_t tag)
{
    const uint8_t *prints = ghosts_of(heat, record_of(heat, bucket));
    uint8_t print = print_of(tag);

    for (uint32_t i = 0; i < ghosts(heat); i++)
        if (get(prints + i) == print)
            return true;
    return false;
}

uint8_t okv_heat_of_new(const struct okv_heat *heat, uint64_t bucket, uint16_t tag)
{
    return okv_heat_make(is_ghost(heat, bucket, tag) ? OKV_HEAT_MAIN : OKV_HEAT_NEW, 0);
}

void okv_heat_add_ghost(const struct okv_heat *heat, uint8_t *record, uint16_t tag)
{
    uint8_t *prints = ghosts_of(heat, record);
    uint8_t *next = prints + ghosts(heat);

    prints[*next] = print_of(tag);
    *next = (uint8_t)((*next + 1u) % ghosts(heat));
}

/* ---- private records ---- */

void okv_heat_begin(const struct okv_heat *heat, uint8_t *record, uint64_t bucket)
{
    const uint8_t *from = record_of(heat, bucket);

    for (uint32_t i = items_length(heat); i < heat->stride; i++)
        record[i] = get(from + i);
}

void okv_heat_clear(const struct okv_heat *heat, uint8_t *record)
{
    memset(record, 0, items_length(heat));
}

static uint32_t free_cell(const struct okv_heat *heat, const uint8_t *record)
{
    uint32_t cell = 0;

    while (cell < heat->cells && record[cell])
        cell++;
    return cell;
}

void okv_heat_add(const struct okv_heat *heat, uint8_t *record, uint16_t tag, uint8_t item)
{
    uint32_t cell = cell_of(heat, record, tag);

    if (!is_own(heat, record, cell, tag)) {
        uint32_t own = free_cell(heat, record);
        if (own < heat->cells) {
            record[cell = own] = high_of(tag);
            record[heat->cells + cell] = (uint8_t)tag;
        }
    }
    /* Of items that share a cell the hottest counts. */
    if (item > cell_get(heat, record, cell))
        cell_set(heat, record, cell, item);
}

void okv_heat_store(const struct okv_heat *heat, const uint8_t *record, uint64_t bucket)
{
    uint8_t *to = record_of(heat, bucket);

    for (uint32_t i = 0; i < heat->stride; i++)
        set(to + i, record[i]);
}
