/* The servers that run, as etcd lists them. */
#ifndef OKV_SERVER_COPIES_SERVERS_H
#define OKV_SERVER_COPIES_SERVERS_H

#include "server/copies/state.h"

/* NULL: it does not run. Until the list is read again. */
const struct okv_known_server *okv_servers_entry(const struct okv_copies *copies, uint64_t id);
/* Whether the log of its database is this one. */
bool okv_server_has_copy(const struct okv_server_document *server, const char *database,
                         uint64_t incarnation);
/* Another server that runs and may lead the database without a loss; 0: there is none. */
uint64_t okv_servers_survivor(const struct okv_copy *copy);
/* What a server that runs says of itself, until the next pass; NULL: it does not run. */
const struct okv_server_document *okv_servers_known(const struct okv_copies *copies, uint64_t id);
/* How a server is reached by others. False: it has not said so. */
bool okv_servers_find(const struct okv_copies *copies, uint64_t server, struct okv_uri *out);

#endif
