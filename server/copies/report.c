#include "server/copies/report.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/cluster/members.h"
#include "server/copies/placement.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "shared/base/clock.h"

size_t okv_copies_report(struct okv_copies *copies, uint64_t offset, char *out, size_t size)
{
    size_t used = 0;

    pthread_mutex_lock(&copies->lock);
    size_t length = copies->report ? strlen(copies->report) : 0;
    if (offset < length)
        used = length - offset < size ? length - offset : size;
    memcpy(out, used ? copies->report + offset : "", used);
    pthread_mutex_unlock(&copies->lock);
    return used;
}

static json_t *hex(uint64_t value)
{
    return json_sprintf("%016" PRIx64, value);
}

/* As far as this server knows: of its own copy it knows the incarnation, and a primary that of
 * those that have joined. */
static bool is_in_sync(const struct okv_copy *copy, uint64_t server)
{
    const struct okv_protocol *protocol = &copy->protocol;

    if (server == copy->copies->id)
        return okv_key_has(&protocol->key, protocol->self) && !protocol->is_loading;
    if (copy->is_leading)
        return okv_members_have(protocol, server);
    return okv_key_has_server(&protocol->key, server);
}

static json_t *copy_json(const struct okv_copy *copy, uint64_t server, uint64_t sealed)
{
    const struct okv_protocol *protocol = &copy->protocol;
    const struct okv_peer *peer = okv_protocol_peer(protocol, server);
    bool is_self = server == copy->copies->id;

    json_t *object =
        json_pack("{s:o, s:b}", "server", hex(server), "in_sync", is_in_sync(copy, server));
    if (copy->is_leading && (is_self || peer)) {
        uint64_t position = is_self ? protocol->durable : peer->position;
        json_object_set_new(object, "connected", json_boolean(is_self || peer->is_joined));
        json_object_set_new(object, "behind_bytes",
                            json_integer(position < sealed ? (json_int_t)(sealed - position) : 0));
    }
    return object;
}

static json_t *database_json(const struct okv_copy *copy)
{
    const struct okv_protocol *protocol = &copy->protocol;
    const struct okv_shard_key *key = &protocol->key;
    /* A part of a snapshot is of no position. */
    uint64_t sealed = protocol->whole_at ? 0 : protocol->sealed;
    json_t *copies = json_array();
    json_t *object =
        json_pack("{s:s, s:I, s:o, s:b, s:b, s:b, s:b, s:I, s:I, s:o}", "name",
                  copy->database->config->name, "epoch", (json_int_t)key->epoch, "primary",
                  hex(key->primary.server), "leads", copy->served != 0, "takes_writes",
                  protocol->status.takes_writes, "alarmed", protocol->is_alarmed, "settled",
                  okv_placement_is_settled(copy), "position", (json_int_t)sealed, "log_epoch",
                  (json_int_t)okv_epochs_at(&protocol->epochs, sealed), "copies", copies);

    for (unsigned i = 0; i < key->wanted_count; i++)
        json_array_append_new(copies, copy_json(copy, key->wanted[i], protocol->sealed));
    return object;
}

static json_t *server_json(const struct okv_server_document *server)
{
    json_t *uris = json_array();

    for (unsigned i = 0; i < server->uri_count; i++)
        json_array_append_new(uris, json_string(server->uris[i]));
    return json_pack("{s:o, s:o, s:s, s:s}", "id", hex(server->id), "uris", uris, "host",
                     server->host, "version", server->version);
}

/* -1: it has not answered since the start. */
static json_int_t etcd_silent_ms(const struct okv_copies *copies)
{
    uint64_t now_us = okv_clock_lease_us();

    return copies->answered_us ? (json_int_t)((now_us - copies->answered_us) / 1000) : -1;
}

static json_t *report_json(const struct okv_copies *copies)
{
    json_t *servers = json_array(), *databases = json_array();

    for (unsigned i = 0; i < copies->server_count; i++)
        json_array_append_new(servers, server_json(&copies->servers[i].of));
    for (unsigned i = 0; i < copies->server->database_count; i++)
        if (copies->of[i].has_begun)
            json_array_append_new(databases, database_json(&copies->of[i]));
    return json_pack("{s:s, s:o, s:b, s:b, s:i, s:i, s:i, s:i, s:b, s:I, s:I, s:o, s:o}", "cluster",
                     copies->server->config.cluster.name, "server", hex(copies->id), "read",
                     copies->has_read, "exists", copies->has_cluster, "copies",
                     (int)copies->cluster.copies, "min_copies", (int)copies->cluster.copies_min,
                     "lease_ms", (int)copies->cluster.lease_ms, "replace_ms",
                     (int)copies->cluster.replace_ms, "shares_hosts", copies->cluster.shares_hosts,
                     "etcd_silent_ms", etcd_silent_ms(copies), "etcd_us",
                     (json_int_t)copies->etcd_us, "servers", servers, "databases", databases);
}

