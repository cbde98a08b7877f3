/* Commands of a connection: its user, protocol and database. */
#include <stdio.h>
#include <string.h>

#include "server/core/server.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/client_list.h"
#include "server/resp/run/login.h"
#include "server/resp/run/options.h"
#include "server/resp/run/place.h"
#include "server/resp/run/transaction.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

int okv_resp_cmd_ping(struct okv_resp_call *call)
{
    if (call->count == 2)
        return okv_resp_bulk_in_steps(call, &call->args[1]);
    if (call->count > 2)
        okv_resp_refuse_count(call);
    else
        okv_resp_simple(&call->reply, "PONG");
    return 0;
}

int okv_resp_cmd_echo(struct okv_resp_call *call)
{
    return okv_resp_bulk_in_steps(call, &call->args[1]);
}

int okv_resp_cmd_quit(struct okv_resp_call *call)
{
    call->client->state = OKV_RESP_DRAINING;
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

/* ---- AUTH and HELLO ---- */

/* Replies with an error unless user and password belong together. */
static bool log_in(struct okv_resp_call *call, const struct okv_resp_arg *user,
                   const struct okv_resp_arg *password)
{
    struct okv_server *server = call->client->resp->server;
    struct okv_resp_login login = {0};

    if (!server->config.users && okv_resp_arg_is(user, OKV_RESP_USER_DEFAULT))
        return true;
    if (server->config.users && user->length < sizeof login.user) {
        memcpy(login.user, user->text, user->length);
        login.password = password->text;
        login.password_length = password->length;
    }
    int rc = login.user[0] ? okv_resp_log_in(call->client, &login) : OKV_EDENIED;
    if (rc == OKV_EREFUSED) {
        okv_resp_error(&call->reply, "ERR max number of clients reached");
    } else if (rc) {
        okv_resp_error(&call->reply,
                       "WRONGPASS invalid username-password pair or user is disabled.");
        okv_resp_place_refused(call->client, OKV_RESP_REFUSED_PASSWORD);
    }
    return rc == 0;
}

int okv_resp_cmd_auth(struct okv_resp_call *call)
{
    static const struct okv_resp_arg usual = {(const uint8_t *)OKV_RESP_USER_DEFAULT,
                                              sizeof OKV_RESP_USER_DEFAULT - 1};
    bool has_user = call->count == 3;

    if (call->count > 3)
        return okv_resp_syntax_error(call);
    if (!has_user && !call->client->resp->server->config.users)
        okv_resp_error(&call->reply,
                       "ERR AUTH <password> called without any password configured for the default "
                       "user. Are you sure your configuration is correct?");
    else if (log_in(call, has_user ? &call->args[1] : &usual, &call->args[call->count - 1]))
        okv_resp_simple(&call->reply, "OK");
    return 0;
}

static void use_protocol(struct okv_resp_call *call, unsigned protocol)
{
    okv_resp_client_set_protocol(call->client, protocol);
    call->reply.protocol = protocol;
}

static void welcome(struct okv_resp_call *call)
{
    const struct okv_resp_reply *to = &call->reply;

    okv_resp_map(to, 7);
    okv_resp_text(to, "server");
    okv_resp_text(to, "redis");
    okv_resp_text(to, "version");
    okv_resp_text(to, OKV_RESP_REDIS_VERSION);
    okv_resp_text(to, "proto");
    okv_resp_integer(to, call->client->protocol);
    okv_resp_text(to, "id");
    okv_resp_integer(to, (int64_t)call->client->id);
    okv_resp_text(to, "mode");
    okv_resp_text(to, "standalone");
    okv_resp_text(to, "role");
    okv_resp_text(to, "master");
    okv_resp_text(to, "modules");
    okv_resp_array(to, 0);
}

/* With each option once: to log in takes a while. */
#define HELLO_WORDS 7u

struct hello {
    const struct okv_resp_arg *user, *name; /* NULL: there is none; the password follows the user */
};

/* Looks at all before anything changes. False: an error was replied. */
static bool read_hello_options(struct okv_resp_call *call, struct hello *hello)
{
    for (uint32_t i = 2; i < call->count; i++) {
        const struct okv_resp_arg *option = &call->args[i];
        uint32_t left = call->count - i - 1;
        if (okv_resp_arg_is(option, "AUTH") && left >= 2) {
            hello->user = &call->args[i + 1];
            i += 2;
        } else if (okv_resp_arg_is(option, "SETNAME") && left >= 1) {
            hello->name = &call->args[++i];
            if (!okv_resp_need_name(call, hello->name))
                return false;
        } else {
            okv_resp_error(&call->reply, "ERR Syntax error in HELLO option '%.*s'",
                           (int)(option->length < 64 ? option->length : 64),
                           (const char *)option->text);
            return false;
        }
    }
    return true;
}

/* False: an error was replied. */
static bool read_protocol(struct okv_resp_call *call, int64_t *protocol)
{
    bool is_number = call->count == 1 || okv_resp_arg_integer(&call->args[1], protocol);
    bool is_known = *protocol >= 2 && *protocol <= 3;

    if (!is_number)
        okv_resp_error(&call->reply, "ERR Protocol version is not an integer or out of range");
    else if (!is_known)
        okv_resp_error(&call->reply, "NOPROTO unsupported protocol version");
    return is_number && is_known;
}

int okv_resp_cmd_hello(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    int64_t protocol = client->protocol;
    struct hello hello = {.user = NULL};

    if (!okv_resp_need_few(call, HELLO_WORDS) || !read_protocol(call, &protocol) ||
        !read_hello_options(call, &hello) ||
        (hello.user && !log_in(call, hello.user, hello.user + 1)))
        return 0;
    if (!client->is_authenticated) {
        okv_resp_error(&call->reply,
                       "NOAUTH HELLO must be called with the client already authenticated, "
                       "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                       "authenticate the client and select the RESP protocol version at the same "
                       "time");
        okv_resp_place_refused(client, OKV_RESP_REFUSED_COMMAND);
        return 0;
    }
    if (hello.name)
        okv_resp_client_set_text(client, client->name, hello.name);
    use_protocol(call, (unsigned)protocol);
    welcome(call);
    return 0;
}

int okv_resp_cmd_whoami(struct okv_resp_call *call)
{
    const char *user = call->client->common.user;

    okv_resp_text(&call->reply, user[0] ? user : OKV_RESP_USER_DEFAULT);
    return 0;
}

/* ---- SELECT ---- */

int okv_resp_cmd_select(struct okv_resp_call *call)
{
    int database = okv_resp_database_of(call, &call->args[1]);

    if (database < 0)
        return okv_resp_refuse_database(call);
    if (!okv_resp_may(call->client, (unsigned)database, OKV_RIGHT_READ)) {
        okv_resp_error(&call->reply, "NOPERM this user has no permissions in this database: it "
                                     "lacks the right read");
        return 0;
    }
    okv_resp_client_set_database(call->client, (unsigned)database);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_cmd_reset(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;

    okv_resp_transaction_drop(client);
    if (client->replies == OKV_RESP_REPLIES_NONE) /* SKIP holds for this reply, too */
        client->replies = OKV_RESP_REPLIES_ALL;
    atomic_store(&client->no_touch, false);
    client->reads_copies = false;
    use_protocol(call, 2);
    okv_resp_client_set_database(client, 0);
    okv_resp_client_set_text(client, client->name, &(struct okv_resp_arg){.length = 0});
    if (client->resp->server->config.users)
        okv_resp_log_out(client);
    okv_resp_simple(&call->reply, "RESET");
    return 0;
}

static int set_reads_copies(struct okv_resp_call *call, bool reads_copies)
{
    if (!call->client->resp->server->config.cluster.name[0]) {
        okv_resp_error(&call->reply, "ERR This instance has cluster support disabled");
        return 0;
    }
    call->client->reads_copies = reads_copies;
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_cmd_readonly(struct okv_resp_call *call)
{
    return set_reads_copies(call, true);
}

int okv_resp_cmd_readwrite(struct okv_resp_call *call)
{
    return set_reads_copies(call, false);
}
