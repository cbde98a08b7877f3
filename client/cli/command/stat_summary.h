/* The lines that okv stat begins with: what to look at first, in words. */
#ifndef OKV_CLIENT_CLI_COMMAND_STAT_SUMMARY_H
#define OKV_CLIENT_CLI_COMMAND_STAT_SUMMARY_H

/* Prints five lines that begin with "# ", so that none looks like "name value". `text` are the
 * statistics as the server gives them. */
void cli_stat_summarize(const char *text);

#endif
