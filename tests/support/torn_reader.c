#include "tests/support/torn_reader.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/base/ordering.h"

/* Rejected images in a row after which the reader reads the number of buckets. */
#define FAILURES_MAX 16
#define LINE 64

/* The read of one group. */
struct group_read {
    unsigned group;
    uint64_t bucket;
    unsigned depth;
    uint64_t version;
    uint64_t done;   /* steps that were answered before it began */
    bool incomplete; /* an extent was rejected */
};

static uint32_t below(struct torn_reader *reader, uint32_t limit)
{
    reader->random = reader->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((reader->random >> 32) * limit >> 32);
}

__attribute__((format(printf, 2, 3))) static bool complain(struct torn_reader *reader,
                                                           const char *format, ...)
{
    va_list arguments;

    if (reader->counts.wrong++ == 0) {
        va_start(arguments, format);
        vsnprintf(reader->complaint, sizeof reader->complaint, format, arguments);
        va_end(arguments);
    }
    return false;
}

void torn_reader_init(struct torn_reader *reader, struct torn_table *table, uint64_t seed)
{
    const unsigned lines = table->shape->bucket_size / LINE;

    memset(reader, 0, sizeof *reader);
    reader->table = table;
    reader->random = torn_mix(seed);
    reader->thought = 1;
    for (unsigned i = 0; i < TORN_ORDERS; i++) {
        uint8_t *order = reader->orders[i];
        for (unsigned line = 0; line < lines; line++) {
            unsigned other = below(reader, line + 1);
            order[line] = order[other];
            order[other] = (uint8_t)line;
        }
    }
}

/* ---- copying ---- */

/* Plain loads that the compiler keeps. The race with the writer is the purpose, so the thread
 * sanitizer ignores it. */
__attribute__((no_sanitize("thread"))) static void copy_words(uint64_t *to, const uint8_t *from,
                                                              unsigned words)
{
    const volatile uint64_t *source = (const volatile uint64_t *)from;

    for (unsigned i = 0; i < words; i++)
        to[i] = source[i];
}

static void pause_at_random(struct torn_reader *reader)
{
    uint32_t random = below(reader, 1u << 16);

    if (random < 128)
        sched_yield();
    else if (random < 1u << 14)
        for (uint32_t i = 0; i < random % 32; i++)
            __asm__ volatile("" ::: "memory");
}

static void copy_line(struct torn_reader *reader, uint8_t *to, uint64_t offset, uint32_t length)
{
    copy_words((uint64_t *)(void *)to, reader->table->base + offset, length / 8);
    pause_at_random(reader);
}

static void copy_bucket(struct torn_reader *reader, uint8_t *to, uint64_t offset)
{
    const uint8_t *order = reader->orders[below(reader, TORN_ORDERS)];
    const unsigned lines = reader->table->shape->bucket_size / LINE;

    for (unsigned i = 0; i < lines; i++)
        copy_line(reader, to + order[i] * LINE, offset + order[i] * LINE, LINE);
}

/* Copies the lines in a random order: from a random one on, by a random odd step. */
static void copy_used(struct torn_reader *reader, uint64_t offset, uint32_t length)
{
    uint32_t lines = (length + LINE - 1) / LINE, power = 1;

    while (power < lines)
        power *= 2;
    uint32_t at = below(reader, power), step = below(reader, power) | 1;
    for (uint32_t i = 0; i < power; i++, at = (at + step) % power) {
        if (at >= lines)
            continue;
        uint32_t rest = length - at * LINE;
        copy_line(reader, reader->extent + at * LINE, offset + at * LINE,
                  rest < LINE ? rest : LINE);
    }
}

/* ---- finding the bucket ---- */

