/*
 * What a power cut leaves of a disk, made of the log that dm-log-writes kept of its writes:
 * docs.kernel.org/admin-guide/device-mapper/log-writes.html.
 *
 * An entry of the log is a write, a flush or a mark, in the order in which they ended. A cut comes
 * behind any entry. What was written before the last flush is on the disk then, and so is a write
 * that forces its way to it (FUA). Of each other write any sectors are, or none.
 *
 * What fails fails the test.
 */
#ifndef OKV_TESTS_WRITE_LOG_H
#define OKV_TESTS_WRITE_LOG_H

#include <stdint.h>

struct write_log_entry {
    uint64_t flags;
    uint64_t offset; /* on the disk, in bytes */
    uint64_t length;
    uint64_t data; /* where its bytes are in the log */
};

struct write_log {
    int log;   /* the device or file that dm-log-writes wrote, after the end of its target */
    int image; /* what is on the disk for sure */
    uint64_t entries;
    uint64_t next;                   /* entry */
    uint64_t next_data;              /* where it is in the log */
    uint64_t unit;                   /* of offsets and lengths in the log, in bytes */
    struct write_log_entry *pending; /* writes that a cut may spoil */
    unsigned pending_count, pending_capacity;
};

/* `image` has what the disk had before the first write; the file is changed. */
void write_log_open(struct write_log *log, const char *log_path, const char *image_path);
void write_log_close(struct write_log *log);

/* Goes on behind entry `end` - 1. `on_mark` is called with the text of each mark on the way. */
void write_log_advance(struct write_log *log, uint64_t end,
                       void (*on_mark)(void *user, const char *text), void *user);
/* A cut here: `path` becomes what it leaves. `random` decides which sectors are lost. */
void write_log_cut(struct write_log *log, const char *image_path, const char *path,
                   uint64_t *random);

#endif
