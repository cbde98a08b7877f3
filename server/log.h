/*
 * The log on standard error: a line for each refused client, for each connection that did not end
 * in order, and for each reload of the users file. Lines beyond a rate are only counted; their
 * number is logged when the rate allows.
 *
 * Any thread may log. Nothing blocks: a line for which the descriptor has no room is left out.
 */
#ifndef OKV_SERVER_LOG_H
#define OKV_SERVER_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Lines per second. */
#define OKV_LOG_LINES_MAX 10u
/* Bytes of a line. */
#define OKV_LOG_TEXT_MAX 200

struct okv_log {
    pthread_mutex_t lock;
    int fd;
    uint64_t second_ns; /* begin of the current second */
    unsigned lines;     /* written in this second */
    uint64_t left_out;  /* lines left out since the last line */
};

/* `fd` stays the caller's. */
void okv_log_init(struct okv_log *log, int fd);
/* Logs how many lines were left out. */
void okv_log_fini(struct okv_log *log);

/* Writes "okv-server: " and the text, at most OKV_LOG_TEXT_MAX bytes. `now_ns` is of a monotonic
 * clock. */
void okv_log_line(struct okv_log *log, uint64_t now_ns, const char *text);
/* The same beside the rate, for what no client brings about. */
void okv_log_notice(struct okv_log *log, const char *text);

#endif