/* From the status block, if it can be read. */
static void read_bucket_count(struct torn_reader *reader)
{
    struct okv_table_status status;
    uint64_t words[sizeof(struct okv_wire_status) / 8];

    copy_words(words, reader->table->base + OKV_STATUS_OFFSET, sizeof words / sizeof *words);
    if (okv_status_decode((const uint8_t *)words, reader->table->store.table.boot_id, &status) == 0)
        reader->thought = status.bucket_count;
    reader->failures = 0;
}

/* The offset of a bucket according to the directory; 0: the directory has none. */
static uint64_t bucket_offset(const struct torn_reader *reader, uint64_t bucket)
{
    const struct okv_table *table = &reader->table->store.table;
    uint64_t segment = bucket / table->segment_buckets, entry;
    uint64_t length = (uint64_t)table->segment_buckets * table->bucket_size;

    if (segment >= OKV_DIRECTORY_ENTRIES)
        return 0;
    copy_words(&entry, reader->table->base + OKV_DIRECTORY_OFFSET + segment * 8, 1);
    uint64_t begin = okv_get_u64((const uint8_t *)&entry);
    if (begin == 0 || begin % LINE || !okv_range_inside(begin, length, reader->table->length))
        return 0;
    return begin + bucket % table->segment_buckets * table->bucket_size;
}

#ifdef TORN_VERSION_ONLY
static uint64_t version_word(const struct torn_reader *reader, uint64_t offset)
{
    uint64_t word;

    copy_words(&word, reader->table->base + offset + 8, 1);
    return word & ((UINT64_C(1) << 48) - 1);
}
#endif

/* Copies an image and checks it as a client does. True: it is accepted. */
static bool read_image(struct torn_reader *reader, uint8_t *image, uint64_t offset, uint64_t bucket,
                       unsigned page)
{
    const struct okv_table *table = &reader->table->store.table;

#ifdef TORN_VERSION_ONLY
    uint64_t before = version_word(reader, offset);
    copy_bucket(reader, image, offset);
    bool whole = version_word(reader, offset) == before && okv_bucket_version(image) == before;
#else
    copy_bucket(reader, image, offset);
    bool whole = true;
#endif
    okv_snapshot_fence();
    if (whole && okv_bucket_check(image, table->bucket_size, table->boot_id, bucket, page) == 0) {
        reader->counts.accepted++;
        reader->counts.pages += page > 0;
        reader->failures = 0;
        return true;
    }
    reader->counts.rejected++;
    if (++reader->failures >= FAILURES_MAX)
        read_bucket_count(reader);
    return false;
}

/* Reads the primary page of the group's bucket; follows splits. */
static bool find_bucket(struct torn_reader *reader, struct group_read *read)
{
    uint64_t hash = reader->table->groups[read->group].hash;

    for (unsigned reads = 0; reads < FAILURES_MAX; reads++) {
        read->bucket = okv_linear_bucket(hash, reader->thought);
        uint64_t offset = bucket_offset(reader, read->bucket);
        if (!offset) {
            read_bucket_count(reader);
            continue;
        }
        if (!read_image(reader, reader->image, offset, read->bucket, 0))
            return false;
        read->depth = okv_bucket_depth(reader->image);
        read->version = okv_bucket_version(reader->image);
        reader->thought = okv_linear_learn(reader->thought, read->bucket, read->depth);
        if (okv_hash_bucket(hash, read->depth) == read->bucket)
            return true;
        reader->counts.moved++;
    }
    return false;
}

/* ---- checking accepted images ---- */

static bool check_key(struct torn_reader *reader, const struct group_read *read,
                      const struct okv_entry *entry, const uint8_t *key, unsigned *id)
{
    const struct torn_table *table = reader->table;

    if (entry->key_length != TORN_KEY_SIZE)
        return complain(reader, "a key of %" PRIu32 " bytes", entry->key_length);
    *id = okv_get_u32(key);
    if (*id >= TORN_IDS || memcmp(key, table->keys[*id], TORN_KEY_SIZE) != 0)
        return complain(reader, "a key that there is not, number %u", *id);
    uint64_t hash = okv_hash_key(key, TORN_KEY_SIZE, table->store.table.hash_seed);
    if (okv_hash_bucket(hash, read->depth) != read->bucket)
        return complain(reader, "key %u in bucket %" PRIu64 " of depth %u", *id, read->bucket,
                        read->depth);
    if (entry->key_in_extent && entry->tag != okv_hash_tag(hash))
        return complain(reader, "key %u under another key's tag", *id);
    return true;
}

