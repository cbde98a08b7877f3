/* SHUTDOWN: ends the server, as SIGTERM does. */
#include "server/command/control.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/options.h"

enum word {
    NOSAVE = 1,
    SAVE = 2,
    NOW = 4,
    FORCE = 8,
    ABORT = 16,
};

/* False: they make no sense, and an error was replied. */
static bool read_words(struct okv_resp_call *call, unsigned *words)
{
    static const char *const names[] = {"NOSAVE", "SAVE", "NOW", "FORCE", "ABORT"};
    const unsigned count = sizeof names / sizeof *names;

    *words = 0;
    for (uint32_t i = 1; i < call->count; i++) {
        unsigned k = 0;
        while (k < count && !okv_resp_arg_is(&call->args[i], names[k]))
            k++;
        *words |= 1u << k;
    }
    bool has_other = *words >> count, aborts = *words & ABORT && *words != ABORT;
    if (!has_other && !aborts && (*words & (SAVE | NOSAVE)) != (SAVE | NOSAVE))
        return true;
    okv_resp_syntax_error(call);
    return false;
}

/* Whether items would be gone that nothing can save. */
static bool loses_items(const struct okv_server *server)
{
    uint64_t items = 0;

    for (unsigned i = 0; i < server->database_count && !server->config.data; i++)
        items += atomic_load(&server->databases[i].store.totals.items);
    return items > 0;
}

int okv_resp_cmd_shutdown(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    struct okv_server *server = client->resp->server;
    unsigned words;

    if (!okv_resp_need_all(call) || !read_words(call, &words))
        return 0;
    if (words & ABORT) {
        okv_resp_error(&call->reply, "ERR No shutdown in progress.");
    } else if (words & SAVE && !(words & FORCE) && loses_items(server)) {
        okv_resp_error(&call->reply,
                       "ERR Errors trying to SHUTDOWN: this server keeps its items in memory only, "
                       "so they cannot be saved: copy them with okv export, then SHUTDOWN NOSAVE");
    } else {
        okv_control_end(server, &client->common);
        client->state = OKV_RESP_DRAINING; /* without a reply */
    }
    return 0;
}
