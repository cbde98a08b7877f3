#include "server/copies/orders.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "server/copies/creation.h"
#include "server/copies/results.h"
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
    order->number = *number = ++copies->ordered;
    STAILQ_INSERT_TAIL(&copies->orders, order, next);
    pthread_mutex_unlock(&copies->lock);
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

/* "handover DATABASE [SERVER]" */
static void hand_over(struct okv_copies *copies, const struct okv_copies_order *order)
{
    struct okv_protocol_event event = {.type = OKV_EVENT_HAND_OVER};
    char name[OKV_NAME_SIZE];
    int end = 0;
    int count =
        sscanf(order->text, "handover %31s %n%" SCNx64 "%n", name, &end, &event.server, &end);
    struct okv_copy *copy = count >= 1 ? find(copies, name) : NULL;

    if (count >= 1 && order->text[end]) {
        okv_results_add(copies, order->number,
                        "a server is named by its id: see okv cluster status");
        return;
    }

    if (!copy || !copy->served) {
        okv_results_add(copies, order->number,
                        copy ? "this server does not lead the database: ask the one that does"
                             : "there is no such database");
        return;
    }
    if (!okv_copies_have_etcd(copies)) {
        okv_results_add(copies, order->number,
                        "etcd does not answer, and nobody could take over: see the server's log");
        return;
    }
    if (count == 1)
        event.server = okv_copy_successor(copy);
    if (event.server == 0 || event.server == copies->id ||
        !okv_members_have(&copy->protocol, event.server)) {
        okv_results_add(copies, order->number, "no other copy is in sync: see okv cluster status");
        return;
    }
    okv_copy_tell(copy, &event);
    okv_results_add(copies, order->number, "");
}

static void obey(struct okv_copies *copies, const struct okv_copies_order *order)
{
    if (strncmp(order->text, "create", 6) == 0)
        create(copies, order, order->text + 6);
    else if (strncmp(order->text, "set ", 4) == 0)
        okv_setting_begin(copies, order->text + 4, order->number);
    else if (strncmp(order->text, "handover ", 9) == 0)
        hand_over(copies, order);
    else
        okv_results_add(copies, order->number, "there is no such order");
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
}
