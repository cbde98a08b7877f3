/*
 * The files of one directory, as the log uses them. The table of functions is the seam at which
 * tests drop what was not synced, and make calls fail. Above it nobody sees an errno.
 *
 * A call returns 0 or a result code, and may block as long as the disk does. `why`, which may be
 * NULL, then has the system's words for the failure. OKV_EDISKFULL: no space, or over quota;
 * OKV_ENOTFOUND: no such file; OKV_EEXISTS, OKV_EPERM, OKV_ENOMEM; OKV_EIO: anything else. Names
 * have no directory in them.
 */
#ifndef OKV_SERVER_WAL_FILE_H
#define OKV_SERVER_WAL_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "shared/base/diag.h"

struct okv_files;
struct okv_file;

struct okv_file_ops {
    /* Creates a file that does not exist, for writing. Its name is durable after sync_names. */
    int (*create)(struct okv_files *files, const char *name, struct okv_file **out,
                  struct okv_diag *why);
    /* Opens a file for writing over its contents. */
    int (*reopen)(struct okv_files *files, const char *name, struct okv_file **out,
                  struct okv_diag *why);
    /* Opens a file for reading. */
    int (*open)(struct okv_files *files, const char *name, struct okv_file **out,
                struct okv_diag *why);
    void (*close)(struct okv_file *file);
    /* Writes all bytes of the vectors, whose entries may change. On failure some may be written. */
    int (*write)(struct okv_file *file, struct iovec *vectors, unsigned count, uint64_t offset,
                 struct okv_diag *why);
    /* Reserves disk space for these bytes of the file, whose size stays: a later write there does
     * not find the disk full. 0 also where the file system cannot do that. */
    int (*reserve)(struct okv_file *file, uint64_t offset, uint64_t length, struct okv_diag *why);
    /* Removes the bytes of a file, and its reserved space, from `end` on. */
    int (*trim)(struct okv_files *files, const char *name, uint64_t end, struct okv_diag *why);
    /* Makes durable what was written. After a failure the contents of the disk are unknown, and
     * another sync may succeed without them. OKV_ENOTFOUND: the file was removed, and what was
     * written is lost with the process. */
    int (*sync)(struct okv_file *file, struct okv_diag *why);
    /* Makes the kernel write these bytes to the disk and waits for that. They are not durable: that
     * takes a sync, which waits for less then. 0 also where the system cannot do that. */
    int (*write_out)(struct okv_file *file, uint64_t offset, uint64_t length, struct okv_diag *why);
    /* Reads up to `length` bytes; *got is less only at the end of the file. */
    int (*read)(struct okv_file *file, void *buffer, size_t length, uint64_t offset, size_t *got,
                struct okv_diag *why);
    /* The bytes of the file. */
    int (*size)(struct okv_file *file, uint64_t *out, struct okv_diag *why);
    /* Renames a file, and replaces one of that name. */
    int (*rename)(struct okv_files *files, const char *from, const char *to, struct okv_diag *why);
    int (*remove)(struct okv_files *files, const char *name, struct okv_diag *why);
    /* Makes durable which names were created, changed and removed. */
    int (*sync_names)(struct okv_files *files, struct okv_diag *why);
    /* Calls `each` with every name; it returns 0 to continue. Returns what it returned last, or
     * why the directory cannot be read. */
    int (*list)(struct okv_files *files, int (*each)(const char *name, void *user), void *user,
                struct okv_diag *why);
};

struct okv_files {
    const struct okv_file_ops *ops;
};

/* Sets *why to the text of an errno value. Returns its result code. For implementations. */
int okv_file_failed(int error, struct okv_diag *why);

/* A directory of the file system. */
struct okv_directory {
    struct okv_files files;
    int fd;
    int lock; /* holds flock on the file `lock` */
};

/* Creates the directory if there is none, and makes its name durable. OKV_EPERM: it belongs to
 * another user, or everybody may write to it. Other codes as above. */
int okv_directory_make(const char *path, struct okv_diag *why);
/* Opens the directory and creates it if there is none; its parent must exist. OKV_EAGAIN: another
 * process has it. Other codes as of okv_directory_make(). */
int okv_directory_open(struct okv_directory *directory, const char *path, struct okv_diag *why);
/* Opens an existing directory for reading, and creates nothing, not even the lock. Other readers
 * may have it open as well, a server may not: OKV_EAGAIN. */
int okv_directory_open_shared(struct okv_directory *directory, const char *path,
                              struct okv_diag *why);
void okv_directory_close(struct okv_directory *directory);

/* Opens a regular file anywhere, for reading. Returns its descriptor, which the caller closes, or a
 * result code. */
int okv_source_open(const char *path, struct okv_diag *why);
/* Reads up to `length` bytes; *got is less only at the end. */
int okv_source_read(int fd, void *buffer, size_t length, uint64_t offset, size_t *got,
                    struct okv_diag *why);

#endif
