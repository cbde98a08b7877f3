/* Whether what a program printed reached its place. For programs: it prints and ends the process.
 */
#ifndef OKV_SHARED_BASE_STANDARD_OUTPUT_H
#define OKV_SHARED_BASE_STANDARD_OUTPUT_H

/* The exit status of a program whose output is lost. */
#define OKV_EXIT_OUTPUT_LOST 3

/* When the process exits: if standard output could not be written, says so on standard error in the
 * name of `program`, which is borrowed, and ends the process with OKV_EXIT_OUTPUT_LOST. One that
 * exits with this status anyway has said what went wrong. */
void okv_standard_output_check_at_exit(const char *program);

#endif
