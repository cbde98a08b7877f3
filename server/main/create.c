#include <stdlib.h>

#include "server/clients/admission.h"
#include "server/clients/client_table.h"
#include "server/core/door.h"
#include "server/core/host.h"
#include "server/core/notify.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/reply_cache.h"
#include "server/identity/authority.h"
#include "server/metrics/metrics.h"
#include "server/net/announcer.h"

/* One allocation, so that nothing else can fail. */
struct whole {
    struct okv_server server;
    struct okv_door doors[OKV_LISTENERS_MAX];
    struct okv_database databases[OKV_DATABASES_MAX];
    struct okv_reply_caches reply_caches[OKV_DATABASES_MAX];
    struct okv_authority authority;
    struct okv_admission admission;
    struct okv_client_table clients;
    struct okv_host host;
    struct okv_announcer announcer;
    struct okv_metrics metrics;
    struct okv_notify notify;
};

struct okv_server *okv_server_create(void)
{
    struct whole *whole = calloc(1, sizeof *whole);

    if (!whole)
        return NULL;
    struct okv_server *server = &whole->server;
    server->acceptor_fd = -1;
    server->doors = whole->doors;
    pthread_mutex_init(&server->doors_lock, NULL);
    server->acceptor_fd = -1;
    server->databases = whole->databases;
    for (unsigned i = 0; i < OKV_DATABASES_MAX; i++)
        whole->databases[i].reply_caches = &whole->reply_caches[i];
    server->authority = &whole->authority;
    server->admission = &whole->admission;
    server->clients = &whole->clients;
    server->host = &whole->host;
    okv_host_init(server->host);
    server->announcer = &whole->announcer;
    server->metrics = &whole->metrics;
    server->notify = &whole->notify;
    return server;
}

void okv_server_destroy(struct okv_server *server)
{
    if (server)
        okv_host_fini(server->host);
    free(server);
}
