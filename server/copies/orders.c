#include "server/copies/orders.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "server/copies/copy.h"
#include "server/copies/registry.h"
#include "server/database/database.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* ---- what others leave, and read ---- */

int okv_copies_order(struct okv_copies *copies, const char *text, uint64_t *number)
{
    struct okv_copies_order *order = calloc(1, sizeof *order);

    if (!order)
        return OKV_ENOMEM;
    snprintf(order->text, sizeof order->text, "%s", text);
    pthread_mutex_lock(&copies->lock);
    order->number = *number = ++copies->ordered;
    STAILQ_INSERT_TAIL(&copies->orders, order, next);
    pthread_mutex_unlock(&copies->lock);
    eventfd_write(copies->log_fd, 1);
    return 0;
}

int okv_copies_result(struct okv_copies *copies, uint64_t number, char *out, size_t size)
{
    const struct okv_copies_result *result = &copies->results[number % OKV_COPIES_RESULTS];
    int rc = OKV_EAGAIN;

    pthread_mutex_lock(&copies->lock);
    if (number == 0 || number > copies->ordered || result->number > number)
        rc = OKV_ENOTFOUND;
    else if (result->number == number)
        rc = snprintf(out, size, "%s", result->text);
    pthread_mutex_unlock(&copies->lock);
    return rc;
}

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

void okv_orders_answer(struct okv_copies *copies, uint64_t number, const char *text)
{
    struct okv_copies_result *result = &copies->results[number % OKV_COPIES_RESULTS];

    pthread_mutex_lock(&copies->lock);
    result->number = number;
    snprintf(result->text, sizeof result->text, "%s", text[0] ? text : "done");
    pthread_mutex_unlock(&copies->lock);
}

/* ---- orders ---- */

/* "create COPIES MIN LEASE_MS" */
static void create(struct okv_copies *copies, const struct okv_copies_order *order)
{
    struct okv_cluster_document cluster = {.database_count = 0};
    unsigned lease_ms;

    if (sscanf(order->text, "create %u %u %u", &cluster.copies, &cluster.copies_min, &lease_ms) !=
            3 ||
        cluster.copies < 1 || cluster.copies > OKV_COPIES_MAX || cluster.copies_min < 1 ||
        cluster.copies_min > cluster.copies || lease_ms < 200 || lease_ms > 10000) {
        okv_orders_answer(copies, order->number,
                          "copies are 1 to 8, at least as many as the least number of copies, and "
                          "a lease is 200 ms to 10 s");
        return;
    }
    cluster.lease_ms = lease_ms;
    okv_registry_create(copies, &cluster, order->number);
}

static struct okv_copy *find(struct okv_copies *copies, const char *database)
{
    for (unsigned i = 0; i < copies->server->database_count; i++)
        if (strcmp(copies->of[i].database->config->name, database) == 0)
            return &copies->of[i];
    return NULL;
}

/* The other member of the set that may take over; 0: there is none. */
static uint64_t successor_of(const struct okv_copy *copy)
{
    const struct okv_shard_key *key = &copy->protocol.key;

    for (unsigned i = 0; i < key->isr_count; i++)
        if (key->isr[i].server != copy->copies->id)
            return key->isr[i].server;
    return 0;
}

/* "handover DATABASE [SERVER]" */
static void hand_over(struct okv_copies *copies, const struct okv_copies_order *order)
{
    struct okv_protocol_event event = {.type = OKV_EVENT_HAND_OVER};
    char name[OKV_NAME_SIZE];
    int count = sscanf(order->text, "handover %31s %" SCNx64, name, &event.server);
    struct okv_copy *copy = count >= 1 ? find(copies, name) : NULL;

    if (!copy || !copy->served) {
        okv_orders_answer(copies, order->number,
                          copy ? "this server does not lead the database: ask the one that does"
                               : "there is no such database");
        return;
    }
    if (count == 1)
        event.server = successor_of(copy);
    if (event.server == 0 || event.server == copies->id ||
        !okv_key_has_server(&copy->protocol.key, event.server)) {
        okv_orders_answer(copies, order->number,
                          "no other copy is in sync: see okv cluster status");
        return;
    }
    okv_copy_step(copy, &event);
    okv_orders_answer(copies, order->number, "");
}

static void obey(struct okv_copies *copies, const struct okv_copies_order *order)
{
    if (strncmp(order->text, "create ", 7) == 0)
        create(copies, order);
    else if (strncmp(order->text, "handover ", 9) == 0)
        hand_over(copies, order);
    else
        okv_orders_answer(copies, order->number, "there is no such order");
}

static struct okv_copies_order *take_first(struct okv_copies *copies)
{
    pthread_mutex_lock(&copies->lock);
    struct okv_copies_order *first = STAILQ_FIRST(&copies->orders);
    if (first)
        STAILQ_REMOVE_HEAD(&copies->orders, next);
    pthread_mutex_unlock(&copies->lock);
    return first;
}

void okv_orders_take(struct okv_copies *copies)
{
    struct okv_copies_order *order;

    while ((order = take_first(copies))) {
        obey(copies, order);
        free(order);
    }
}

void okv_orders_end(struct okv_copies *copies)
{
    struct okv_copies_order *order;

    while ((order = take_first(copies)))
        free(order);
    free(copies->report);
}

/* ---- the report ---- */

static json_t *hex(uint64_t value)
{
    return json_sprintf("%016" PRIx64, value);
}

static json_t *copy_json(const struct okv_copy *copy, uint64_t server, uint64_t sealed)
{
    const struct okv_protocol *protocol = &copy->protocol;
    const struct okv_peer *peer = NULL;
    bool is_self = server == copy->copies->id;

    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        if (protocol->peers[i].member.server == server)
            peer = &protocol->peers[i];
    json_t *object = json_pack("{s:o, s:b}", "server", hex(server), "in_sync",
                               okv_key_has_server(&protocol->key, server));
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
    json_t *copies = json_array();
    json_t *object =
        json_pack("{s:s, s:I, s:o, s:b, s:b, s:b, s:I, s:o}", "name", copy->database->config->name,
                  "epoch", (json_int_t)key->epoch, "primary", hex(key->primary.server), "leads",
                  copy->served != 0, "takes_writes", protocol->status.takes_writes, "alarmed",
                  protocol->is_alarmed, "position", (json_int_t)protocol->sealed, "copies", copies);

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

static json_t *report_json(const struct okv_copies *copies)
{
    json_t *servers = json_array(), *databases = json_array();

    for (unsigned i = 0; i < copies->server_count; i++)
        json_array_append_new(servers, server_json(&copies->servers[i].of));
    for (unsigned i = 0; i < copies->server->database_count; i++)
        if (copies->of[i].has_begun)
            json_array_append_new(databases, database_json(&copies->of[i]));
    return json_pack("{s:s, s:o, s:b, s:i, s:i, s:i, s:o, s:o}", "cluster",
                     copies->server->config.cluster.name, "server", hex(copies->id), "exists",
                     copies->has_cluster, "copies", (int)copies->cluster.copies, "min_copies",
                     (int)copies->cluster.copies_min, "lease_ms", (int)copies->cluster.lease_ms,
                     "servers", servers, "databases", databases);
}

void okv_orders_report(struct okv_copies *copies)
{
    json_t *json = report_json(copies);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    pthread_mutex_lock(&copies->lock);
    free(copies->report);
    copies->report = text;
    pthread_mutex_unlock(&copies->lock);
}
