/*
 * Opening of regular files only, without waiting: a FIFO would wait for its other end, and to open
 * a device may have effects. Any thread.
 */
#ifndef OKV_SHARED_BASE_REGULAR_FILE_H
#define OKV_SHARED_BASE_REGULAR_FILE_H

#include "shared/base/diag.h"

/* openat(), where a file that is created is for this user alone. Returns a descriptor that is
 * closed on exec, or -1 with errno. */
int okv_regular_file_open(int directory, const char *path, int flags);
/* What that errno means. */
const char *okv_regular_file_error(int error);

/* What others may do with a file. */
enum okv_file_trust {
    OKV_FILE_OTHERS_READ, /* nobody else may change it */
    /* It holds secrets: nor read it, except a group to which root gives one for a process that is
     * not root's. */
    OKV_FILE_OTHERS_NEVER,
};

/* Bytes of such a file. One that has more, such as a sparse one of terabytes, would be read for
 * hours. */
#define OKV_TRUSTED_FILE_MAX (1 << 20)

/* Opens a file for reading that belongs to this process's user or root and has at most
 * OKV_TRUSTED_FILE_MAX bytes. Follows symbolic links. Any other file is not opened at all. Needs
 * /proc. Returns a descriptor, which is non-blocking and closed on exec; or OKV_EPERM, OKV_EINVAL,
 * OKV_ENOMEM or OKV_EIO with a sentence that says what to do. */
int okv_trusted_file_open(const char *path, enum okv_file_trust trust, struct okv_diag *diag);

/* The end of a path, short enough to leave room in a sentence for what is said about it. */
const char *okv_file_shown(const char *path);

#endif
