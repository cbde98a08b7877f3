#include "server/copies/placement.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/etcd/etcd.h"
#include "shared/base/clock.h"
#include "shared/base/random.h"

/* ---- hosts ---- */

/* NULL: it does not run. */
static const struct okv_server_document *find(const struct okv_copies *copies, uint64_t server)
{
    for (unsigned i = 0; i < copies->server_count; i++)
        if (copies->servers[i].of.id == server)
            return &copies->servers[i].of;
    return NULL;
}

static bool has_host(const struct okv_copies *copies, const struct okv_shard_key *key,
                     const char *host)
{
    for (unsigned i = 0; i < key->wanted_count; i++) {
        const struct okv_server_document *server = find(copies, key->wanted[i]);
        if (server && strcmp(server->host, host) == 0)
            return true;
    }
    return false;
}

/* A server that has no copy yet, nor has its host; 0: there is none. */
static uint64_t choose(const struct okv_copies *copies, const struct okv_cluster_document *cluster,
                       const struct okv_shard_key *key, unsigned *left_out)
{
    for (unsigned i = 0; i < copies->server_count; i++) {
        const struct okv_server_document *server = &copies->servers[i].of;
        if (okv_key_wants(key, server->id))
            continue;
        if (cluster->shares_hosts || !has_host(copies, key, server->host))
            return server->id;
        ++*left_out;
    }
    return 0;
}

unsigned okv_placement_begin(const struct okv_copies *copies,
                             const struct okv_cluster_document *cluster, struct okv_shard_key *key)
{
    unsigned left_out = 0;
    uint64_t server = copies->id;

    while (server != 0) {
        key->wanted[key->wanted_count++] = server;
        left_out = 0;
        server = key->wanted_count < cluster->copies ? choose(copies, cluster, key, &left_out) : 0;
    }
    return left_out;
}

bool okv_placement_is_settled(const struct okv_copy *copy)
{
    const struct okv_copies *copies = copy->copies;
    const struct okv_shard_key *key = &copy->protocol.key;
    unsigned left_out = 0;

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

static bool is_there(const struct okv_copy *copy, uint64_t server)
{
    const struct okv_peer *peer = okv_protocol_peer(&copy->protocol, server);

    return server == copy->copies->id || find(copy->copies, server) || (peer && peer->is_joined);
}

/* A server that does not run, for as long as the cluster waits for one; 0: there is none. */
static uint64_t missing_server(struct okv_copy *copy, uint64_t now_us)
{
    const struct okv_copies *copies = copy->copies;
    const struct okv_shard_key *key = &copy->protocol.key;
    uint64_t wait_us = copies->cluster.replace_ms * UINT64_C(1000), missing = 0;

    for (unsigned i = 0; i < key->wanted_count; i++) {
        struct okv_copy_absence *absence = &copy->absent[i];
        if (absence->server != key->wanted[i] || is_there(copy, key->wanted[i]))
            *absence = (struct okv_copy_absence){key->wanted[i], now_us};
        else if (wait_us != 0 && now_us - absence->since_us >= wait_us)
            missing = key->wanted[i];
    }
    return missing;
}

/* The one that is missed least: first one that is not in sync, and the last one of those. */
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

/* False: all is as it should be, or nothing can be done. */
static bool improve(struct okv_copy *copy, struct okv_shard_key *key, uint64_t now_us)
{
    const struct okv_copies *copies = copy->copies;
    const struct okv_cluster_document *cluster = &copies->cluster;
    uint64_t missing = missing_server(copy, now_us), server;
    unsigned left_out = 0;

    if (!okv_key_wants(key, copies->id)) { /* it took over before it was to leave */
        if (key->wanted_count >= cluster->copies)
            remove_wanted(key, missing ? missing : spare_server(copy));
        key->wanted[key->wanted_count++] = copies->id;
        return true;
    }
    if (key->wanted_count > cluster->copies) {
        remove_wanted(key, missing ? missing : spare_server(copy));
        return true;
    }
    if (key->wanted_count == cluster->copies) {
        if (missing == 0)
            return false;
        remove_wanted(key, missing);
    }
    server = choose(copies, cluster, key, &left_out);
    if (server != 0)
        key->wanted[key->wanted_count++] = server;
    return server != 0;
}

/* The protocol reads the key again when it has changed. */
static void have_improved(void *context, const struct okv_etcd_answer *answer)
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

    if (!copy->served || copy->is_placing || copy->protocol.is_proposing ||
        !okv_copies_have_etcd(copies) || !improve(copy, &key, now_us))
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
                                             have_improved, copy) == 0;
    free(text);
}
