#include "shared/transport/verbs/stage.h"

#include "shared/transport/verbs/mr.h"

static int stage_open(const struct verbs_conn *conn, struct verbs_stage *stage)
{
    struct verbs_slab slab = {.spare = NULL};
    int rc = okv_slab_map(&slab.memory, 1, VERBS_STAGE_SIZE, 0, NULL);

    if (rc)
        return rc;
    rc = okv_verbs_register(conn->pd, slab.memory.base, VERBS_STAGE_SIZE, IBV_ACCESS_REMOTE_READ,
                            okv_verbs_advertised_address(slab.memory.base), &slab.mr, NULL);
    if (rc) {
        okv_slab_unmap(&slab.memory);
        return rc;
    }
    stage->slab = slab;
    return 0;
}

struct verbs_stage *okv_verbs_stage_acquire(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < VERBS_STAGES; i++) {
        struct verbs_stage *stage = &conn->stages[i];
        if (stage->is_busy)
            continue;
        if (!stage->slab.memory.base && stage_open(conn, stage))
            return NULL;
        stage->is_busy = true;
        return stage;
    }
    return NULL;
}

/* A READ that may still be under way must not meet the next value: it meets no memory then. */
void okv_verbs_stage_release(struct verbs_stage *stage, bool is_read)
{
    if (!is_read)
        okv_verbs_slab_destroy(&stage->slab);
    stage->is_busy = false;
}

void okv_verbs_stages_destroy(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < VERBS_STAGES; i++)
        okv_verbs_slab_destroy(&conn->stages[i].slab);
}
