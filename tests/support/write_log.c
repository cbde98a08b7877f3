#include "tests/support/write_log.h"

#include <endian.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/block_device.h"
#include "tests/support/random.h"

#define MAGIC UINT64_C(0x6a736677736872)
#define MARK_MAX 128u

enum { FLUSH = 1, FUA = 2, DISCARD = 4, MARK = 8 };

/* All fields are little-endian. */
struct wire_super {
    uint64_t magic, version, entries;
    uint32_t unit;
};

struct wire_entry {
    uint64_t offset, length; /* in units */
    uint64_t flags;
    uint64_t mark_length; /* of the text behind this */
};

static void read_all(int fd, void *bytes, uint64_t length, uint64_t offset)
{
    assert_int_equal(pread(fd, bytes, length, (off_t)offset), length);
}

void write_log_open(struct write_log *log, const char *log_path, const char *image_path)
{
    struct wire_super super;

    *log = (struct write_log){.log = open(log_path, O_RDONLY | O_CLOEXEC)};
    log->image = open(image_path, O_WRONLY | O_CLOEXEC);
    assert_true(log->log >= 0 && log->image >= 0);
    read_all(log->log, &super, sizeof super, 0);
    assert_int_equal(le64toh(super.magic), MAGIC);
    assert_int_equal(le64toh(super.version), 1);
    log->entries = le64toh(super.entries);
    log->unit = le32toh(super.unit);
    assert_true(log->unit >= BLOCK_SECTOR);
    log->next_data = log->unit;
}

void write_log_close(struct write_log *log)
{
    close(log->log);
    close(log->image);
    free(log->pending);
}

/* ---- entries ---- */

static struct write_log_entry read_entry(struct write_log *log, char mark[MARK_MAX])
{
    struct wire_entry wire;

    read_all(log->log, &wire, sizeof wire, log->next_data);
    struct write_log_entry entry = {
        .flags = le64toh(wire.flags),
        .offset = le64toh(wire.offset) * log->unit,
        .length = le64toh(wire.length) * log->unit,
        .data = log->next_data + log->unit,
    };
    if (entry.flags & MARK) {
        uint64_t length = le64toh(wire.mark_length);
        assert_in_range(length, 0, MARK_MAX - 1);
        read_all(log->log, mark, length, log->next_data + sizeof wire);
        mark[length] = '\0';
    }
    if (entry.flags & DISCARD) /* what was there may stay, and no bytes follow */
        entry.length = 0;
    log->next++;
    log->next_data = entry.data + entry.length;
    return entry;
}

/* Writes all sectors, or each with a chance of `quarters` of 4. */
static void apply(const struct write_log *log, const struct write_log_entry *entry, int image,
                  unsigned quarters, uint64_t *random)
{
    uint8_t *bytes = malloc(entry->length);

    assert_non_null(bytes);
    read_all(log->log, bytes, entry->length, entry->data);
    for (uint64_t at = 0; at < entry->length; at += BLOCK_SECTOR)
        if (quarters == 4 || random_below(random, 4) < quarters)
            assert_int_equal(pwrite(image, bytes + at, BLOCK_SECTOR, (off_t)(entry->offset + at)),
                             BLOCK_SECTOR);
    free(bytes);
}

static void add_pending(struct write_log *log, const struct write_log_entry *entry)
{
    if (log->pending_count == log->pending_capacity) {
        log->pending_capacity = log->pending_capacity ? 2 * log->pending_capacity : 64;
        log->pending = realloc(log->pending, log->pending_capacity * sizeof *log->pending);
        assert_non_null(log->pending);
    }
    log->pending[log->pending_count++] = *entry;
}

static void flush(struct write_log *log)
{
    for (unsigned i = 0; i < log->pending_count; i++)
        apply(log, &log->pending[i], log->image, 4, NULL);
    log->pending_count = 0;
}

void write_log_advance(struct write_log *log, uint64_t end,
                       void (*on_mark)(void *user, const char *text), void *user)
{
    char mark[MARK_MAX];

    assert_true(end <= log->entries);
    while (log->next < end) {
        struct write_log_entry entry = read_entry(log, mark);
        if (entry.flags & MARK)
            on_mark(user, mark);
        if (entry.flags & FLUSH) /* of what was written before it, and not of its own bytes */
            flush(log);
        if (entry.length > 0)
            add_pending(log, &entry);
    }
}

void write_log_cut(struct write_log *log, const char *image_path, const char *path,
                   uint64_t *random)
{
    unsigned quarters = (unsigned)random_below(random, 5);

    shell("cp --sparse=always %s %s", image_path, path);
    int image = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(image >= 0);
    for (unsigned i = 0; i < log->pending_count; i++)
        apply(log, &log->pending[i], image, log->pending[i].flags & FUA ? 4 : quarters, random);
    close(image);
}
