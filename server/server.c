#include "server/server.h"

#include <unistd.h>

void okv_server_fail(struct okv_server *server, unsigned listener, int code)
{
    int none = 0;

    if (!atomic_compare_exchange_strong(&server->failure, &none, code))
        return;
    atomic_store(&server->failed_listener, listener);
    kill(getpid(), OKV_SERVER_FAILED_SIGNAL);
}
