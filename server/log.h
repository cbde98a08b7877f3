/*
 * What the server says of its clients on standard error: a line for each connection that ended
 * other than it should, and for each client that was refused. Few enough that a flood of them
 * harms nobody: what is beyond that is counted, and told when there is room again.
 *
 * Threads. Any. Nothing blocks: a line that the descriptor has no room for is left out.
 */
#ifndef OKV_SERVER_LOG_H
#define OKV_SERVER_LOG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Lines in a second. */
#define OKV_LOG_LINES_MAX 10u
/* Bytes of one. */
#define OKV_LOG_TEXT_MAX 200

struct okv_log {
    pthread_mutex_t lock;
    int fd;
    uint64_t second_ns; /* when the present second began */
    unsigned lines;     /* that were written in it */
    uint64_t left_out;  /* since the last line */
};

/* Lines go to `fd`, which stays the caller's. */
void okv_log_init(struct okv_log *log, int fd);
/* Tells what was left out last. */
void okv_log_fini(struct okv_log *log);

/* Writes "okv-server: " and the text, a sentence of at most OKV_LOG_TEXT_MAX bytes; `now_ns` is on
 * a clock that is never set back. */
void okv_log_line(struct okv_log *log, uint64_t now_ns, const char *text);

#endif
