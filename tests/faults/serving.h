/* okv-server's own main() in a thread of this process, with the table checked at its end. */
#ifndef OKV_TESTS_SERVING_H
#define OKV_TESTS_SERVING_H

#include <limits.h>
#include <stdbool.h>

#include "tests/faults/model.h"

/* Where a server over shared memory announces itself. */
#define SERVING_GROUP "239.192.74.71"

/* Starts it at `uri` and waits until it serves or has ended. At its end the table must be
 * sound and, unless it is NULL, hold what `model` says, after serving_stop() was called. */
void serving_start(const char *uri, const struct model *model);
/* Whether main() has taken down its threads: it serves no more. */
bool serving_has_ended(void);
/* How often its listener has opened since the start; SERVING_CLOSED while it is closed, or about to
 * close. Only until serving_stop(). */
#define SERVING_CLOSED UINT_MAX
unsigned serving_openings(void);
/* Tells it to end, waits, returns its exit status. */
int serving_stop(void);

/* Prints and ends the process: a check failed. */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
