#include "server/net/acceptor.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/clients/admission.h"
#include "server/clients/client_table.h"
#include "server/clients/refusal.h"
#include "server/copies/copies.h"
#include "server/core/door.h"
#include "server/core/host.h"
#include "server/core/log.h"
#include "server/database/database.h"
#include "server/database/reply_cache.h"
#include "server/identity/authority.h"
#include "server/net/doors.h"
#include "server/net/half_open.h"
#include "server/net/handshake.h"
#include "server/net/identify.h"
#include "server/session/session.h"
#include "server/session/sessions.h"
#include "server/store/status.h"
#include "server/worker/worker.h"
#include "shared/base/error.h"
#include "shared/base/thread.h"
#include "shared/format/superblock.h"
#include "shared/format/wire.h"
#include "shared/transport/common/pending.h"

/* Who has had no pause of PAUSE_NS for FLOOD_NS is in a flood. */
#define PAUSE_NS 1000000
#define FLOOD_NS 2000000
/* Requests of one listener that are answered before the next listener gets its share, and a worker
 * on this processor its turn. */
#define REQUESTS_PER_PASS 8
/* Between reloads for administrators: each holds up all who connect, and administrators of one
 * database must not do that to clients of others. */
#define RELOAD_PAUSE_NS UINT64_C(1000000000)
/* The same between readings of the host, which take a few milliseconds. */
#define HOST_PAUSE_NS UINT64_C(100000000)

/* What the device said of an accept that failed; "" when it said nothing. */
static void explain(const struct okv_accept_failure *failure, char *out, size_t size)
{
    out[0] = '\0';
    if (failure->path_mtu)
        snprintf(out, size, "its path carries packets of %u bytes, this port %u", failure->path_mtu,
                 failure->port_mtu);
    else if (failure->step)
        snprintf(out, size, "%s: %s", failure->step,
                 failure->errnum ? strerror(failure->errnum) : "it is full");
}

static void reject(struct okv_server *server, struct okv_request *request, int reason,
                   const struct okv_identity *identity, const struct okv_accept_failure *failure)
{
    const struct okv_reject reject = {
        .version = OKV_WIRE_VERSION,
        .reason = (uint32_t)reason,
        .detail = okv_reject_mtus(failure->path_mtu, failure->port_mtu),
    };
    struct okv_wire_reject bytes;
    char device[128];

    explain(failure, device, sizeof device);

    const struct okv_refusal refusal = {
        .peer = request->peer,
        .user = identity->key ? identity->user : "",
        .is_proven = identity->key != NULL,
        .reason = reason,
        .stranger = request->stranger,
        .device = device,
    };

    okv_refusal_count(&server->stats, reason);
    okv_refusal_log(server, &refusal);
    okv_reject_encode(&reject, &bytes);
    request->listener->ops->reject(request, (const uint8_t *)&bytes, sizeof bytes);
}

static void pass_on(struct okv_server *server, struct okv_request *request, unsigned database)
{
    struct okv_wire_not_primary bytes;
    char primary[OKV_PRIMARY_SIZE] = "";

    if (server->copies)
        okv_copies_primary(server->copies, database, request->listener->where, primary,
                           sizeof primary);
    okv_not_primary_encode(primary, &bytes);
    request->listener->ops->reject(request, (const uint8_t *)&bytes, sizeof bytes);
}

static void challenge(struct okv_server *server, struct okv_request *request,
                      const uint8_t cookie[OKV_COOKIE_SIZE])
{
    struct okv_wire_challenge bytes;

    okv_refusal_count(&server->stats, OKV_REJECT_CHALLENGE);
    okv_challenge_encode(cookie, &bytes);
    request->listener->ops->reject(request, (const uint8_t *)&bytes, sizeof bytes);
}

