#include "server/copies/placement.h"

#include <stdlib.h>
#include <string.h>

#include "server/copies/servers.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/etcd/etcd.h"
#include "shared/base/clock.h"
#include "shared/base/random.h"

/* ---- hosts ---- */

static bool has_host(const struct okv_copies *copies, const struct okv_shard_key *key,
                     const char *host)
{
    for (unsigned i = 0; i < key->wanted_count; i++) {
        const struct okv_server_document *server = okv_servers_known(copies, key->wanted[i]);
        if (server && strcmp(server->host, host) == 0)
            return true;
    }
    return false;
}

/* A server that has no copy yet, on a host that has none, or if hosts are shared on any; 0: there
 * is none. `left_out` counts those whose hosts have one. */
static uint64_t choose(const struct okv_copies *copies, const struct okv_cluster_document *cluster,
                       const struct okv_shard_key *key, unsigned *left_out)
{
    uint64_t second = 0;

    *left_out = 0;
    for (unsigned i = 0; i < copies->server_count; i++) {
        const struct okv_server_document *server = &copies->servers[i].of;
        if (okv_key_wants(key, server->id))
            continue;
        if (!has_host(copies, key, server->host))
            return server->id;
        second = server->id;
        ++*left_out;
    }
    return cluster->shares_hosts ? second : 0;
}

unsigned okv_placement_choose(const struct okv_copies *copies,
                              const struct okv_cluster_document *cluster, struct okv_shard_key *key)
{
    unsigned left_out = 0;
    uint64_t server = copies->id;

    while (server != 0) {
        key->wanted[key->wanted_count++] = server;
        server = key->wanted_count < cluster->copies ? choose(copies, cluster, key, &left_out) : 0;
    }
    return key->wanted_count < cluster->copies ? left_out : 0;
}

bool okv_placement_is_settled(const struct okv_copy *copy)
{
    const struct okv_copies *copies = copy->copies;
    const struct okv_shard_key *key = &copy->protocol.key;
    unsigned left_out;

    return key->wanted_count == copies->cluster.copies ||
           (key->wanted_count < copies->cluster.copies &&
            choose(copies, &copies->cluster, key, &left_out) == 0);
}

/* ---- changes ---- */

static void remove_wanted(struct okv_shard_key *key, uint64_t server)
{
    unsigned count = 0;

    for (unsigned i = 0; i < key->wanted_count; i++)
        if (key->wanted[i] != server)
            key->wanted[count++] = key->wanted[i];
    key->wanted_count = count;
}

static bool runs(const struct okv_copy *copy, uint64_t server)
{
    const struct okv_peer *peer = okv_protocol_peer(&copy->protocol, server);

    return server == copy->copies->id || okv_servers_known(copy->copies, server) ||
           (peer && peer->is_joined);
}

/* Notes since when each wanted server has not run. */
static void note_absences(struct okv_copy *copy, uint64_t now_us)
{
    const struct okv_shard_key *key = &copy->protocol.key;

    for (unsigned i = 0; i < key->wanted_count; i++)
        if (copy->absent[i].server != key->wanted[i] || runs(copy, key->wanted[i]))
            copy->absent[i] = (struct okv_copy_absence){key->wanted[i], now_us};
}

/* A server that has not run for as long as the cluster waits; 0: there is none. */
static uint64_t missing_server(const struct okv_copy *copy, uint64_t now_us)
{
    const struct okv_shard_key *key = &copy->protocol.key;
    uint64_t wait_us = copy->copies->cluster.replace_ms * UINT64_C(1000);

    for (unsigned i = 0; i < key->wanted_count && wait_us != 0; i++)
        if (!runs(copy, key->wanted[i]) && now_us - copy->absent[i].since_us >= wait_us)
            return key->wanted[i];
    return 0;
}

/* The one that is missed least: the last one of those that are not in sync, else the last one. */
static uint64_t spare_server(const struct okv_copy *copy)
{
    const struct okv_shard_key *key = &copy->protocol.key;
    uint64_t spare = 0;
    bool is_in_sync = true;

    for (unsigned i = 0; i < key->wanted_count; i++) {
        bool has_all = okv_key_has_server(key, key->wanted[i]);
        if (key->wanted[i] != copy->copies->id && (is_in_sync || !has_all)) {
            spare = key->wanted[i];
            is_in_sync = has_all;
        }
    }
    return spare;
}

/* Of a server that does not run nobody knows the host. */
static bool knows_all_hosts(const struct okv_copy *copy, const struct okv_shard_key *key)
{
    for (unsigned i = 0; i < key->wanted_count; i++)
        if (!okv_servers_known(copy->copies, key->wanted[i]) && key->wanted[i] != copy->copies->id)
            return false;
    return true;
}

bool okv_placement_change(struct okv_copy *copy, struct okv_shard_key *key, uint64_t now_us)
{
    const struct okv_copies *copies = copy->copies;
    const struct okv_cluster_document *cluster = &copies->cluster;
    bool lacks_self = !okv_key_wants(key, copies->id); /* it took over before it was to leave */
    uint64_t missing, server;
    unsigned left_out;

    note_absences(copy, now_us);
    missing = missing_server(copy, now_us);
    if (key->wanted_count + lacks_self > cluster->copies) {
        remove_wanted(key, missing ? missing : spare_server(copy));
        if (lacks_self)
            key->wanted[key->wanted_count++] = copies->id;
        return true;
    }
    remove_wanted(key, missing);
    server = lacks_self ? copies->id : choose(copies, cluster, key, &left_out);
    if (server == 0 || key->wanted_count >= cluster->copies ||
        (!cluster->shares_hosts && !knows_all_hosts(copy, key)))
        return false;
    key->wanted[key->wanted_count++] = server;
    return true;
}

/* The protocol reads the key again when it has changed. */
static void have_changed(void *context, const struct okv_etcd_answer *answer)
{
    struct okv_copy *copy = context;

    copy->is_placing = false;
    if (answer->status == OKV_OK)
        okv_log_say(&copy->copies->server->log, OKV_LOG_NOTICE, "cluster",
                    "database %s: other servers are to have its copies: see okv cluster status",
                    copy->database->config->name);
}

void okv_placement_run(struct okv_copy *copy, uint64_t now_us)
{
    struct okv_copies *copies = copy->copies;
    struct okv_shard_key key = copy->protocol.key;

    if (!copy->served || !okv_copies_have_etcd(copies)) {
        memset(copy->absent, 0, sizeof copy->absent); /* nobody has looked meanwhile */
        return;
    }
    if (copy->is_placing || copy->protocol.is_proposing ||
        !okv_placement_change(copy, &key, now_us))
        return;
    key.by = okv_random_next(&copies->random);
    char *text = okv_document_of_shard(&key);
    const struct okv_etcd_change change = {
        .key = copy->key,
        .mod_revision = copy->protocol.revision,
        .value = text,
        .length = text ? strlen(text) : 0,
    };
    copy->is_placing = text && okv_etcd_swap(copies->etcd, &change, 1, OKV_COPIES_ETCD_MS,
                                             have_changed, copy) == 0;
    free(text);
}
