#include "server/core/log.h"

#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/printable.h"

#define SECOND_NS UINT64_C(1000000000)
/* A byte of the text may take six in JSON. */
#define LINE_MAX (6 * OKV_LOG_TEXT_MAX + 128)
#define TIME_SIZE sizeof "2000-01-01T00:00:00.000Z"

static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long device, inode;
    struct stat status;

    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &status) == 0 &&
           status.st_dev == device && status.st_ino == inode;
}

static enum okv_log_format choose_format(const struct okv_log *log, enum okv_log_format format)
{
    if (format != OKV_LOG_AUTO)
        return format;
    return log->is_journal || log->is_terminal ? OKV_LOG_TEXT : OKV_LOG_LOGFMT;
}

void okv_log_init(struct okv_log *log, int fd, enum okv_log_format format)
{
    *log = (struct okv_log){.fd = fd, .is_journal = is_journal(fd), .is_terminal = isatty(fd) == 1};
    log->format = choose_format(log, format);
    pthread_mutex_init(&log->lock, NULL);
}

void okv_log_set_format(struct okv_log *log, enum okv_log_format format)
{
    pthread_mutex_lock(&log->lock);
    log->format = choose_format(log, format);
    pthread_mutex_unlock(&log->lock);
}

/* ---- one line ---- */

static void format_time(char out[TIME_SIZE])
{
    struct timespec now;
    struct tm date;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &date);
    size_t length = strftime(out, TIME_SIZE, "%Y-%m-%dT%H:%M:%S", &date);
    snprintf(out + length, TIME_SIZE - length, ".%03ldZ", now.tv_nsec / 1000000 % 1000);
}

/* As in a string of JSON; a byte that is not ASCII is '?', as the text may be cut within one. */
static void escape(const char *text, char out[6 * OKV_LOG_TEXT_MAX])
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < ' ' || byte == 127)
            out += sprintf(out, "\\u%04x", byte);
        else if (byte == '"' || byte == '\\')
            out += sprintf(out, "\\%c", byte);
        else
            *out++ = byte < 128 ? *text : '?';
    }
    *out = '\0';
}

static int format_line(const struct okv_log *log, enum okv_log_level level, const char *part,
                       const char *text, char line[LINE_MAX])
{
    static const char *const names[] = {"error", "warning", "notice"};
    static const char *const priorities[] = {"<3>", "<4>", "<5>"};
    char escaped[6 * OKV_LOG_TEXT_MAX], time[TIME_SIZE];

    format_time(time);
    if (log->format == OKV_LOG_TEXT) {
        escaped[okv_printable_copy(text, strlen(text), false, escaped)] = '\0';
        if (log->is_terminal)
            return snprintf(line, LINE_MAX, "%s %s %s: %s\n", time, names[level], part, escaped);
        return snprintf(line, LINE_MAX, "%sokv-server: %s\n",
                        log->is_journal ? priorities[level] : "", escaped);
    }
    escape(text, escaped);
    return snprintf(line, LINE_MAX,
                    log->format == OKV_LOG_JSON
                        ? "{\"ts\": \"%s\", \"level\": \"%s\", \"part\": \"%s\", \"msg\": \"%s\"}\n"
                        : "ts=%s level=%s part=%s msg=\"%s\"\n",
                    time, names[level], part, escaped);
}

/* Writes the whole line or nothing: a pipe that is ready takes at least PIPE_BUF bytes. */
static bool write_line(const struct okv_log *log, enum okv_log_level level, const char *part,
                       const char *text)
{
    struct pollfd ready = {.fd = log->fd, .events = POLLOUT};
    char line[LINE_MAX];

    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT))
        return false;
    int length = format_line(log, level, part, text, line);
    return write(log->fd, line, (size_t)length) == length;
}

/* ---- lines of clients ---- */

static bool write_left_out(struct okv_log *log)
{
    char text[OKV_LOG_TEXT_MAX];

    snprintf(text, sizeof text,
             "%" PRIu64 " more lines, of connections that ended or were refused or of reloads, are "
             "left out: see closed_, rejected_ and users_ in okv stat",
             log->left_out);
    if (!write_line(log, OKV_LOG_WARNING, "clients", text))
        return false;
    log->left_out = 0;
    log->lines++;
    return true;
}

/* ---- strangers ---- */

static void write_strangers(struct okv_log *log, uint64_t now_ns)
{
    char text[OKV_LOG_TEXT_MAX];

    snprintf(text, sizeof text, "%" PRIu64 " more clients were refused; the last was %.*s",
             log->strangers.count, OKV_LOG_TEXT_MAX - 64, log->strangers.last);
    write_line(log, OKV_LOG_NOTICE, "clients", text);
    log->strangers.count = 0;
    log->strangers.next_ns = now_ns + OKV_LOG_TICK_NS;
}

void okv_log_stranger(struct okv_log *log, uint64_t now_ns, const char *text)
{
    pthread_mutex_lock(&log->lock);
    bool is_due = now_ns >= log->strangers.next_ns;
    snprintf(log->strangers.last, sizeof log->strangers.last, "%s", text);
    if (is_due && log->strangers.count == 0) {
        write_line(log, OKV_LOG_NOTICE, "clients", log->strangers.last);
        log->strangers.next_ns = now_ns + OKV_LOG_TICK_NS;
    } else {
        log->strangers.count++;
        if (is_due)
            write_strangers(log, now_ns);
    }
    pthread_mutex_unlock(&log->lock);
}

void okv_log_tick(struct okv_log *log, uint64_t now_ns)
{
    pthread_mutex_lock(&log->lock);
    if (log->strangers.count && now_ns >= log->strangers.next_ns)
        write_strangers(log, now_ns);
    pthread_mutex_unlock(&log->lock);
}

void okv_log_fini(struct okv_log *log)
{
    if (log->strangers.count)
        write_strangers(log, 0);
    if (log->left_out)
        write_left_out(log);
    pthread_mutex_destroy(&log->lock);
}

void okv_log_line(struct okv_log *log, enum okv_log_level level, const char *part, uint64_t now_ns,
                  const char *text)
{
    char cut[OKV_LOG_TEXT_MAX];

    snprintf(cut, sizeof cut, "%s", text);
    pthread_mutex_lock(&log->lock);
    /* Each thread reads the clock before it locks, so times may arrive out of order. */
    if (now_ns > log->second_ns && now_ns - log->second_ns >= SECOND_NS) {
        log->second_ns = now_ns;
        log->lines = 0;
        if (log->left_out)
            write_left_out(log);
    }
    if (log->lines >= OKV_LOG_LINES_MAX || log->left_out || !write_line(log, level, part, cut))
        log->left_out++;
    else
        log->lines++;
    pthread_mutex_unlock(&log->lock);
}

void okv_log_say(struct okv_log *log, enum okv_log_level level, const char *part,
                 const char *format, ...)
{
    char text[OKV_LOG_TEXT_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&log->lock);
    write_line(log, level, part, text);
    pthread_mutex_unlock(&log->lock);
}
