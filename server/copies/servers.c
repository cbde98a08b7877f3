#include "server/copies/servers.h"

#include <string.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "shared/transport/transport.h"

const struct okv_known_server *okv_servers_entry(const struct okv_copies *copies, uint64_t id)
{
    for (unsigned i = 0; i < copies->server_count; i++)
        if (copies->servers[i].of.id == id)
            return &copies->servers[i];
    return NULL;
}

bool okv_server_has_copy(const struct okv_server_document *server, const char *database,
                         uint64_t incarnation)
{
    for (unsigned i = 0; i < server->copy_count; i++)
        if (strcmp(server->copies[i].database, database) == 0)
            return server->copies[i].incarnation == incarnation;
    return false;
}

uint64_t okv_servers_survivor(const struct okv_copy *copy)
{
    const struct okv_copies *copies = copy->copies;
    const struct okv_shard_key *key = &copy->protocol.key;

    for (unsigned i = 0; i < key->isr_count; i++) {
        const struct okv_known_server *server = okv_servers_entry(copies, key->isr[i].server);
        if (server && server->of.id != copies->id &&
            okv_server_has_copy(&server->of, copy->database->config->name, key->isr[i].incarnation))
            return server->of.id;
    }
    return 0;
}

const struct okv_server_document *okv_servers_known(const struct okv_copies *copies, uint64_t id)
{
    const struct okv_known_server *server = okv_servers_entry(copies, id);

    return server ? &server->of : NULL;
}

bool okv_servers_find(const struct okv_copies *copies, uint64_t server, struct okv_uri *out)
{
    const struct okv_server_document *of = okv_servers_known(copies, server);
    struct okv_diag why;

    for (unsigned i = 0; of && i < of->uri_count; i++)
        if (okv_uri_parse(of->uris[i], out, &why) == 0 && out->scheme != OKV_SCHEME_RESP &&
            okv_transport_for(out->scheme))
            return true;
    return false;
}
