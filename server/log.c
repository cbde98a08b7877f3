#include "server/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

void okv_log_init(struct okv_log *log, int fd)
{
    *log = (struct okv_log){.fd = fd};
    pthread_mutex_init(&log->lock, NULL);
}

/* Writes the whole line or nothing: a pipe that is ready takes at least PIPE_BUF bytes. */
static bool write_line(const struct okv_log *log, const char *text)
{
    struct pollfd ready = {.fd = log->fd, .events = POLLOUT};
    char line[OKV_LOG_TEXT_MAX + 16];

    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT))
        return false;
    int length = snprintf(line, sizeof line, "okv-server: %.*s\n", OKV_LOG_TEXT_MAX, text);
    return write(log->fd, line, (size_t)length) == length;
}

static bool write_left_out(struct okv_log *log)
{
    char text[OKV_LOG_TEXT_MAX];

    snprintf(text, sizeof text,
             "%" PRIu64 " more lines, of connections that ended or were refused or of reloads, are "
             "left out: see closed_, rejected_ and users_ in okv stat",
             log->left_out);
    if (!write_line(log, text))
        return false;
    log->left_out = 0;
    log->lines++;
    return true;
}

void okv_log_fini(struct okv_log *log)
{
    if (log->left_out)
        write_left_out(log);
    pthread_mutex_destroy(&log->lock);
}

void okv_log_line(struct okv_log *log, uint64_t now_ns, const char *text)
{
    pthread_mutex_lock(&log->lock);
    /* Each thread reads the clock before it locks, so times may arrive out of order. */
    if (now_ns > log->second_ns && now_ns - log->second_ns >= SECOND_NS) {
        log->second_ns = now_ns;
        log->lines = 0;
        if (log->left_out)
            write_left_out(log);
    }
    if (log->lines >= OKV_LOG_LINES_MAX || log->left_out || !write_line(log, text))
        log->left_out++;
    else
        log->lines++;
    pthread_mutex_unlock(&log->lock);
}

void okv_log_notice(struct okv_log *log, const char *text)
{
    pthread_mutex_lock(&log->lock);
    write_line(log, text);
    pthread_mutex_unlock(&log->lock);
}