/* Value and version of an item, and whether it went back in time. */
static bool check_item(struct torn_reader *reader, const struct group_read *read,
                       const struct okv_entry *entry, unsigned id, const uint8_t *value, bool first)
{
    uint8_t expected[TORN_VALUE_MAX];
    uint64_t counter = entry->value_length < 8 ? 0 : okv_get_u64(value);
    uint32_t length = torn_value(reader->table->shape, id, counter, expected);
    uint64_t last_version = reader->last[id].version, last_counter = reader->last[id].counter;

    if (entry->value_length != length || memcmp(value, expected, length) != 0)
        return complain(reader, "key %u: a value that never was, counter %" PRIu64, id, counter);
    if (entry->version < last_version || counter < last_counter ||
        (entry->version == last_version) != (counter == last_counter && last_version != 0))
        return complain(
            reader, "key %u: version %" PRIu64 " with %" PRIu64 " after %" PRIu64 " with %" PRIu64,
            id, entry->version, counter, last_version, last_counter);
    bool of_group = id / TORN_KEYS_MAX == read->group;
    if (of_group && !torn_version_may_be(reader->table, read->group, counter, entry->version))
        return complain(reader, "key %u: version %" PRIu64 " is not that of %" PRIu64, id,
                        entry->version, counter);
    reader->last[id].version = entry->version;
    reader->last[id].counter = counter;
    if (!of_group)
        return true;
    if (reader->seen[id % TORN_KEYS_MAX])
        return complain(reader, "key %u twice", id);
    reader->seen[id % TORN_KEYS_MAX] = counter;
    reader->in_first[id % TORN_KEYS_MAX] = first;
    return true;
}

static bool read_reference(struct torn_reader *reader, struct group_read *read,
                           const struct okv_entry *entry, bool first)
{
    const struct torn_table *table = reader->table;
    uint64_t length = (okv_entry_extent_length(entry) + 7) & ~UINT64_C(7);
    const uint8_t *bytes = reader->extent;
    unsigned id;

    if (length > sizeof reader->extent || entry->extent % 8 ||
        !okv_range_inside(entry->extent, length, table->length))
        return complain(reader, "an extent of %" PRIu64 " bytes at %" PRIu64, length,
                        entry->extent);
    copy_used(reader, entry->extent, (uint32_t)length);
    okv_snapshot_fence();
    if (okv_extent_check(entry, bytes, table->store.table.boot_id, bytes, entry->key_length) != 0) {
        reader->counts.extents_rejected++;
        read->incomplete = true;
        return true;
    }
    reader->counts.extents++;
    return check_key(reader, read, entry, entry->key_in_extent ? bytes : entry->key, &id) &&
           check_item(reader, read, entry, id,
                      bytes + (entry->key_in_extent ? entry->key_length : 0), first);
}

static bool read_entries(struct torn_reader *reader, struct group_read *read, const uint8_t *image,
                         bool first)
{
    struct okv_entry entry;
    uint32_t position = 0;
    unsigned id;
    int rc;

    while ((rc = okv_bucket_next(image, &position, &entry)) == 1) {
        bool good = entry.is_reference
                        ? read_reference(reader, read, &entry, first)
                        : check_key(reader, read, &entry, entry.key, &id) &&
                              check_item(reader, read, &entry, id, entry.value, first);
        if (!good)
            return false;
    }
    return rc == 0 || complain(reader, "an entry that makes no sense");
}

