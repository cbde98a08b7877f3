#include "server/copies/setting.h"

#include <stdlib.h>
#include <string.h>

#include "server/copies/keys.h"
#include "server/copies/results.h"
#include "server/copies/settings.h"
#include "server/core/server.h"
#include "server/etcd/etcd.h"
#include "shared/base/error.h"

struct setting {
    struct okv_copies *copies;
    uint64_t number; /* of the order */
    struct okv_cluster_document cluster;
};

static void have_set(void *context, const struct okv_etcd_answer *answer)
{
    struct setting *setting = context;
    struct okv_copies *copies = setting->copies;
    const char *text = answer->status ? answer->why : "";

    copies->must_read = true;
    if (answer->status == OKV_OK && answer->revision > copies->cluster_revision) {
        okv_setting_note(copies, &setting->cluster);
        copies->cluster_revision = answer->revision;
    }
    if (answer->status == OKV_ECONFLICT)
        text = "the settings have changed meanwhile: see okv cluster status, and give the order "
               "again";
    else if (answer->status == OKV_EUNKNOWN)
        text = "etcd did not answer: see okv cluster status for whether the settings have changed";
    okv_results_add(copies, setting->number, text);
    free(setting);
}

static int swap(struct okv_copies *copies, const struct okv_cluster_document *cluster,
                uint64_t number)
{
    struct setting *setting = malloc(sizeof *setting);
    char *text = okv_document_of_cluster(cluster);
    char key[OKV_COPIES_KEY_SIZE];
    int rc = OKV_ENOMEM;

    okv_keys_name(copies, "cluster", key);
    const struct okv_etcd_change change = {
        .key = key,
        .mod_revision = copies->cluster_revision,
        .value = text,
        .length = text ? strlen(text) : 0,
    };
    if (setting && text) {
        *setting = (struct setting){copies, number, *cluster};
        rc = okv_etcd_swap(copies->etcd, &change, 1, OKV_COPIES_ETCD_LONG_MS, have_set, setting);
    }
    if (rc)
        free(setting);
    free(text);
    return rc;
}

void okv_setting_begin(struct okv_copies *copies, const char *words, uint64_t number)
{
    struct okv_cluster_document cluster = copies->cluster;
    struct okv_diag why = {.text = ""};
    int rc;

    if (!copies->has_read)
        rc = okv_diag_set(&why, OKV_EAGAIN, "etcd has not answered yet: see the server's log");
    else if (!copies->has_cluster)
        rc = okv_diag_set(&why, OKV_ENOTFOUND, "there is no cluster yet: see okv cluster create");
    else
        rc = okv_settings_read(words, &cluster, &why);
    if (rc == 0 && cluster.lease_ms != copies->cluster.lease_ms)
        rc = okv_diag_set(&why, OKV_EINVAL, "a lease is set when a cluster is created");
    if (rc == 0)
        rc = swap(copies, &cluster, number);
    if (rc)
        okv_results_add(copies, number, why.text[0] ? why.text : okv_error_text(rc));
}

void okv_setting_note(struct okv_copies *copies, const struct okv_cluster_document *cluster)
{
    if (copies->has_cluster && cluster->id != copies->cluster.id)
        return;
    copies->cluster = *cluster;
    copies->has_cluster = true;
    for (unsigned i = 0; i < copies->server->database_count; i++)
        copies->of[i].protocol.options.copies_min = cluster->copies_min;
}
