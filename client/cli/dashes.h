/* Arguments that begin with a dash. */
#ifndef OKV_CLIENT_CLI_DASHES_H
#define OKV_CLIENT_CLI_DASHES_H

#include <argp.h>

/* Writes argv to `out`, which has room for argc + 2, with the options first, then "--" and the
 * arguments. After the first argument, one that begins with '-' and a digit is no option. Returns
 * the new argc. */
int cli_dashes_order(const struct argp *parser, int argc, char **argv, char **out);

/* The first word that begins with a dash and is no option of the parser. NULL: there is none. */
const char *cli_dashes_unknown(const struct argp *parser, int argc, char **argv);

/* The first word that asks for help, usage or the version although there are arguments, which would
 * then do nothing. NULL: there is none. */
const char *cli_dashes_help(const struct argp *parser, int argc, char **argv);

#endif
