/*
 * The files of one directory, as the log uses them. The table of functions is the seam at which
 * tests keep what was not synced from the disk, and make calls fail.
 *
 * Every call returns 0 or a negative errno value, and may block as long as the disk does. Names
 * have no directory in them.
 */
#ifndef OKV_SERVER_WAL_FILE_H
#define OKV_SERVER_WAL_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct okv_files;
struct okv_file;

struct okv_file_ops {
    /* Creates a file that does not exist, for writing. Its name is durable after sync_names. */
    int (*create)(struct okv_files *files, const char *name, struct okv_file **out);
    /* Opens a file for writing over what it has. */
    int (*reopen)(struct okv_files *files, const char *name, struct okv_file **out);
    /* Opens a file for reading. */
    int (*open)(struct okv_files *files, const char *name, struct okv_file **out);
    void (*close)(struct okv_file *file);
    /* Writes all bytes of the vectors, whose entries may change. On failure some may be written. */
    int (*write)(struct okv_file *file, struct iovec *vectors, unsigned count, uint64_t offset);
    /* Has the file system keep space for these bytes of the file, whose size stays: a write there
     * does not find the disk full. -ENOSPC, -EDQUOT. 0 also where a file system cannot do that. */
    int (*reserve)(struct okv_file *file, uint64_t offset, uint64_t length);
    /* Takes away what a file has, and has reserved, from `end` on. */
    int (*trim)(struct okv_files *files, const char *name, uint64_t end);
    /* What was written is durable afterwards. After a failure nothing is known of it, and another
     * sync may succeed without it. -ENOENT: somebody removed the file, and what was written goes
     * with the process. */
    int (*sync)(struct okv_file *file);
    /* Has the kernel write these bytes to the disk and waits for that. They are not durable: that
     * takes a sync, which waits for less then. 0 also where a system cannot do that. */
    int (*write_out)(struct okv_file *file, uint64_t offset, uint64_t length);
    /* Reads up to `length` bytes; *got is less only at the end of the file. */
    int (*read)(struct okv_file *file, void *buffer, size_t length, uint64_t offset, size_t *got);
    /* The bytes of the file. */
    int (*size)(struct okv_file *file, uint64_t *out);
    /* Gives a file another name, that of an older file perhaps, which goes. */
    int (*rename)(struct okv_files *files, const char *from, const char *to);
    int (*remove)(struct okv_files *files, const char *name);
    /* Names that were created, changed and removed are durable afterwards. */
    int (*sync_names)(struct okv_files *files);
    /* Calls `each` with every name; it returns 0 to go on. Returns what it returned last. */
    int (*list)(struct okv_files *files, int (*each)(const char *name, void *user), void *user);
};

struct okv_files {
    const struct okv_file_ops *ops;
};

/* A directory of the file system. */
struct okv_directory {
    struct okv_files files;
    int fd;
    int lock; /* holds flock on the file `lock` */
};

/* Creates the directory if there is none, and makes its name durable. Returns 0 or a negative
 * errno; -EPERM: it belongs to another user, or everybody may write it. */
int okv_directory_make(const char *path);
/* Opens the directory and creates it if there is none; its parent must exist. -EBUSY: another
 * process has it. */
int okv_directory_open(struct okv_directory *directory, const char *path);
/* Opens one that is there for reading, and creates nothing, not even the lock. Others may read it
 * as well, and no server has it meanwhile. -EBUSY: one has. */
int okv_directory_open_shared(struct okv_directory *directory, const char *path);
void okv_directory_close(struct okv_directory *directory);

#endif
