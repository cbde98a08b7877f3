#include "server/core/progress.h"

#include <stdio.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define INTERVAL_NS (SECOND_NS / 5)
#define CLEAR "\r\033[K"

void okv_progress_begin(struct okv_progress *progress, int fd, const char *what, uint64_t total,
                        uint64_t now_ns)
{
    *progress = (struct okv_progress){.fd = fd, .what = what, .total = total, .begun_ns = now_ns};
}

/* A terminal that takes no more is no reason to fail. */
static void write_all(int fd, const char *text, int length)
{
    if (write(fd, text, (size_t)length) < 0)
        return;
}

void okv_progress_show(struct okv_progress *progress, uint64_t bytes, uint64_t items,
                       uint64_t now_ns)
{
    char text[160];
    double share = progress->total ? (double)bytes / (double)progress->total : 0;

    if (progress->fd < 0 || bytes == 0 || share <= 0 || now_ns < progress->begun_ns + SECOND_NS ||
        now_ns < progress->shown_ns + INTERVAL_NS)
        return;
    share = share > 1 ? 1 : share;
    double seconds = (double)(now_ns - progress->begun_ns) / (double)SECOND_NS;
    int length =
        snprintf(text, sizeof text, CLEAR "%s: %llu items, %.0f of %.0f MiB (%.0f %%), %.0f s left",
                 progress->what, (unsigned long long)items, (double)bytes / 0x1p20,
                 (double)progress->total / 0x1p20, 100 * share, seconds / share - seconds);
    write_all(progress->fd, text, length < (int)sizeof text ? length : (int)sizeof text - 1);
    progress->shown_ns = now_ns;
    progress->is_shown = true;
}

void okv_progress_end(struct okv_progress *progress)
{
    if (progress->is_shown)
        write_all(progress->fd, CLEAR, sizeof CLEAR - 1);
    progress->is_shown = false;
}
