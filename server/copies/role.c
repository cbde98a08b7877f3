#include "server/copies/role.h"

#include "server/clients/client_table.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/reply_cache_log.h"
#include "server/store/status.h"
#include "server/wal/copies/copies.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* An epoch begins its session ids here, or where those of the log end. */
#define SESSIONS_BITS 20

static void show_lease(struct okv_copy *copy, uint64_t valid_until_us)
{
    const struct okv_protocol *protocol = &copy->protocol;
    const struct okv_store_lease lease = {
        .table =
            {
                .valid_until_us = valid_until_us,
                .epoch = protocol->epoch,
                .map_version = protocol->revision,
                .flags = OKV_LEASE_MEMBER,
            },
        .longest_ms = copy->copies->cluster.lease_ms,
    };

    okv_store_set_lease(&copy->database->store, &lease);
}

/* Clients of other epochs are to leave. False: some are still there. */
static bool is_clear(struct okv_copy *copy)
{
    struct okv_server *server = copy->copies->server;
    unsigned database = (unsigned)(copy->database - server->databases);

    return okv_clients_depose(server, database, copy->served) == 0;
}

static void stop_serving(struct okv_copy *copy)
{
    struct okv_server *server = copy->copies->server;

    if (copy->served == 0)
        return;
    /* Twice: a client of Redis that comes in between may have read while the lease was shown. */
    atomic_fetch_add(&server->role_changes, 1);
    show_lease(copy, 0);
    copy->served = 0;
    atomic_store(&copy->database->served, 0);
    atomic_fetch_add(&server->role_changes, 1);
    okv_log_say(&server->log, OKV_LOG_NOTICE, "cluster",
                "database %s: this server leads it no more (epoch %llu)",
                copy->database->config->name, (unsigned long long)copy->protocol.epoch);
}

/* What the clients of earlier epochs were told, as the log has it. */
static void prepare(struct okv_copy *copy)
{
    struct okv_server *server = copy->copies->server;
    struct okv_database *database = copy->database;
    uint64_t epoch = copy->protocol.epoch;
    struct okv_wal_copies_state state;

    okv_wal_copies_get(database->wal, &state);
    okv_databases_set_clock(server, state.clock_ms); /* what has expired stays so */
    uint64_t base = okv_reply_caches_next_session(database->reply_caches, epoch << SESSIONS_BITS);
    atomic_store(&database->session_base, base);
    okv_reply_caches_begin_epoch(database->reply_caches, base, okv_server_clock_ms(server));
    copy->served = epoch;
    atomic_store(&database->served, epoch);
    okv_log_say(&server->log, OKV_LOG_NOTICE, "cluster",
                "database %s: this server leads it (epoch %llu)", database->config->name,
                (unsigned long long)epoch);
}

static void refuse_writes(struct okv_copy *copy)
{
    const struct okv_protocol *protocol = &copy->protocol;
    bool lacks_copies = protocol->is_serving && !protocol->status.takes_writes &&
                        protocol->phase != OKV_HAND_OVER_DRAIN;

    okv_wal_copies_refuse(copy->database->wal, lacks_copies ? OKV_EFEWCOPIES : 0);
}

bool okv_role_show(struct okv_copy *copy)
{
    const struct okv_protocol *protocol = &copy->protocol;
    bool serves = protocol->status.valid_until_us != 0;

    if (!serves || copy->served != protocol->epoch)
        stop_serving(copy);
    refuse_writes(copy);
    show_lease(copy, copy->served ? protocol->status.valid_until_us : 0);
    if (copy->served)
        return false;
    bool clear = is_clear(copy);
    if (!serves)
        return false; /* those that are still there end before it serves again */
    if (!clear)
        return true;
    prepare(copy);
    show_lease(copy, protocol->status.valid_until_us);
    return false;
}
