/* The commands of okv(1): their names, and what runs them. */
#ifndef OKV_CLIENT_CLI_COMMANDS_H
#define OKV_CLIENT_CLI_COMMANDS_H

#include <stdio.h>

#include "client/cli/cli.h"

/* One line for each command. */
void commands_print(FILE *out);
/* Of the commands, and then the words that a shell has beside them. NULL: there are no more. */
const char *command_name(size_t index);

bool command_exists(const char *name);

/* Runs the command argv[0], or `help COMMAND', and disconnects. Returns the exit status, or
 * CLI_HELPED. */
int command_run(struct cli *cli, int argc, char **argv);
/* The same of a command behind options, from argv[1]; the status is that of the program. */
int command_line_run(struct cli *cli, int argc, char **argv);

#endif
