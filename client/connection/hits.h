/* Reports of hits to a database that evicts: docs/protocol-admin.md section 2.7. */
#ifndef OKV_CLIENT_CONNECTION_HITS_H
#define OKV_CLIENT_CONNECTION_HITS_H

#include "client/handle.h"

/* A connection is up: begins, or ends, as its server wants it. Without memory there are no hits. */
void hits_link_up(okv *handle);
void hits_fini(okv *handle);

/* An item was found by a READ. `is_quiet`: the server knows that it is used. */
void hits_note(okv *handle, uint64_t hash);
static inline void hits_note_found(okv *handle, uint64_t hash, bool is_quiet)
{
    if (handle->hits && !is_quiet)
        hits_note(handle, hash);
}

/* Sends what was noted, if there is room for it. Needs no operation slot, and leaves a credit to
 * others. */
void hits_send(okv *handle, uint64_t now);
/* Whether a reply to a message of hits is due. */
bool hits_are_owed(const okv *handle);
/* True when it is the reply to such a message. */
bool hits_reply(okv *handle, const struct okv_reply_message *reply);

#endif