static void compose_welcome(struct okv_server *server, const struct okv_session *session,
                            bool resumed, struct okv_wire_welcome *out)
{
    struct okv_store *store = &server->databases[session->common.database].store;
    const struct okv_store_lease lease = okv_store_get_lease(store);
    const struct okv_welcome welcome = {
        .features = (session->common.report.is_due ? OKV_FEATURE_REPORTS : 0u) |
                    (session->common.reports_hits ? OKV_FEATURE_HEAT : 0u) |
                    (okv_store_is_member(store) ? OKV_FEATURE_LEASE : 0u) |
                    (session->is_peer ? OKV_FEATURE_REPLICATE : 0u) |
                    (session->is_observer ? OKV_FEATURE_OBSERVE : 0u),
        .rkey = server->listeners[session->listener]->rkeys[session->common.database],
        .boot_id = store->table.boot_id,
        .region_length = store->length,
        .directory_offset = OKV_DIRECTORY_OFFSET,
        .bucket_count = atomic_load(&store->bucket_count),
        .hash_seed = okv_store_hash_seed(store),
        .bucket_size = store->table.bucket_size,
        .segment_buckets = store->table.segment_buckets,
        .slot_size = server->limits.slot_size,
        .credits = session->common.request_slots,
        .max_key = OKV_KEY_MAX,
        .max_value = store->max_value,
        .session_id = session->common.id,
        .clock_ms = okv_server_clock_ms(server),
        .resumed = resumed,
        .remember_ms = server->config.remember_s * 1000u,
        .rights = atomic_load(&session->rights),
        .lease_ms = lease.longest_ms,
        .epoch = lease.table.epoch,
        .map_version = lease.table.map_version,
        .lease_clock_us = okv_store_lease_clock_us(store),
        .valid_until_us = lease.table.valid_until_us,
    };

    okv_welcome_encode(&welcome, out);
}

static struct okv_worker *least_busy_worker(struct okv_server *server, unsigned listener)
{
    struct okv_worker *least = &server->workers[0];

    for (unsigned i = 1; i < server->config.workers; i++) {
        struct okv_worker *worker = &server->workers[i];
        if (atomic_load(&worker->sessions->clients[listener]) <
            atomic_load(&least->sessions->clients[listener]))
            least = worker;
    }
    return least;
}

/* A client that asks to connect. */
struct arrival {
    struct okv_request *request;
    unsigned listener;
    struct okv_worker *worker;
    struct okv_handshake_client client;
    struct okv_arrival_identity identity;
    struct okv_reply_cache_claim claim;
    struct okv_reply_cache_grant grant;
    struct okv_accept_failure failure; /* what the device said, if it did not accept */
    uint64_t epoch;                    /* as in struct okv_client */
};

static bool is_peer(const struct okv_server *server, const struct arrival *arrival)
{
    return arrival->client.features & OKV_FEATURE_REPLICATE && server->peer_inbox != NULL;
}

/* Accepts the connection and hands the session to the worker. Returns 0 or a reason to reject. */
static int hand_over(struct okv_server *server, struct arrival *arrival,
                     struct okv_session *session)
{
    struct okv_request *request = arrival->request;
    struct okv_worker *worker = arrival->worker;
    unsigned listener = arrival->listener;
    struct okv_wire_welcome bytes;

    compose_welcome(server, session, arrival->grant.resumed, &bytes);
    okv_identify_prove(request, &arrival->identity, &bytes);
    /* Before accept: the worker may see the session end before accept returns. */
    atomic_fetch_add(&worker->sessions->clients[listener], 1);
    const struct okv_accept accept = {
        .endpoint = server->doors[listener].endpoints[worker - server->workers],
        .region = session->common.database,
        .user = session,
        .is_half_open = &session->is_half_open,
        .welcome = (const uint8_t *)&bytes,
        .length = sizeof bytes,
        .failure = &arrival->failure,
    };
    int rc = request->listener->ops->accept(request, &accept);
    if (rc == 0)
        return 0;
    atomic_fetch_sub(&worker->sessions->clients[listener], 1);
    switch (rc) {
    case OKV_EAGAIN:
        return OKV_REJECT_BUSY;
    case OKV_EADDRESS:
        return OKV_REJECT_PATH_MTU;
    case OKV_EUNSUPPORTED: /* no rendezvous read from this client is possible */
        return OKV_REJECT_FEATURE;
    case OKV_EDISCONNECTED: /* the client is gone */
        return OKV_REJECT_GONE;
    default:
        return OKV_REJECT_RESOURCES;
    }
}

/* NULL when there is no memory. */
static struct okv_session *make_session(const struct arrival *arrival, uint32_t slots)
{
    const struct okv_identity *identity = &arrival->identity.of;
    struct okv_session *session =
        okv_session_create(arrival->claim.session_id, arrival->listener, slots);

