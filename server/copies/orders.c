#include "server/copies/orders.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "server/copies/creation.h"
#include "server/copies/results.h"
#include "server/copies/servers.h"
#include "server/copies/setting.h"
#include "server/copies/settings.h"
#include "server/core/server.h"
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
    bool has_room = copies->order_count < OKV_COPIES_RESULTS; /* leases wait for those that run */
    if (has_room) {
        copies->order_count++;
        order->number = *number = ++copies->ordered;
        STAILQ_INSERT_TAIL(&copies->orders, order, next);
    }
    pthread_mutex_unlock(&copies->lock);
    if (!has_room) {
        free(order);
        return OKV_ENOMEM;
    }
    eventfd_write(copies->log_fd, 1);
    return 0;
}

/* ---- orders ---- */

static void create(struct okv_copies *copies, const struct okv_copies_order *order,
                   const char *words)
{
    struct okv_cluster_document cluster;
    struct okv_diag why;

    okv_settings_init(&cluster);
    if (okv_settings_read(words, &cluster, &why))
        okv_results_add(copies, order->number, why.text);
    else
        okv_creation_begin(copies, &cluster, order->number);
}

static struct okv_copy *find(struct okv_copies *copies, const char *database)
{
    for (unsigned i = 0; i < copies->server->database_count; i++)
        if (strcmp(copies->of[i].database->config->name, database) == 0)
            return &copies->of[i];
    return NULL;
}

/* Why `server` cannot take over from this one; NULL: it can. */
static const char *hinder_hand_over(const struct okv_copy *copy, uint64_t server, bool is_named)
{
    if (!copy)
        return "there is no such database";
    if (!copy->served)
        return "this server does not lead the database: ask the one that does";
    if (!okv_copies_have_etcd(copy->copies))
        return "etcd does not answer, and nobody could take over: see the server's log";
    if (server == copy->copies->id)
        return "this server leads the database already";
    if (server == 0 || !okv_members_have(&copy->protocol, server))
        return is_named ? "that server's copy is not in sync: see okv cluster status"
                        : "no other copy is in sync: see okv cluster status";
    return NULL;
}

/* "handover DATABASE [SERVER]" */
static void hand_over(struct okv_copies *copies, const struct okv_copies_order *order)
{
    struct okv_protocol_event event = {.type = OKV_EVENT_HAND_OVER};
    char name[OKV_NAME_SIZE] = "";
    int end = 0;
    int count =
        sscanf(order->text, "handover %31s %n%" SCNx64 "%n", name, &end, &event.server, &end);
    struct okv_copy *copy = find(copies, name);

    if (copy && count == 1)
        event.server = okv_copy_successor(copy);
    const char *why = count < 1 || order->text[end]
                          ? "a server is named by its id"
                          : hinder_hand_over(copy, event.server, count > 1);
    if (!why)
        okv_copy_tell(copy, &event);
    okv_results_add(copies, order->number, why ? why : "");
}

/* Why it may not be asked; NULL: it may. */
static const char *hinder_recovery(const struct okv_copy *copy)
{
    if (!copy || !copy->has_begun)
        return "there is no such database, or no copy of it here";
    if (copy->served || copy->protocol.role == OKV_ROLE_PRIMARY)
        return "this server leads the database";
    if (!okv_copies_have_etcd(copy->copies) || copy->protocol.revision == 0)
        return "etcd does not answer: see the server's log";
    if (copy->protocol.is_alarmed)
        return "etcd is not what it was: see docs/cluster.md";
    if (copy->protocol.is_loading || copy->protocol.whole_at != 0)
        return "this copy has lost what it had, and loads a snapshot: ask another server";
    if (copy->protocol.leader != 0 &&
        okv_clock_lease_us() - copy->protocol.promised_us < copy->protocol.options.suspect_us)
        return "another server leads the database, and is heard here";
    if (okv_servers_survivor(copy))
        return "another server runs and has all that was answered: it leads, or is about to";
    return NULL;
}

/* "recover DATABASE" */
static void recover(struct okv_copies *copies, const struct okv_copies_order *order)
{
    const struct okv_protocol_event event = {.type = OKV_EVENT_RECOVER};
    struct okv_copy *copy = find(copies, order->text + strlen("recover "));
    const char *why = hinder_recovery(copy);

    if (!why) {
        okv_log_say(&copies->server->log, OKV_LOG_WARNING, "cluster",
                    "database %s: an administrator has this server lead with what it has",
                    copy->database->config->name);
        okv_copy_tell(copy, &event);
    }
    okv_results_add(copies, order->number, why ? why : "");
}

static void obey(struct okv_copies *copies, const struct okv_copies_order *order)
{
    if (strncmp(order->text, "create ", 7) == 0 || strcmp(order->text, "create") == 0)
        create(copies, order, order->text + 6);
    else if (strncmp(order->text, "set ", 4) == 0)
        okv_setting_begin(copies, order->text + 4, order->number);
    else if (strncmp(order->text, "handover ", 9) == 0)
        hand_over(copies, order);
    else if (strncmp(order->text, "recover ", 8) == 0)
        recover(copies, order);
    else
        okv_results_add(copies, order->number, "there is no such order");
}

static struct okv_copies_order *take_first(struct okv_copies *copies)
{
    pthread_mutex_lock(&copies->lock);
    struct okv_copies_order *first = STAILQ_FIRST(&copies->orders);
    if (first) {
        STAILQ_REMOVE_HEAD(&copies->orders, next);
        copies->order_count--;
    }
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
}
