/* Completion of a line of the shell. */
#ifndef OKV_CLIENT_CLI_COMPLETE_H
#define OKV_CLIENT_CLI_COMPLETE_H

#include <histedit.h>

/* A function for a key (EL_ADDFN): completes the name of a command, also behind `help`, and an
 * option of the command that begins the line. */
unsigned char complete_line(EditLine *line, int key);

#endif
