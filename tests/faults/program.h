/* Where in the program a return address is, for people. */
#ifndef OKV_TESTS_PROGRAM_H
#define OKV_TESTS_PROGRAM_H

#include <stdint.h>
#include <stdio.h>

/* One line: the words, the function and its place in the sources as addr2line finds it. */
void program_print_place(FILE *out, const char *what, const char *function, uintptr_t offset);
/* All sites that were met: side, calls and failures, function, offset, place. */
void program_print_sites(void);

#endif
