/*
 * The log on standard error: events of the server, and a line for each refused client, for each
 * connection that did not end in order, and for each reload of the users file. Lines that clients
 * bring about are only counted beyond a rate; their number is logged when the rate allows.
 *
 * Any thread may log. Nothing blocks: a line for which the descriptor has no room is left out.
 */
#ifndef OKV_SERVER_CORE_LOG_H
#define OKV_SERVER_CORE_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Lines per second. */
#define OKV_LOG_LINES_MAX 10u
/* Bytes of a text, and its end. A line in any format is shorter than PIPE_BUF. */
#define OKV_LOG_TEXT_MAX 600
#define OKV_LOG_TICK_NS UINT64_C(60000000000)

enum okv_log_format {
    OKV_LOG_AUTO,   /* text for a terminal or the journal, else logfmt */
    OKV_LOG_TEXT,   /* TIME LEVEL PART: TEXT on a terminal, else okv-server: TEXT */
    OKV_LOG_LOGFMT, /* ts=TIME level=LEVEL part=PART msg="TEXT" */
    OKV_LOG_JSON,   /* the same as an object */
};

/* docs/monitoring.md, "Log", says what belongs where. */
enum okv_log_level {
    OKV_LOG_ERROR,   /* somebody has to act: the server ends, or refuses what it should do */
    OKV_LOG_WARNING, /* somebody should know: it goes on, with less than was asked for */
    OKV_LOG_NOTICE,  /* the course of things */
};

struct okv_log {
    pthread_mutex_t lock;
    int fd;
    enum okv_log_format format; /* never OKV_LOG_AUTO */
    bool is_journal;            /* that reads levels: sd-daemon(3) */
    bool is_terminal;
    uint64_t second_ns; /* begin of the current second */
    unsigned lines;     /* written in this second */
    uint64_t left_out;  /* lines left out since the last line */
    struct {
        uint64_t next_ns;            /* no line before */
        uint64_t count;              /* since the last line */
        char last[OKV_LOG_TEXT_MAX]; /* of these */
    } strangers;                     /* that were refused */
};

/* `fd` stays the caller's. */
void okv_log_init(struct okv_log *log, int fd, enum okv_log_format format);
void okv_log_set_format(struct okv_log *log, enum okv_log_format format);
/* Logs how many lines were left out. */
void okv_log_fini(struct okv_log *log);

/* Writes a line that a client brought about, if the rate allows. `part` is a word for the part of
 * the server; `now_ns` is of a monotonic clock. */
void okv_log_line(struct okv_log *log, enum okv_log_level level, const char *part, uint64_t now_ns,
                  const char *text);
/* Writes a line on a stranger who was refused, at most one a minute: `text` itself after a quiet
 * minute, else how many there were and the last one. okv_log_tick() writes what waits. */
void okv_log_stranger(struct okv_log *log, uint64_t now_ns, const char *text);
/* Call it from time to time, at least every OKV_LOG_TICK_NS. */
void okv_log_tick(struct okv_log *log, uint64_t now_ns);
/* Writes a line at any rate, for what no client brings about, or what has a rate of its own. */
void okv_log_say(struct okv_log *log, enum okv_log_level level, const char *part,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
