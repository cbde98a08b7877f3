#include "server/copies/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/copies/keys.h"
#include "server/copies/servers.h"
#include "server/copies/setting.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/etcd/etcd.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Of the key of a server, by etcd's clock. Nothing rests on it but who is listed. */
#define LEASE_S 10
#define RENEW_US 3000000
#define RETRY_US 500000
#define END_MS 500

/* ---- reading ---- */

static void note_server(struct okv_copies *copies, const struct okv_etcd_item *item)
{
    struct okv_known_server server = {.mod_revision = item->mod_revision};

    if (copies->server_count < OKV_SERVERS_MAX &&
        okv_document_read_server(item->value, item->length, &server.of) &&
        !okv_servers_entry(copies, server.of.id))
        copies->servers[copies->server_count++] = server;
}

static void note_cluster(struct okv_copies *copies, const struct okv_etcd_item *item)
{
    struct okv_cluster_document cluster;

    if (item->mod_revision <= copies->cluster_revision)
        return;
    copies->cluster_revision = item->mod_revision;
    if (!okv_document_read_cluster(item->value, item->length, &cluster))
        okv_log_say(&copies->server->log, OKV_LOG_ERROR, "cluster",
                    "etcd: the key %s has a value that this okv-server cannot read", item->key);
    else
        okv_setting_note(copies, &cluster);
}

static void take_items(struct okv_copies *copies, const struct okv_etcd_answer *answer)
{
    char cluster[OKV_COPIES_KEY_SIZE], servers[OKV_COPIES_KEY_SIZE];

    okv_keys_name(copies, "cluster", cluster);
    okv_keys_name(copies, "servers/", servers);
    copies->server_count = 0;
    for (size_t i = 0; i < answer->count; i++) {
        const struct okv_etcd_item *item = &answer->items[i];
        if (strncmp(item->key, servers, strlen(servers)) == 0)
            note_server(copies, item);
        else if (strcmp(item->key, cluster) == 0)
            note_cluster(copies, item);
    }
    copies->has_read = true;
}

static void have_read(void *context, const struct okv_etcd_answer *answer)
{
    struct okv_copies *copies = context;

    copies->is_reading = false;
    if (answer->status == OKV_OK) {
        take_items(copies, answer);
        return;
    }
    if (answer->status != OKV_ESHUTDOWN && !copies->has_read && answer->status != copies->told_etcd)
        okv_log_say(&copies->server->log, OKV_LOG_ERROR, "cluster",
                    "etcd: %s: this server waits for it", answer->why);
    copies->told_etcd = answer->status;
    copies->must_read = true;
    copies->read_at_us = okv_clock_lease_us() + RETRY_US;
}

static void changed(void *context, const struct okv_etcd_answer *answer)
{
    struct okv_copies *copies = context;
    const struct okv_protocol_event hint = {.type = OKV_EVENT_HINT};

    if (answer->status || atomic_load(&copies->has_to_stop))
        return;
    copies->must_read = true;
    for (unsigned i = 0; i < copies->server->database_count; i++)
        if (copies->of[i].has_begun)
            okv_copy_tell(&copies->of[i], &hint);
}

int okv_registry_begin(struct okv_copies *copies)
{
    char prefix[OKV_COPIES_KEY_SIZE];

    okv_keys_name(copies, "", prefix);
    copies->must_read = true;
    return okv_etcd_watch(copies->etcd, prefix, changed, copies);
}

static void read_all(struct okv_copies *copies)
{
    char prefix[OKV_COPIES_KEY_SIZE];

    okv_keys_name(copies, "", prefix);
    copies->is_reading =
        okv_etcd_get(copies->etcd, prefix, OKV_COPIES_ETCD_LONG_MS, have_read, copies) == 0;
    copies->must_read = !copies->is_reading;
    copies->read_at_us = copies->is_reading ? 0 : okv_clock_lease_us() + RETRY_US;
}

/* ---- this server's key ---- */

static void put_off(struct okv_copies *copies, uint64_t us)
{
    copies->is_renewing = false;
    copies->renew_at_us = okv_clock_lease_us() + us;
}

static void have_said(void *context, const struct okv_etcd_answer *answer)
{
    struct okv_copies *copies = context;

    copies->must_read |= answer->status != OKV_ESHUTDOWN;
    put_off(copies, answer->status ? RETRY_US : RENEW_US);
}

