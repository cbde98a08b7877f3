/* A progress line on a terminal. */
#ifndef OKV_CLIENT_CLI_PROGRESS_H
#define OKV_CLIENT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct progress {
    bool is_shown;
    time_t next;
};

void progress_init(struct progress *progress, bool is_shown);
/* Shows the number on standard error, once a second. */
void progress_show(struct progress *progress, uint64_t items);
/* Clears the line. */
void progress_clear(const struct progress *progress);

#endif
