#include "shared/base/default_uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void okv_default_uri(char *out, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0)
        snprintf(out, size, "local:///run/okv.sock");
    else if (runtime && runtime[0] == '/')
        snprintf(out, size, "local://%s/okv.sock", runtime);
    else
        snprintf(out, size, "local:///tmp/okv-%u.sock", (unsigned)geteuid());
}