/* Of the last read; another process may have this server's key, as long as its lease runs. */
static uint64_t own_revision(struct okv_copies *copies)
{
    const struct okv_known_server *own = okv_servers_entry(copies, copies->id);

    return own ? own->mod_revision : 0;
}

/* A start without files, or a snapshot, begins another incarnation. */
static void describe_copies(struct okv_copies *copies)
{
    struct okv_server_document *self = &copies->self;

    self->copy_count = copies->server->database_count;
    for (unsigned i = 0; i < self->copy_count; i++) {
        snprintf(self->copies[i].database, sizeof self->copies[i].database, "%s",
                 copies->of[i].database->config->name);
        self->copies[i].incarnation = copies->of[i].incarnation;
    }
}

static void say(struct okv_copies *copies)
{
    char key[OKV_COPIES_KEY_SIZE], name[32];
    char *text = okv_document_of_server(&copies->self);

    snprintf(name, sizeof name, "servers/%016" PRIx64, copies->id);
    okv_keys_name(copies, name, key);
    const struct okv_etcd_change change = {
        .key = key,
        .mod_revision = own_revision(copies),
        .value = text,
        .length = text ? strlen(text) : 0,
        .lease = copies->lease,
    };
    if (!text ||
        okv_etcd_swap(copies->etcd, &change, 1, OKV_COPIES_ETCD_LONG_MS, have_said, copies))
        put_off(copies, RETRY_US);
    free(text);
}

/* As it is now. */
static bool is_listed(struct okv_copies *copies)
{
    const struct okv_known_server *own = okv_servers_entry(copies, copies->id);
    const struct okv_server_document *self = &copies->self;
    bool is_same = own && own->of.boot == copies->boot;

    describe_copies(copies);
    for (unsigned i = 0; i < self->copy_count; i++)
        is_same = is_same && okv_server_has_copy(&own->of, self->copies[i].database,
                                                 self->copies[i].incarnation);
    return is_same;
}

static void have_renewed(void *context, const struct okv_etcd_answer *answer)
{
    struct okv_copies *copies = context;

    if (answer->status == OKV_ENOTFOUND)
        copies->lease = 0;
    if (answer->status) {
        put_off(copies, RETRY_US);
        return;
    }
    copies->lease = answer->lease;
    copies->answered_us = okv_clock_lease_us();
    copies->etcd_us = copies->answered_us - copies->asked_us;
    if (is_listed(copies))
        put_off(copies, RENEW_US);
    else
        say(copies);
}

static void renew(struct okv_copies *copies)
{
    copies->is_renewing = true;
    copies->asked_us = okv_clock_lease_us();
    if (okv_etcd_keepalive(copies->etcd, copies->lease, LEASE_S, OKV_COPIES_ETCD_LONG_MS,
                           have_renewed, copies))
        put_off(copies, RETRY_US);
}

/* ---- what is due ---- */

void okv_registry_run(struct okv_copies *copies, uint64_t now_us)
{
    if (copies->must_read && !copies->is_reading && now_us >= copies->read_at_us)
        read_all(copies);
    if (copies->has_read && !copies->is_renewing && now_us >= copies->renew_at_us)
        renew(copies);
}

static void have_revoked(void *context, const struct okv_etcd_answer *answer)
{
    struct okv_copies *copies = context;

    (void)answer;
    copies->lease = 0;
}

void okv_registry_end(struct okv_copies *copies)
{
    uint64_t until_us = okv_clock_lease_us() + END_MS * UINT64_C(1000);

    if (copies->lease == 0 ||
        okv_etcd_revoke(copies->etcd, copies->lease, END_MS, have_revoked, copies))
        return;
    while (copies->lease != 0 && okv_clock_lease_us() < until_us)
        okv_etcd_wait(copies->etcd, NULL, 0, END_MS);
}

uint64_t okv_registry_due_us(const struct okv_copies *copies)
{
    uint64_t due_us = UINT64_MAX;

    if (copies->must_read && !copies->is_reading)
        due_us = copies->read_at_us;
    if (copies->has_read && !copies->is_renewing && copies->renew_at_us < due_us)
        due_us = copies->renew_at_us;
    return due_us;
}
