#include "shared/base/standard_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Some file systems say only at a close that they could not write. */
static bool closes(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    return copy < 0 || close(copy) == 0;
}

static void check(int status, void *program)
{
    bool was_lost = ferror(stdout); /* and why is not known any more */

    errno = 0;
    bool is_lost = fflush(stdout) != 0 || ferror(stdout) || !closes(STDOUT_FILENO);
    if (status == OKV_EXIT_OUTPUT_LOST || !is_lost)
        return;
    fprintf(stderr, "%s: cannot write the output%s%s\n", (const char *)program,
            was_lost || !errno ? "" : ": ", was_lost || !errno ? "" : strerror(errno));
    _exit(OKV_EXIT_OUTPUT_LOST);
}

void okv_standard_output_check_at_exit(const char *program)
{
    on_exit(check, (void *)program);
}
