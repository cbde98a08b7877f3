/* How soon attackers are gone whose sessions an administrator ends, and how soon a server is that
 * is told to end while they go on. */
#ifndef OKV_TESTS_ATTACK_ENDS_H
#define OKV_TESTS_ATTACK_ENDS_H

#include <okv.h>

#include "tests/support/server_process.h"

/* Kills all sessions of `user` in the database of `admin`, and waits until none of them is left.
 * Returns the time in ms from the first kill on; -1: there was none, or the server did not answer.
 * Fails the test when one stays. */
double attack_ends_kill(okv *admin, const char *user);
/* Returns the time in ms from SIGTERM to the end; *status is the server's exit status. */
double attack_ends_stop(struct server_process *server, int *status);

#endif
