#include "shared/base/standard_files.h"

#include <fcntl.h>
#include <unistd.h>

#include "shared/base/error.h"

int okv_standard_files_open(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int how = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY; /* nobody may use it */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", how) != fd)
            return OKV_EIO;
    }
    return 0;
}
