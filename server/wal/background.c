#include "server/wal/background.h"

#include <sys/resource.h>

#define PIECE (UINT64_C(64) << 10)
#define NICENESS 10

/* On Linux it is of the thread: setpriority(2), "C library/kernel differences". */
void okv_background_begin(void)
{
    setpriority(PRIO_PROCESS, 0, NICENESS);
}

int okv_background_write(struct okv_files *files, struct okv_file *file, const struct iovec *vector,
                         uint64_t offset, bool is_alone, struct okv_diag *why)
{
    int rc = 0;

    for (uint64_t at = 0; rc == 0 && at < vector->iov_len; at += PIECE) {
        uint64_t left = vector->iov_len - at;
        struct iovec piece = {(uint8_t *)vector->iov_base + at, left < PIECE ? left : PIECE};
        uint64_t length = piece.iov_len;
        rc = files->ops->write(file, &piece, 1, offset + at, why);
        if (rc == 0 && !is_alone)
            rc = files->ops->write_out(file, offset + at, length, why);
    }
    return rc;
}
