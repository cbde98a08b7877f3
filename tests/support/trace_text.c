#include "tests/support/trace_text.h"

#include <unistd.h>

#include "tests/support/test.h"

int trace_text_read(const char *text, size_t length, struct trace *trace, char why[TRACE_WHY_TEXT])
{
    char path[] = "/tmp/okv-trace-XXXXXX";
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), (ssize_t)length);
    close(fd);
    int rc = trace_read(path, trace, why);
    unlink(path);
    return rc;
}
