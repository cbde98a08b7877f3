/* The shell of okv(1): struct cli calls it by pointer. */
#ifndef OKV_CLIENT_CLI_SHELL_SHELL_H
#define OKV_CLIENT_CLI_SHELL_SHELL_H

#include "client/cli/run.h"

/* Runs the commands of standard input, a script or a terminal, to its end. `keeps_going`: a script
 * does not end at a command that failed. Returns the exit status. */
int shell_run(struct cli *cli, bool keeps_going, bool has_history);

#endif