    if (!session)
        return NULL;
    session->common.database = arrival->client.database;
    session->place = arrival->claim.place;
    session->reply_cache = arrival->grant.reply_cache;
    session->common.worker = arrival->claim.worker;
    session->common.transport = arrival->request->listener->ops->name;
    session->common.how = arrival->request->listener->how;
    session->common.report.is_due = arrival->client.features & OKV_FEATURE_REPORTS;
    memcpy(session->common.peer, arrival->request->peer, sizeof session->common.peer);
    memcpy(session->common.user, identity->user, sizeof session->common.user);
    memcpy(session->common.fingerprint, identity->fingerprint, sizeof session->common.fingerprint);
    atomic_init(&session->rights, arrival->identity.rights);
    atomic_init(&session->is_half_open, arrival->request->is_half_open);
    return session;
}

/* Returns 0 or a reason to reject; the caller then releases the admission. */
static int begin_session(struct okv_server *server, struct arrival *arrival)
{
    const struct okv_reply_cache_claim *claim = &arrival->claim;
    struct okv_reply_cache_grant *grant = &arrival->grant;
    int reason = OKV_REJECT_RESOURCES;

    struct okv_reply_caches *caches = server->databases[arrival->client.database].reply_caches;

    if (okv_reply_cache_acquire(caches, claim, okv_server_clock_ms(server), grant))
        return OKV_REJECT_RESOURCES;
    /* A kept reply cache may have more slots than this hello asks for, or fewer. */
    uint32_t slots = okv_reply_cache_request_slots(grant->reply_cache);
    if (slots > claim->credits)
        slots = claim->credits;
    struct okv_session *session = make_session(arrival, slots);
    if (!session)
        goto roll_back_reply_cache;
    session->common.reports_hits =
        arrival->client.features & OKV_FEATURE_HEAT &&
        server->databases[session->common.database].store.table.heat != NULL;
    session->is_peer = is_peer(server, arrival);
    session->is_observer = arrival->client.features & OKV_FEATURE_OBSERVE &&
                           okv_store_is_member(&server->databases[session->common.database].store);
    session->common.epoch = arrival->epoch;
    okv_client_table_add(server->clients, &session->common, atomic_load(&session->is_half_open));
    /* A change of roles may have walked the table before this client was in it. */
    if (arrival->epoch &&
        atomic_load(&server->databases[session->common.database].served) != arrival->epoch) {
        atomic_store(&session->common.is_deposed, true);
        okv_server_end_unwanted(server, session->common.worker, OKV_CLIENT_NATIVE);
    }
    reason = hand_over(server, arrival, session);
    if (reason)
        goto unregister_session;
    if (grant->resumed)
        OKV_STATS_ADD(&server->stats, resumed, 1);
    if (grant->replaced) {
        okv_admission_release(server->admission, grant->replaced_place);
        okv_server_end_unwanted(server, grant->replaced_worker, OKV_CLIENT_NATIVE);
    }
    return 0;
unregister_session:
    okv_client_table_remove(server->clients, &session->common);
    okv_session_destroy(session);
roll_back_reply_cache:
    if (!okv_reply_cache_rollback(caches, grant, claim->session_id, okv_server_clock_ms(server)))
        okv_admission_release(server->admission, grant->replaced_place);
    return reason;
}

/* Clients of a copy are other servers, and those that neither READ nor write. */
static int check_role(const struct okv_server *server, struct arrival *arrival)
{
    const struct okv_database *database = &server->databases[arrival->client.database];

    if (!okv_store_is_member(&database->store))
        return 0;
    if (!(arrival->client.features & OKV_FEATURE_LEASE))
        return OKV_REJECT_FEATURE;
    if (arrival->client.features & OKV_FEATURE_OBSERVE)
        return 0;
    if (is_peer(server, arrival))
        return arrival->identity.rights & OKV_RIGHT_REPLICATE ? 0 : OKV_REJECT_NO_RIGHT;
    /* The lease ends before the epoch is left, and begins after it (copies/role.c). */
    arrival->epoch = atomic_load(&database->served);
    bool is_led = okv_database_is_led(database);
    return is_led && arrival->epoch == atomic_load(&database->served) ? 0 : OKV_REJECT_NOT_PRIMARY;
}

static void raise_session_id(struct okv_acceptor *acceptor, const struct arrival *arrival)
{
    const struct okv_database *database = &acceptor->server->databases[arrival->client.database];
    uint64_t base = atomic_load(&database->session_base);

    if (acceptor->last_session_id < base)
        acceptor->last_session_id = base;
}

/* A client that comes back before its old connection is gone is counted once: the old connection
 * does not count. Returns 0 or a reason to reject. */
