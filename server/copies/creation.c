#include "server/copies/creation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/copies/keys.h"
#include "server/copies/marking.h"
#include "server/copies/placement.h"
#include "server/copies/results.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/etcd/etcd.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/random.h"

struct creation {
    struct okv_copies *copies;
    uint64_t number; /* of the order */
};

static void have_created(void *context, const struct okv_etcd_answer *answer)
{
    struct creation *creation = context;
    struct okv_copies *copies = creation->copies;

    copies->must_read = true;
    if (answer->status == OKV_ECONFLICT)
        okv_results_add(copies, creation->number, "the cluster exists: see okv cluster status");
    else if (answer->status == OKV_EUNKNOWN)
        okv_results_add(copies, creation->number,
                        "etcd did not answer: the cluster may have been created, see okv cluster "
                        "status");
    else
        okv_results_add(copies, creation->number, answer->status ? answer->why : "");
    free(creation);
}

/* A log that has been in a cluster goes on with a later epoch. */
static char *shard_text(struct okv_copies *copies, const struct okv_copy *copy,
                        const struct okv_shard_key *placed)
{
    const struct okv_member self = {copies->id, copy->incarnation};
    struct okv_shard_key key = *placed;

    key.epoch = okv_marking_epoch(copy) + 1;
    key.by = okv_random_next(&copies->random);
    key.primary = key.isr[0] = self;
    key.isr_count = 1;
    return okv_document_of_shard(&key);
}

static void add_databases(const struct okv_copies *copies, struct okv_cluster_document *cluster)
{
    for (unsigned i = 0; i < copies->server->database_count; i++) {
        struct okv_cluster_database *database = &cluster->databases[cluster->database_count++];
        snprintf(database->name, sizeof database->name, "%s", copies->of[i].database->config->name);
        okv_database_get_identity(copies->of[i].database, &database->identity);
    }
}

/* Before etcd has the cluster: a log that begins in it is its copy, whatever becomes of this
 * server. */
static int mark_all(struct okv_copies *copies, uint64_t cluster_id)
{
    struct okv_diag why;
    int rc = 0;

    for (unsigned i = 0; i < copies->server->database_count && rc == 0; i++)
        rc = okv_marking_create(&copies->of[i], cluster_id, &why);
    return rc;
}

static int swap_all(struct okv_copies *copies, struct okv_cluster_document *cluster,
                    const struct okv_shard_key *placed, struct creation *creation)
{
    struct okv_etcd_change changes[1 + OKV_DATABASES_MAX] = {{.key = NULL}};
    unsigned count = 1 + copies->server->database_count;
    char key[OKV_COPIES_KEY_SIZE];
    char *texts[1 + OKV_DATABASES_MAX];
    bool is_whole = true;

    okv_keys_name(copies, "cluster", key);
    add_databases(copies, cluster);
    texts[0] = okv_document_of_cluster(cluster);
    for (unsigned i = 1; i < count; i++)
        texts[i] = shard_text(copies, &copies->of[i - 1], placed);
    for (unsigned i = 0; i < count; i++) {
        is_whole &= texts[i] != NULL;
        changes[i].key = i == 0 ? key : copies->of[i - 1].key;
        changes[i].value = texts[i];
        changes[i].length = texts[i] ? strlen(texts[i]) : 0;
    }
    int rc = is_whole ? okv_etcd_swap(copies->etcd, changes, count, OKV_COPIES_ETCD_LONG_MS,
                                      have_created, creation)
                      : OKV_ENOMEM;
    for (unsigned i = 0; i < count; i++)
        free(texts[i]);
    return rc;
}

static const char *hinder(const struct okv_copies *copies,
                          const struct okv_cluster_document *cluster, struct okv_shard_key *placed)
{
    if (!copies->has_read)
        return "etcd has not answered yet: see the server's log";
    if (copies->has_cluster)
        return "the cluster exists: see okv cluster status";
    if (okv_placement_choose(copies, cluster, placed) > 0 && !cluster->shares_hosts)
        return "servers on one host would be lost together, and there are too few others: start "
               "some, or give --force";
    return NULL;
}

void okv_creation_begin(struct okv_copies *copies, const struct okv_cluster_document *cluster,
                        uint64_t number)
{
    struct okv_cluster_document whole = *cluster;
    struct okv_shard_key placed = {.wanted_count = 0};
    const char *why = hinder(copies, cluster, &placed);
    struct creation *creation = why ? NULL : malloc(sizeof *creation);
    int rc = OKV_ENOMEM;

    if (why) {
        okv_results_add(copies, number, why);
        return;
    }
    whole.id = copies->creation_id;
    whole.began_wall_ms = okv_clock_wall_ms() - okv_server_clock_ms(copies->server);
    if (creation) {
        *creation = (struct creation){copies, number};
        rc = mark_all(copies, whole.id);
        rc = rc ? rc : swap_all(copies, &whole, &placed, creation);
    }
    if (rc) {
        free(creation);
        okv_results_add(copies, number, okv_error_text(rc));
    }
}
