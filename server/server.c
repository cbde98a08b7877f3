#include "server/server.h"

#include <sys/eventfd.h>
#include <unistd.h>

void okv_server_wake(struct okv_server *server, unsigned worker)
{
    eventfd_write(server->worker_signals[worker].fd, 1);
}

void okv_server_end_unwanted(struct okv_server *server, unsigned worker)
{
    atomic_store(&server->worker_signals[worker].has_unwanted, true);
    okv_server_wake(server, worker);
}

void okv_server_ask_reload(struct okv_server *server)
{
    atomic_store(&server->reload_is_asked, true);
    eventfd_write(server->acceptor_fd, 1);
}

void okv_server_fail(struct okv_server *server, unsigned listener, int code)
{
    unsigned none = 0;

    if (!atomic_compare_exchange_strong(&server->failed_listener, &none, listener + 1))
        return;
    atomic_store(&server->failure, code);
    kill(getpid(), OKV_SERVER_FAILED_SIGNAL);
}
