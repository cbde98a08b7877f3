/*
 * The servers of a handle: the one of its URI, or those of a cluster, which are asked in turn until
 * one is the primary. The first is a random one; a copy that is asked may say who the primary is.
 */
#ifndef OKV_CLIENT_CONNECTION_SERVERS_H
#define OKV_CLIENT_CONNECTION_SERVERS_H

#include "client/handle.h"

/* Takes the URI, of a server or of a cluster, and from the options what it leaves open. */
int servers_init(okv *handle, const char *uri, const struct okv_options *options);
void servers_fini(okv *handle);

static inline bool servers_are_many(const struct link *link)
{
    return link->servers.list.cluster[0] != '\0';
}

/* How long an attempt may last, if one to a server alone may last for `limit_ns`. */
uint64_t servers_limit_ns(const struct link *link, uint64_t limit_ns);
/* A copy has refused the attempt, and says what it knows of the primary. */
void servers_heed(struct link *link, const uint8_t *rejection, size_t length);
/* The attempt failed with `rc`, or the connection ended (0): the next attempt goes to another
 * server. True when a pause is due before it: since the last pause all were asked. */
bool servers_next(okv *handle, int rc);
/* The server of this connection stands still, and would answer no attempt: for so long others are
 * asked. */
void servers_avoid(struct link *link, uint64_t ns);
/* The handle is connected. */
void servers_found(okv *handle);

#endif
