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
                        const struct okv_cluster_document *cluster)
{
    const struct okv_member self = {copies->id, copy->incarnation};
    struct okv_shard_key key = {
        .epoch = okv_marking_epoch(copy) + 1,
        .by = okv_random_next(&copies->random),
        .primary = self,
        .isr = {self},
        .isr_count = 1,
    };

    okv_placement_begin(copies, cluster, &key);
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
                    struct creation *creation)
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
        texts[i] = shard_text(copies, &copies->of[i - 1], cluster);
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

/* Whether copies that there are servers for would have none, since these share a host. */
static bool lacks_hosts(const struct okv_copies *copies, const struct okv_cluster_document *cluster)
{
    struct okv_shard_key key = {.wanted_count = 0};

    return okv_placement_begin(copies, cluster, &key) > 0;
}

void okv_creation_begin(struct okv_copies *copies, const struct okv_cluster_document *cluster,
                        uint64_t number)
{
    struct creation *creation = malloc(sizeof *creation);
    struct okv_cluster_document whole = *cluster;
    int rc = OKV_ENOMEM;

    if (copies->has_cluster) {
        free(creation);
        okv_results_add(copies, number, "the cluster exists: see okv cluster status");
        return;
    }
    if (lacks_hosts(copies, cluster)) {
        free(creation);
        okv_results_add(copies, number,
                        "servers on one host would be lost together, and there are too few others: "
                        "start some, or give --force");
        return;
    }
    whole.id = okv_random_next(&copies->random) | 1;
    whole.began_wall_ms = okv_clock_wall_ms() - okv_server_clock_ms(copies->server);
    if (creation) {
        *creation = (struct creation){copies, number};
        rc = mark_all(copies, whole.id);
        rc = rc ? rc : swap_all(copies, &whole, creation);
    }
    if (rc) {
        free(creation);
        okv_results_add(copies, number, okv_error_text(rc));
    }
}