static int admit(struct okv_acceptor *acceptor, struct arrival *arrival)
{
    struct okv_server *server = acceptor->server;
    struct okv_reply_caches *caches = server->databases[arrival->client.database].reply_caches;
    struct okv_reply_cache_owner owner;
    const struct okv_admission_client client = {
        .user = arrival->identity.of.user,
        .address = arrival->request->address,
        .is_admin = arrival->identity.rights & OKV_RIGHT_ADMIN,
        .is_half_open = arrival->request->is_half_open,
    };
    uint32_t replaced_place, place;

    int role_reason = check_role(server, arrival);
    if (role_reason)
        return role_reason;
    memcpy(owner.user, arrival->identity.of.user, sizeof owner.user);
    memcpy(owner.client_id, arrival->client.client_id, sizeof owner.client_id);
    okv_half_open_settle(server);
    okv_half_open_relieve(server, arrival->listener);
    bool is_back = okv_reply_cache_find_holder(caches, &owner, &replaced_place);
    int reason =
        okv_admission_admit(server->admission, &client, is_back ? &replaced_place : NULL, &place);

    if (reason)
        return reason;
    arrival->worker = least_busy_worker(server, arrival->listener);
    raise_session_id(acceptor, arrival);
    arrival->claim = (struct okv_reply_cache_claim){
        .owner = owner,
        .session_id = ++acceptor->last_session_id,
        .resume = arrival->client.resume,
        .credits = arrival->client.credits,
        .place = place,
        .worker = (unsigned)(arrival->worker - server->workers),
    };
    reason = begin_session(server, arrival);
    if (reason)
        okv_admission_release(server->admission, place);
    return reason;
}

static void answer(struct okv_acceptor *acceptor, unsigned listener, struct okv_request *request)
{
    struct okv_server *server = acceptor->server;
    const struct okv_handshake_terms terms = {
        .slot_size = server->limits.slot_size,
        .credits = server->limits.credits,
        .stopping = atomic_load(&server->stopping),
        .databases = server->databases,
        .database_count = server->database_count,
    };
    struct arrival arrival = {.request = request, .listener = listener};
    int reason = OKV_REJECT_MALFORMED;

    if (!request->stranger[0])
        reason =
            okv_handshake_decide(request->hello, request->hello_length, &terms, &arrival.client);

    if (!reason && request->is_foreign)
        reason = OKV_REJECT_UID;
    if (!reason)
        reason = okv_identify(server, request, &arrival.client, &arrival.identity);
    if (!reason)
        reason = admit(acceptor, &arrival);
    if (reason == OKV_REJECT_CHALLENGE)
        challenge(server, request, arrival.identity.cookie);
    else if (reason == OKV_REJECT_NOT_PRIMARY)
        pass_on(server, request, arrival.client.database);
    else if (reason)
        reject(server, request, reason, &arrival.identity.of, &arrival.failure);
}

/* Answers up to REQUESTS_PER_PASS requests; the descriptor stays readable if there are more.
 * Returns a negative code if the listener failed. */
static int answer_some(struct okv_acceptor *acceptor, unsigned listener)
{
    struct okv_listener *from = acceptor->server->listeners[listener];
    struct okv_request *request;
    int rc = 1;

    for (unsigned i = 0; i < REQUESTS_PER_PASS && rc == 1; i++) {
        rc = from->ops->next_request(from, &request);
        if (rc == 1)
            answer(acceptor, listener, request);
    }
    if (from->pending)
        okv_server_log_shortage(acceptor->server, &from->pending->entrance, from->where);
    return rc;
}

/* It serves all requests up to now: the file is read after the flag is cleared. */
static void reload(struct okv_acceptor *acceptor, bool is_of_client)
{
    atomic_store(&acceptor->server->reload_is_asked, false);
    okv_identify_reload(acceptor->server, is_of_client);
}

static void reload_when_due(struct okv_acceptor *acceptor)
{
    if (!atomic_load(&acceptor->server->reload_is_asked) ||
        okv_clock_ns() < acceptor->next_reload_ns)
        return;
    reload(acceptor, true);
    acceptor->next_reload_ns = okv_clock_ns() + RELOAD_PAUSE_NS;
}

static void read_host_when_due(struct okv_acceptor *acceptor)
{
    if (!okv_host_is_asked(acceptor->server->host) || okv_clock_ns() < acceptor->next_host_ns)
        return;
    okv_host_read(acceptor->server->host, "");
    acceptor->next_host_ns = okv_clock_ns() + HOST_PAUSE_NS;
}

