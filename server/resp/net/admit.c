#include "server/resp/net/admit.h"

#include <stdlib.h>

#include "server/core/server.h"
#include "server/resp/run/place.h"
#include "server/worker/worker.h"

static struct okv_resp *least_busy(struct okv_server *server)
{
    struct okv_resp *least = server->workers[0].resp;

    for (unsigned i = 1; i < server->config.workers; i++) {
        struct okv_resp *resp = server->workers[i].resp;
        if (atomic_load(&resp->clients) < atomic_load(&least->clients))
            least = resp;
    }
    return least;
}

void okv_resp_turn_away(struct okv_server *server, struct okv_resp_client *client)
{
    okv_resp_place_leave(server, client);
    okv_stream_fini(&client->stream);
    free(client);
}

void okv_resp_refuse_place(struct okv_server *server, struct okv_resp_client *client)
{
    static const char text[] = "-ERR max number of clients reached\r\n";

    okv_stream_write(&client->stream, (const uint8_t *)text, sizeof text - 1);
    okv_resp_turn_away(server, client);
}

void okv_resp_admit(struct okv_server *server, struct okv_resp_client *client)
{
    if (server->config.users || okv_resp_place_take(server, client) == 0)
        okv_resp_assign(least_busy(server), client);
    else
        okv_resp_refuse_place(server, client);
}
