#include "server/acceptor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/handshake.h"
#include "server/session.h"
#include "shared/error.h"
#include "shared/superblock.h"
#include "shared/wire.h"

static void count_rejection(struct okv_stats *stats, int reason)
{
    switch (reason) {
    case OKV_REJECT_VERSION:
        OKV_STATS_ADD(stats, rejected_version, 1);
        break;
    case OKV_REJECT_FEATURE:
    case OKV_REJECT_SLOT_SIZE:
        OKV_STATS_ADD(stats, rejected_feature, 1);
        break;
    case OKV_REJECT_BUSY:
        OKV_STATS_ADD(stats, rejected_busy, 1);
        break;
    case OKV_REJECT_STOPPING:
        OKV_STATS_ADD(stats, rejected_stopping, 1);
        break;
    case OKV_REJECT_RESOURCES:
        OKV_STATS_ADD(stats, rejected_resources, 1);
        break;
    default:
        OKV_STATS_ADD(stats, rejected_malformed, 1);
        break;
    }
}

static void reject(struct okv_server *server, struct okv_request *request, int reason)
{
    const struct okv_reject reject = {.version = OKV_WIRE_VERSION, .reason = (uint32_t)reason};
    struct okv_wire_reject bytes;

    count_rejection(&server->stats, reason);
    okv_reject_encode(&reject, &bytes);
    request->listener->ops->reject(request, (const uint8_t *)&bytes, sizeof bytes);
}

static void compose_welcome(const struct okv_server *server, const struct okv_session *session,
                            struct okv_wire_welcome *out)
{
    const struct okv_store *store = &server->store;
    const struct okv_welcome_fields welcome = {
        .rkey = server->listeners[session->listener]->rkey,
        .boot_id = store->table.boot_id,
        .region_length = store->length,
        .directory_offset = OKV_DIRECTORY_OFFSET,
        .bucket_count = atomic_load(&store->bucket_count),
        .hash_seed = store->table.hash_seed,
        .bucket_size = store->table.bucket_size,
        .segment_buckets = store->table.segment_buckets,
        .slot_size = server->limits.slot_size,
        .credits = session->credits,
        .max_key = OKV_KEY_MAX,
        .max_value = store->max_value,
        .session_id = session->id,
        .clock_ms = okv_server_clock_ms(server),
    };

    okv_welcome_encode(&welcome, out);
}

static void accept_client(struct okv_acceptor *acceptor, unsigned listener,
                          struct okv_request *request, uint32_t credits)
{
    struct okv_server *server = acceptor->server;
    struct okv_wire_welcome bytes;
    struct okv_session *session =
        okv_session_create(++acceptor->next_session_id, listener, credits);

    if (!session) {
        reject(server, request, OKV_REJECT_RESOURCES);
        return;
    }
    compose_welcome(server, session, &bytes);
    /* Before accept: the worker may see the session end before accept returns. */
    atomic_fetch_add(&server->clients[listener], 1);
    int rc = request->listener->ops->accept(request, server->endpoints[listener], session,
                                            (const uint8_t *)&bytes, sizeof bytes);
    if (rc) {
        reject(server, request, rc == OKV_EAGAIN ? OKV_REJECT_BUSY : OKV_REJECT_RESOURCES);
        atomic_fetch_sub(&server->clients[listener], 1);
        okv_session_destroy(session);
    }
}

static void answer(struct okv_acceptor *acceptor, unsigned listener, struct okv_request *request)
{
    struct okv_server *server = acceptor->server;
    const struct okv_handshake_terms terms = {
        .slot_size = server->limits.slot_size,
        .credits = server->limits.credits,
        .stopping = atomic_load(&server->stopping),
        .full = atomic_load(&server->clients[listener]) >= server->config.max_clients,
    };
    uint32_t credits;
    int reason = okv_handshake_decide(request->hello, request->hello_length, &terms, &credits);

    if (reason)
        reject(server, request, reason);
    else
        accept_client(acceptor, listener, request, credits);
}

static void *accept_all(void *user)
{
    struct okv_acceptor *acceptor = user;
    struct okv_server *server = acceptor->server;
    struct pollfd fds[OKV_LISTENERS_MAX + 1];
    unsigned count = server->listener_count;

    for (unsigned i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = server->listeners[i]->fd, .events = POLLIN};
    fds[count] = (struct pollfd){.fd = acceptor->stop_fd, .events = POLLIN};
    for (;;) {
        poll(fds, count + 1, -1);
        if (fds[count].revents)
            return NULL;
        for (unsigned i = 0; i < count; i++) {
            struct okv_request *request;
            int rc = 0;
            while (fds[i].revents && (rc = server->listeners[i]->ops->next_request(
                                          server->listeners[i], &request)) == 1)
                answer(acceptor, i, request);
            if (rc < 0) {
                okv_server_fail(server, i, rc);
                fds[i].fd = -1; /* poll() passes over it */
            }
        }
    }
}

int okv_acceptor_start(struct okv_acceptor *acceptor, struct okv_server *server)
{
    *acceptor = (struct okv_acceptor){.server = server};
    acceptor->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (acceptor->stop_fd < 0)
        return OKV_EIO;
    if (pthread_create(&acceptor->thread, NULL, accept_all, acceptor)) {
        close(acceptor->stop_fd);
        return OKV_ENOMEM;
    }
    return 0;
}

void okv_acceptor_stop(struct okv_acceptor *acceptor)
{
    eventfd_write(acceptor->stop_fd, 1);
    pthread_join(acceptor->thread, NULL);
    close(acceptor->stop_fd);
}
