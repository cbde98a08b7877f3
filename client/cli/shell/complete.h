/* Completion of a line of the shell. */
#ifndef OKV_CLIENT_CLI_SHELL_COMPLETE_H
#define OKV_CLIENT_CLI_SHELL_COMPLETE_H

#include <histedit.h>

/* A function for a key (EL_ADDFN): completes the name of a command, also after `help`, and the
 * options of the command at the start of the line. */
unsigned char complete_line(EditLine *line, int key);

#endif
