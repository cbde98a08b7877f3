#include "shared/base/default_uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SCHEME "local://"

void okv_default_uri(char *out, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0)
        snprintf(out, size, SCHEME "/run/okv.sock");
    else if (runtime && runtime[0] == '/')
        snprintf(out, size, SCHEME "%s/okv.sock", runtime);
    else
        snprintf(out, size, SCHEME "/tmp/okv-%u.sock", (unsigned)geteuid());
}

bool okv_default_uri_find(char *out, size_t size)
{
    okv_default_uri(out, size);
    if (access(out + sizeof SCHEME - 1, F_OK) == 0)
        return true;
    if (access(OKV_SERVICE_SOCKET, F_OK))
        return false;
    snprintf(out, size, SCHEME OKV_SERVICE_SOCKET);
    return true;
}
