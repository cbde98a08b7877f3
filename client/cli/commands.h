/* The commands of okv(1). */
#ifndef OKV_CLIENT_CLI_COMMANDS_H
#define OKV_CLIENT_CLI_COMMANDS_H

#include <stdio.h>

#include "client/cli/run.h"

/* One line for each command. */
void commands_print(FILE *out);
/* Lists the commands and then the further words of the shell. NULL: no more. */
const char *command_name(size_t index);

bool command_exists(const char *name);

/* Whether a command line with a usage error would have read standard input, had it been right. */
bool command_may_read(int count, const char **words);

/* Runs the command argv[0], or `help COMMAND', and disconnects. Returns the exit status, or
 * CLI_HELPED. */
int command_run(struct cli *cli, int argc, char **argv);
/* The same for a command after options, from argv[1]. Returns the exit status of the program. */
int command_line_run(struct cli *cli, int argc, char **argv);

#endif
