#include "server/wal/background.h"

#include <sys/resource.h>

#define PIECE (UINT64_C(64) << 10)
#define NICENESS 10

/* On Linux it is of the thread: setpriority(2), "C library/kernel differences". */
void okv_background_begin(void)
{
    setpriority(PRIO_PROCESS, 0, NICENESS);
}

/* However short the parts are that its bytes come in: each takes as long as a sync. */
static int end_piece(struct okv_background *output, struct okv_diag *why)
{
    uint64_t begin = output->on_disk;

    output->on_disk = output->end;
    if (output->is_alone)
        return 0;
    return output->files->ops->write_out(output->file, begin, output->end - begin, why);
}

int okv_background_write(struct okv_background *output, const struct iovec *bytes,
                         struct okv_diag *why)
{
    int rc = 0;

    for (uint64_t at = 0; rc == 0 && at < bytes->iov_len;) {
        uint64_t left = bytes->iov_len - at, room = output->on_disk + PIECE - output->end;
        uint64_t length = left < room ? left : room;
        struct iovec part = {(uint8_t *)bytes->iov_base + at, length};
        rc = output->files->ops->write(output->file, &part, 1, output->end, why);
        at += length;
        output->end += length;
        if (rc == 0 && length == room)
            rc = end_piece(output, why);
    }
    return rc;
}