/* Reads the overflow pages, if all have the version of the primary page. */
static bool read_overflow_pages(struct torn_reader *reader, struct group_read *read)
{
    const struct torn_table *table = reader->table;
    uint64_t chain = okv_bucket_chain(reader->image);

    for (unsigned page = 1; chain; page++) {
        if (page >= OKV_BUCKET_PAGES_MAX || chain % 8 ||
            !okv_range_inside(chain, table->shape->bucket_size, table->length))
            return complain(reader, "page %u at %" PRIu64, page, chain);
        if (!read_image(reader, reader->page, chain, read->bucket, page))
            return false;
        if (okv_bucket_version(reader->page) != read->version)
            return false;
        if (!read_entries(reader, read, reader->page, false))
            return false;
        chain = okv_bucket_chain(reader->page);
    }
    return true;
}

/* A search for a key must find what the walk over all entries found. */
static bool check_find(struct torn_reader *reader, const struct group_read *read)
{
    unsigned key = below(reader, reader->table->shape->keys),
             id = read->group * TORN_KEYS_MAX + key;
    const uint8_t *bytes = reader->table->keys[id];
    uint64_t hash = okv_hash_key(bytes, TORN_KEY_SIZE, reader->table->store.table.hash_seed);
    struct okv_entry entry;
    uint32_t position = 0;
    int rc = okv_bucket_find(reader->image, hash, bytes, TORN_KEY_SIZE, &position, &entry);

    if (rc == reader->in_first[key] || (rc == 1 && entry.key_in_extent))
        return true;
    return complain(reader, "a search for key %u gave %d", id, rc);
}

/* True when the counters are those of a group after so many steps. */
static bool is_state(const struct torn_reader *reader, unsigned group, uint64_t steps)
{
    const struct torn_shape *shape = reader->table->shape;

    for (unsigned key = 0; key < shape->keys; key++)
        if (reader->seen[key] != torn_counter_after(shape, group, steps, key))
            return false;
    return true;
}

/* All counters of the group must have been current together at a moment since the read began. */
static bool check_state(struct torn_reader *reader, const struct group_read *read)
{
    const struct torn_shape *shape = reader->table->shape;
    uint64_t begun = atomic_load(&reader->table->groups[read->group].begun);
    uint64_t steps = 0;

    for (unsigned key = 0; key < shape->keys; key++)
        if (steps < reader->seen[key])
            steps = reader->seen[key];
    /* Steps after the highest counter can only have deleted. */
    while (!is_state(reader, read->group, steps))
        if (!torn_step_deletes(shape, read->group, ++steps))
            return complain(reader, "group %u, version %" PRIu64 ": no state at all", read->group,
                            read->version);
    while (steps < read->done && torn_step_deletes(shape, read->group, steps + 1) &&
           is_state(reader, read->group, steps + 1))
        steps++; /* a delete of a missing key changes nothing */
    if (steps < read->done || steps > begun)
        return complain(reader, "group %u: step %" PRIu64 ", with %" PRIu64 " to %" PRIu64 " due",
                        read->group, steps, read->done, begun);
    if (steps < reader->last_steps[read->group] ||
        read->version < reader->last_version[read->group])
        return complain(reader, "group %u: step %" PRIu64 " after %" PRIu64, read->group, steps,
                        reader->last_steps[read->group]);
    reader->last_steps[read->group] = steps;
    reader->last_version[read->group] = read->version;
    reader->counts.states++;
    return true;
}

void torn_reader_read_group(struct torn_reader *reader, unsigned group)
{
    struct group_read read = {.group = group,
                              .done = atomic_load(&reader->table->groups[group].done)};

    memset(reader->seen, 0, sizeof reader->seen);
    memset(reader->in_first, 0, sizeof reader->in_first);
    if (!find_bucket(reader, &read) || !read_entries(reader, &read, reader->image, true) ||
        !read_overflow_pages(reader, &read) || read.incomplete)
        return;
    if (check_find(reader, &read))
        check_state(reader, &read);
}
