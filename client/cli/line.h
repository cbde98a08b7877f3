/* Lines of input that have a limit: a file of another kind may be one line. */
#ifndef OKV_CLIENT_CLI_LINE_H
#define OKV_CLIENT_CLI_LINE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/* Most bytes of a line with a key and a value of these lengths: each byte may be written as four,
 * and a time may follow. */
#define CLI_LINE_MAX(key, value) (4 * ((size_t)(key) + (value)) + 64)

/* Reads up to and with the next byte `end`, or to the end of input. Returns the length; -1: the
 * end, an error (ferror()), or no memory. The buffer is the caller's to free; it is no C string. A
 * line of more than `most` bytes: -1, and errno is E2BIG. A signal or an error within a line leaves
 * a part of it: ferror() tells. */
ssize_t cli_line_read(FILE *input, char **line, size_t *size, int end, size_t most);

#endif
