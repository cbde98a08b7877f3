#include "server/server.h"

#include <unistd.h>

void okv_server_fail(struct okv_server *server, unsigned listener, int code)
{
    unsigned none = 0;

    if (!atomic_compare_exchange_strong(&server->failed_listener, &none, listener + 1))
        return;
    atomic_store(&server->failure, code);
    kill(getpid(), OKV_SERVER_FAILED_SIGNAL);
}
