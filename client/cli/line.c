#include "client/cli/line.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define FIRST_BYTES 256

static bool grow(char **line, size_t *size)
{
    size_t more = *size ? 2 * *size : FIRST_BYTES;
    char *larger = realloc(*line, more);

    if (!larger)
        return false;
    *line = larger;
    *size = more;
    return true;
}

ssize_t cli_line_read(FILE *input, char **line, size_t *size, int end, size_t most)
{
    size_t used = 0;
    int byte;

    while ((byte = getc_unlocked(input)) != EOF) {
        if (used == most) {
            errno = E2BIG;
            return -1;
        }
        if (used == *size && !grow(line, size))
            return -1;
        (*line)[used++] = (char)byte;
        if (byte == end)
            break;
    }
    return used > 0 ? (ssize_t)used : -1;
}