/* For poll(): until this moment; -1: nobody waits for it. */
static int wait_ms(bool is_asked, uint64_t due_ns)
{
    uint64_t now_ns = okv_clock_ns();

    if (!is_asked)
        return -1;
    return now_ns >= due_ns ? 0 : (int)((due_ns - now_ns) / 1000000) + 1;
}

/* Does what other threads ask for. False: the thread is to end. */
static bool obey(struct okv_acceptor *acceptor)
{
    eventfd_t count;

    eventfd_read(acceptor->server->acceptor_fd, &count);
    if (atomic_exchange(&acceptor->has_to_reload, false))
        reload(acceptor, false);
    return !atomic_load(&acceptor->has_to_stop);
}

/* The scheduler's slice is milliseconds long, and a worker may wait for this processor. */
static void yield_in_a_flood(struct okv_acceptor *acceptor)
{
    uint64_t now_ns = okv_clock_ns();

    if (now_ns - acceptor->passed_ns > PAUSE_NS)
        acceptor->busy_since_ns = now_ns;
    acceptor->passed_ns = now_ns;
    if (now_ns - acceptor->busy_since_ns > FLOOD_NS &&
        CPU_COUNT(&acceptor->server->config.worker_cpus) == 0)
        sched_yield();
}

/* For poll(): until something that administrators asked for is due; -1: there is nothing. */
static int due_ms(const struct okv_acceptor *acceptor)
{
    struct okv_server *server = acceptor->server;

    return okv_clock_sooner_ms(
        wait_ms(atomic_load(&server->reload_is_asked), acceptor->next_reload_ns),
        wait_ms(okv_host_is_asked(server->host), acceptor->next_host_ns));
}

/* For poll(): of a listener whose door is not open, none. */
static int descriptor_of(const struct okv_server *server, unsigned listener)
{
    bool is_open = atomic_load(&server->doors[listener].state) == OKV_DOOR_OPEN;

    return is_open ? server->listeners[listener]->fd : -1;
}

static void *accept_all(void *user)
{
    struct okv_acceptor *acceptor = user;
    struct okv_server *server = acceptor->server;
    struct pollfd fds[OKV_LISTENERS_MAX + OKV_RESP_LISTENERS_MAX + 1];
    unsigned own = server->listener_count, count = own + server->socket_count;

    for (unsigned i = own; i < count; i++)
        fds[i] = (struct pollfd){.fd = server->sockets[i - own].fd, .events = POLLIN};
    fds[count] = (struct pollfd){.fd = server->acceptor_fd, .events = POLLIN};
    for (;;) {
        okv_doors_mind(server);
        for (unsigned i = 0; i < own; i++)
            fds[i] = (struct pollfd){.fd = descriptor_of(server, i), .events = POLLIN};
        poll(fds, count + 1, okv_clock_sooner_ms(due_ms(acceptor), okv_doors_wait_ms(server)));
        if (fds[count].revents && !obey(acceptor))
            break;
        reload_when_due(acceptor);
        read_host_when_due(acceptor);
        for (unsigned i = own; i < count; i++) {
            const struct okv_socket_listener *socket = &server->sockets[i - own];
            if (fds[i].revents)
                socket->admit(server, socket->listener);
        }
        for (unsigned i = 0; i < own; i++) {
            int rc = fds[i].revents ? answer_some(acceptor, i) : 0;
            if (rc < 0)
                okv_server_fail(server, i, rc);
        }
        yield_in_a_flood(acceptor);
    }
    okv_doors_settle(server);
    return NULL;
}

int okv_acceptor_start(struct okv_acceptor *acceptor, struct okv_server *server,
                       struct okv_diag *why)
{
    *acceptor = (struct okv_acceptor){.server = server};
    server->acceptor_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->acceptor_fd < 0)
        return OKV_EIO;
    int rc = okv_thread_start(&acceptor->thread, accept_all, acceptor, why);
    if (rc)
        close(server->acceptor_fd);
    return rc;
}

void okv_acceptor_reload(struct okv_acceptor *acceptor)
{
    atomic_store(&acceptor->has_to_reload, true);
    eventfd_write(acceptor->server->acceptor_fd, 1);
}

void okv_acceptor_stop(struct okv_acceptor *acceptor)
{
    atomic_store(&acceptor->has_to_stop, true);
    eventfd_write(acceptor->server->acceptor_fd, 1);
    pthread_join(acceptor->thread, NULL);
    close(acceptor->server->acceptor_fd);
    acceptor->server->acceptor_fd = -1;
}
