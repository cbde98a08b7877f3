#include "server/wal/background.h"

#include <sys/resource.h>

#define PIECE (UINT64_C(64) << 10)
#define NICENESS 10

/* On Linux it is of the thread: setpriority(2), "C library/kernel differences". */
void okv_background_begin(void)
{
    setpriority(PRIO_PROCESS, 0, NICENESS);
}

int okv_background_write(struct okv_files *files, struct okv_file *file, const uint8_t *bytes,
                         uint64_t length, uint64_t offset, bool is_alone)
{
    int rc = 0;

    for (uint64_t at = 0; rc == 0 && at < length; at += PIECE) {
        uint64_t piece = length - at < PIECE ? length - at : PIECE;
        struct iovec vector = {(void *)(bytes + at), piece};
        rc = files->ops->write(file, &vector, 1, offset + at);
        if (rc == 0 && !is_alone)
            rc = files->ops->write_out(file, offset + at, piece);
    }
    return rc;
}