/* Of a copy that is not connected nobody knows how far it is behind. */
static uint64_t behind(const struct okv_copy *copy)
{
    const struct okv_protocol *protocol = &copy->protocol;
    uint64_t most = 0;

    if (!copy->is_leading)
        return protocol->published > protocol->applied ? protocol->published - protocol->applied
                                                       : 0;
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++) {
        const struct okv_peer *peer = &protocol->peers[i];
        if (peer->is_joined && protocol->sealed - peer->position > most)
            most = protocol->sealed - peer->position;
    }
    return most;
}

/* What an operator would look for after puts were slow. */
static void note_set(struct okv_copy *copy)
{
    const struct okv_shard_key *key = &copy->protocol.key;
    unsigned before = copy->told_in_sync;

    copy->told_in_sync = copy->is_leading ? key->isr_count : 0;
    if (copy->told_in_sync == before || copy->told_in_sync == 0)
        return;
    okv_log_say(&copy->copies->server->log,
                key->isr_count < copy->copies->cluster.copies ? OKV_LOG_WARNING : OKV_LOG_NOTICE,
                "cluster", "database %s: %u of %u copies are in sync", copy->database->config->name,
                key->isr_count, copy->copies->cluster.copies);
}

static void note_figures(struct okv_copy *copy)
{
    struct okv_copies_figures *figures = &copy->database->copies;
    const struct okv_protocol *protocol = &copy->protocol;

    atomic_store(&figures->copies_led, copy->served != 0);
    atomic_store(&figures->copies_epoch, protocol->epoch);
    atomic_store(&figures->copies_wanted, copy->copies->cluster.copies);
    atomic_store(&figures->copies_in_sync, protocol->key.isr_count);
    atomic_store(&figures->copies_behind_bytes, behind(copy));
    atomic_store(&figures->copies_suspected, copy->elections.suspected);
    atomic_store(&figures->copies_took_over, copy->elections.took_over);
    atomic_store(&figures->copies_deposed, copy->elections.deposed);
    atomic_store(&figures->copies_failed, copy->told.is_full);
    atomic_store(&figures->copies_alarmed, protocol->is_alarmed);
}

/* Under the lock. */
static void note_primary(struct okv_copies *copies, unsigned database)
{
    uint64_t primary = copies->of[database].protocol.key.primary.server;

    copies->primaries[database].uri_count = 0;
    for (unsigned i = 0; i < copies->server_count; i++)
        if (copies->servers[i].of.id == primary && primary != copies->id)
            copies->primaries[database] = copies->servers[i].of;
}

void okv_copies_primary(struct okv_copies *copies, unsigned database, const char *like, char *out,
                        size_t size)
{
    size_t scheme = strcspn(like, "/") + 2;

    out[0] = '\0';
    pthread_mutex_lock(&copies->lock);
    const struct okv_server_document *primary = &copies->primaries[database];
    for (unsigned i = 0; i < primary->uri_count && !out[0]; i++)
        if (strncmp(primary->uris[i], like, scheme) == 0 &&
            strlen(primary->uris[i] + scheme) < size)
            strcpy(out, primary->uris[i] + scheme);
    pthread_mutex_unlock(&copies->lock);
}

void okv_report_renew(struct okv_copies *copies)
{
    json_t *json = report_json(copies);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    const struct okv_lateness *lateness = &copies->lateness;
    atomic_store(&copies->server->etcd_answered_us, copies->answered_us);
    atomic_store(&copies->server->cluster_late_us,
                 lateness->now_us > lateness->before_us ? lateness->now_us : lateness->before_us);
    for (unsigned i = 0; i < copies->server->database_count; i++) {
        note_figures(&copies->of[i]);
        note_set(&copies->of[i]);
    }
    pthread_mutex_lock(&copies->lock);
    for (unsigned i = 0; i < copies->server->database_count; i++)
        note_primary(copies, i);
    free(copies->report);
    copies->report = text;
    pthread_mutex_unlock(&copies->lock);
}
