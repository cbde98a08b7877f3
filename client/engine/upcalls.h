/*
 * What the engine and the connection ask of the rooms above them. They move events, deadlines and
 * connections without knowing what a lookup is or what a command demands; client/api/open.c says
 * who knows.
 */
#ifndef OKV_CLIENT_ENGINE_UPCALLS_H
#define OKV_CLIENT_ENGINE_UPCALLS_H

#include "client/handle.h"

struct upcalls {
    /* ---- connection/ ---- */

    /* The connection is of no use any more: link_lost(). */
    void (*lost)(okv *handle, int code, const char *sentence);
    /* Goes from state to state while the link is not up. Returns whether it did. */
    bool (*advance)(okv *handle);
    /* When `advance` or `tick` has something to do at the latest; UINT64_MAX. */
    uint64_t (*wake_ns)(const okv *handle);
    /* What becomes readable when there is something to do; -1. */
    int (*fd)(const okv *handle);
    /* The keepalive's tick is due. */
    void (*tick)(okv *handle, uint64_t now);
    /* A READ ended that belongs to no operation. */
    void (*read_done)(okv *handle, uint64_t cookie, int status);
    /* A message came. */
    void (*message)(okv *handle, const struct okv_event *event);
    /* Sends the operation's request. 0, OKV_EAGAIN for no request slot or buffer, or a failure. */
    int (*request_post)(okv *handle, struct operation *operation);

    /* ---- get/ ---- */

    /* Adds the READs of the operation's step to the batch. 0, or OKV_EAGAIN for no room. */
    int (*lookup_post)(okv *handle, struct operation *operation);
    /* A READ of the operation ended well. */
    void (*lookup_read_done)(okv *handle, struct operation *operation, enum read_kind kind);
    /* The server had no room for the value in its answer. */
    void (*lookup_resume)(okv *handle, struct operation *operation);
    /* There is a new connection; unless `same_table`, what was known of the table is void. The
     * directory is in `staging`. */
    void (*table_learn)(okv *handle, bool same_table);

    /* ---- api/ ---- */

    /* Starts an operation from its beginning on a new connection. 0, or why this server takes it
     * no more. */
    int (*begin_again)(okv *handle, struct operation *operation);
};

#endif
