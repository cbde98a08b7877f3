#include "server/resp/net/handshake.h"

#include <stddef.h>
#include <stdlib.h>

#include "server/core/server.h"
#include "server/resp/net/admit.h"
#include "server/resp/run/shared.h"
#include "shared/base/error.h"
#include "shared/stream/handshakes.h"

static uint64_t limit_ns(void *server)
{
    return okv_resp_hello_ns(server);
}

static void ended(void *user, struct okv_handshake *handshake, enum okv_handshake_end how)
{
    struct okv_resp_client *client =
        (struct okv_resp_client *)((char *)handshake - offsetof(struct okv_resp_client, handshake));
    struct okv_server *server = user;

    OKV_STATS_ADD(&server->stats, closed_half_open, how == OKV_HANDSHAKE_OVERDUE);
    if (how == OKV_HANDSHAKE_DONE)
        okv_resp_admit(server, client);
    else
        okv_resp_turn_away(server, client);
}

static const struct okv_handshakes_ops handshakes_ops = {.limit_ns = limit_ns, .ended = ended};

int okv_resp_handshakes_start(struct okv_server *server, struct okv_diag *diag)
{
    struct okv_handshakes *handshakes = calloc(1, sizeof *handshakes);
    struct okv_diag why = {.text = ""};
    int rc =
        handshakes ? okv_handshakes_start(handshakes, &handshakes_ops, server, &why) : OKV_ENOMEM;

    if (rc) {
        free(handshakes);
        return okv_diag_set(diag, rc, "resps://: cannot start the thread of handshakes: %s",
                            why.text[0] ? why.text : okv_error_text(rc));
    }
    server->resp_shared->handshakes = handshakes;
    return 0;
}

void okv_resp_handshakes_add(struct okv_server *server, struct okv_resp_client *client)
{
    client->handshake.stream = &client->stream;
    okv_handshakes_add(server->resp_shared->handshakes, &client->handshake);
}

void okv_resp_handshakes_stop(struct okv_server *server)
{
    struct okv_resp_shared *shared = server->resp_shared;

    if (shared->handshakes)
        okv_handshakes_stop(shared->handshakes);
    free(shared->handshakes);
    shared->handshakes = NULL;
}
