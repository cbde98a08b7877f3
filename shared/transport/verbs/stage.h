/* Stages: memory of a client's connection that is registered once, for copies of values that the
 * server READs, one after the other. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_STAGE_H
#define OKV_SHARED_TRANSPORT_VERBS_STAGE_H

#include "shared/transport/verbs/verbs.h"

/* By which a peer names advertised memory: modulo a multiple of every page size, it tells little of
 * our memory's layout. */
static inline uint64_t okv_verbs_advertised_address(const void *base)
{
    return (uintptr_t)base % (2u << 20);
}

/* A stage of VERBS_STAGE_SIZE bytes. NULL: all are taken, or there is no more memory to pin. */
struct verbs_stage *okv_verbs_stage_acquire(struct verbs_conn *conn);
/* `is_read`: as of withdraw in transport.h. */
void okv_verbs_stage_release(struct verbs_stage *stage, bool is_read);
/* Of a connection whose queue pair is destroyed. */
void okv_verbs_stages_destroy(struct verbs_conn *conn);

#endif
