/* The endpoints of a worker, one of each listener, as the doors open and close. */
#include "server/worker/endpoints.h"

#include <sys/eventfd.h>

#include "server/core/door.h"
#include "server/session/lifecycle.h"
#include "server/session/sessions.h"
#include "server/worker/worker.h"

/* Connections of an endpoint beyond its share of --max-clients: replaced ones, until they close.
 * Every device has room for them. */
#define SPARE_CONNS 4u

static void take_endpoint(struct okv_worker *worker, unsigned listener)
{
    struct okv_door *door = &worker->server->doors[listener];
    unsigned openings = atomic_load(&door->openings);

    if (worker->openings[listener] == openings)
        return;
    worker->openings[listener] = openings;
    worker->endpoints[listener] = door->endpoints[okv_worker_index(worker)];
}

/* Ends the clients of a listener whose device is gone, then destroys its endpoint. */
static void close_endpoint(struct okv_worker *worker, unsigned listener)
{
    struct okv_server *server = worker->server;
    struct okv_endpoint *endpoint = worker->endpoints[listener];
    struct okv_session *session;

    TAILQ_FOREACH(session, &worker->sessions->all, in_all)
    if (session->listener == listener)
        okv_session_end(worker->sessions, session, OKV_SESSION_END_FAILED);
    if (atomic_load(&worker->sessions->clients[listener]) > 0)
        return;
    endpoint->ops->endpoint_destroy(endpoint);
    worker->endpoints[listener] = NULL;
    if (atomic_fetch_sub(&server->doors[listener].held, 1) == 1)
        eventfd_write(server->acceptor_fd, 1);
}

struct okv_endpoint *okv_endpoints_find(struct okv_worker *worker, unsigned listener)
{
    take_endpoint(worker, listener);
    if (worker->endpoints[listener] &&
        atomic_load(&worker->server->doors[listener].state) == OKV_DOOR_CLOSING)
        close_endpoint(worker, listener);
    return worker->endpoints[listener];
}

void okv_endpoints_take(struct okv_worker *worker)
{
    for (unsigned i = 0; i < worker->server->listener_count; i++)
        take_endpoint(worker, i);
}

/* ---- creation and destruction ---- */

/* The acceptor gives each client to the worker with the fewest of that listener, so none gets more
 * than its share. */
int okv_worker_make_endpoint(struct okv_server *server, unsigned index,
                             struct okv_listener *listener, struct okv_endpoint **out,
                             struct okv_diag *diag)
{
    const struct okv_config *config = &server->config;
    struct okv_door *door = &server->doors[index];

    if (!door->clients)
        door->clients = (config->max_clients + config->workers - 1) / config->workers + SPARE_CONNS;
    return listener->ops->endpoint_create(listener, &server->limits, door->clients, out, diag);
}

void okv_endpoints_destroy(struct okv_worker *worker)
{
    for (unsigned i = 0; i < OKV_LISTENERS_MAX; i++)
        if (worker->endpoints[i])
            worker->endpoints[i]->ops->endpoint_destroy(worker->endpoints[i]);
}

int okv_endpoints_create(struct okv_worker *worker, struct okv_diag *diag)
{
    struct okv_server *server = worker->server;

    for (unsigned i = 0; i < server->listener_count; i++) {
        int rc =
            okv_worker_make_endpoint(server, i, server->listeners[i], &worker->endpoints[i], diag);
        if (rc) {
            worker->endpoints[i] = NULL;
            okv_endpoints_destroy(worker);
            return rc;
        }
        server->doors[i].endpoints[okv_worker_index(worker)] = worker->endpoints[i];
    }
    return 0;
}

uint32_t okv_workers_room(const struct okv_server *server, unsigned listener)
{
    uint32_t room = 0;

    for (unsigned i = 0; i < server->config.workers; i++) {
        struct okv_worker *worker = &server->workers[i];
        uint32_t most = server->doors[listener].endpoints[i]->max_conns - SPARE_CONNS;
        uint32_t clients = atomic_load(&worker->sessions->clients[listener]);
        room += most > clients ? most - clients : 0;
    }
    return room;
}
