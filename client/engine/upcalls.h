/*
 * Calls from engine/ and connection/ up to the modules above them. The engine handles events and
 * deadlines without knowledge of lookups and commands. client/api/open.c fills the table.
 */
#ifndef OKV_CLIENT_ENGINE_UPCALLS_H
#define OKV_CLIENT_ENGINE_UPCALLS_H

#include "client/handle.h"

struct upcalls {
    /* ---- connection/ ---- */

    /* The connection is unusable: link_lost(). */
    void (*lost)(okv *handle, int code, const char *sentence);
    /* Advances the state of a link that is not up. Returns whether it did. */
    bool (*advance)(okv *handle);
    /* When `advance` or `tick` is due at the latest; UINT64_MAX: never. */
    uint64_t (*wake_ns)(const okv *handle);
    /* A descriptor that becomes readable for events; -1: none. */
    int (*fd)(const okv *handle);
    /* The tick of the keepalive is due. */
    void (*tick)(okv *handle, uint64_t now);
    /* A READ of no operation ended. */
    void (*read_done)(okv *handle, uint64_t cookie, int status);
    /* A message came. */
    void (*message)(okv *handle, const struct okv_event *event);
    /* Sends the operation's request. OKV_EAGAIN: no request slot or send buffer. */
    int (*post_request)(okv *handle, struct operation *operation);

    /* A report is due. */
    void (*report)(okv *handle, uint64_t now);

    /* ---- get/ ---- */

    /* Adds the READs of the operation's step to the batch. OKV_EAGAIN: no room. */
    int (*post_reads)(okv *handle, struct operation *operation);
    /* A READ of the operation succeeded. */
    void (*operation_read_done)(okv *handle, struct operation *operation, enum read_kind kind);
    /* The reply had no room for the value: READ it. */
    void (*resume_lookup)(okv *handle, struct operation *operation);
    /* A new connection is up and the directory is in `staging`. Unless `same_table`, all earlier
     * knowledge of the table is void. */
    void (*table_learn)(okv *handle, bool same_table);

    /* ---- api/ ---- */

    /* Starts an operation from its beginning on a new connection. Returns 0, or the reason why this
     * server refuses it. */
    int (*begin_again)(okv *handle, struct operation *operation);
};

#endif
