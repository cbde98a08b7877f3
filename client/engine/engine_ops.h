/*
 * Upcalls from engine/: the engine handles events and deadlines without knowledge of
 * connections, lookups and commands. client/api/engine_ops.c fills the table.
 */
#ifndef OKV_CLIENT_ENGINE_ENGINE_OPS_H
#define OKV_CLIENT_ENGINE_ENGINE_OPS_H

#include "client/handle.h"

struct engine_ops {
    /* Advances the state of a link that is not up. Returns whether it did. */
    bool (*link_advance)(okv *handle);
    /* The tick of the keepalive is due. */
    void (*keepalive_tick)(okv *handle, uint64_t now);
    /* lease.again_ns has come. */
    void (*lease_again)(okv *handle);
    /* A message came. */
    void (*message)(okv *handle, const struct okv_event *event);
    /* A READ of the operation succeeded. */
    void (*read_done)(okv *handle, struct operation *operation, enum read_kind kind);
    /* A READ of no operation ended. */
    void (*link_read_done)(okv *handle, uint64_t cookie, int status);
    /* Posts the current step of an operation that waited for room. */
    void (*retry)(okv *handle, struct operation *operation);

    /* ---- of connection/ ---- */

    /* A new connection is up and the directory is in `staging`. Unless `same_table`, all earlier
     * knowledge of the table is void. */
    void (*table_learn)(okv *handle, bool same_table);
    /* Starts an operation from its beginning on a new connection. Returns 0, or the reason why this
     * server refuses it. */
    int (*begin_again)(okv *handle, struct operation *operation);
};

#endif
