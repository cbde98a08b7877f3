#include "server/copies/marking.h"

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/durable.h"
#include "server/wal/copies/copies.h"
#include "shared/base/error.h"

static int write_mark(struct okv_copy *copy, struct okv_diag *why)
{
    struct okv_durable *durable = copy->database->durable;
    int rc = okv_durable_write_mark(durable, why);

    if (rc && !copy->has_told_mark)
        okv_log_say(&copy->copies->server->log, OKV_LOG_ERROR, "cluster",
                    "database %s: its directory cannot be marked as a copy: %s: see that there is "
                    "room in %s, and that the disk works",
                    durable->name, why->text, durable->data);
    copy->has_told_mark = rc != 0;
    return rc;
}

int okv_marking_open(struct okv_copy *copy, struct okv_diag *diag)
{
    struct okv_durable *durable = copy->database->durable;
    int rc = 0;

    if (!durable)
        return 0;
    if (durable->is_marked && durable->found.is_unclean) {
        durable->mark.incarnation++;
        rc = okv_durable_write_mark(durable, diag);
    }
    copy->incarnation = durable->mark.incarnation;
    return rc;
}

int okv_marking_create(struct okv_copy *copy, uint64_t cluster_id, struct okv_diag *diag)
{
    struct okv_durable *durable = copy->database->durable;

    if (!durable || durable->mark.cluster_id == cluster_id)
        return 0;
    durable->mark.cluster_id = cluster_id;
    return write_mark(copy, diag);
}

int okv_marking_begin(struct okv_copy *copy, struct okv_diag *diag)
{
    const struct okv_durable *durable = copy->database->durable;
    uint64_t cluster_id = copy->copies->cluster.id;

    if (durable && durable->mark.cluster_id != cluster_id &&
        !okv_wal_is_empty_log(copy->database->opened))
        return okv_diag_set(diag, OKV_EEXISTS,
                            "%s/%s has items that are not the cluster's: move it away, and start "
                            "again",
                            durable->data, durable->name);
    return okv_marking_create(copy, cluster_id, diag);
}

bool okv_marking_give_up(struct okv_copy *copy, uint64_t incarnation)
{
    struct okv_durable *durable = copy->database->durable;
    struct okv_diag why = {.text = ""};

    if (!durable)
        return true;
    durable->mark.incarnation = incarnation;
    durable->mark.is_whole = false;
    return write_mark(copy, &why) == 0;
}

bool okv_marking_note_whole(struct okv_copy *copy)
{
    struct okv_durable *durable = copy->database->durable;
    struct okv_diag why = {.text = ""};

    if (!durable)
        return true;
    durable->mark.is_whole = true;
    return write_mark(copy, &why) == 0;
}

/* One that cannot be written is tried again. */
void okv_marking_note_epoch(struct okv_copy *copy)
{
    struct okv_durable *durable = copy->database->durable;
    struct okv_diag why = {.text = ""};

    if (!durable || copy->protocol.epoch <= durable->mark.epoch)
        return;
    uint64_t before = durable->mark.epoch;
    durable->mark.epoch = copy->protocol.epoch;
    if (write_mark(copy, &why))
        durable->mark.epoch = before;
}

uint64_t okv_marking_epoch(const struct okv_copy *copy)
{
    const struct okv_durable *durable = copy->database->durable;
    struct okv_wal_copies_state state;

    okv_wal_copies_get(copy->database->opened, &state);
    return durable && durable->mark.epoch > state.epoch ? durable->mark.epoch : state.epoch;
}
