/* CLIENT and its subcommands. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/core/server.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/client_list.h"
#include "server/resp/run/options.h"
#include "shared/base/error.h"

int okv_resp_cmd_client_id(struct okv_resp_call *call)
{
    okv_resp_integer(&call->reply, (int64_t)call->client->id);
    return 0;
}

/* ---- its name, and its library ---- */

/* Replies with an error, in which `what` is its name, unless CLIENT LIST can show it. */
static bool need_text(struct okv_resp_call *call, const struct okv_resp_arg *text,
                      const struct okv_resp_arg *what)
{
    bool is_text = true;

    for (uint32_t i = 0; i < text->length && i < OKV_RESP_NAME_MAX; i++)
        is_text = is_text && text->text[i] >= '!' && text->text[i] <= '~';
    if (!is_text)
        okv_resp_error(&call->reply,
                       "ERR %.*s cannot contain spaces, newlines or special characters.",
                       (int)what->length, (const char *)what->text);
    else if (text->length >= OKV_RESP_NAME_MAX)
        okv_resp_error(&call->reply, "ERR %.*s: at most %u characters", (int)what->length,
                       (const char *)what->text, OKV_RESP_NAME_MAX - 1);
    return is_text && text->length < OKV_RESP_NAME_MAX;
}

bool okv_resp_need_name(struct okv_resp_call *call, const struct okv_resp_arg *name)
{
    static const char what[] = "Client names";

    return need_text(call, name, &(struct okv_resp_arg){(const uint8_t *)what, sizeof what - 1});
}

int okv_resp_cmd_client_setname(struct okv_resp_call *call)
{
    if (!okv_resp_need_name(call, &call->args[2]))
        return 0;
    okv_resp_client_set_text(call->client, call->client->name, &call->args[2]);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_cmd_client_setinfo(struct okv_resp_call *call)
{
    const struct okv_resp_arg *option = &call->args[2], *value = &call->args[3];
    struct okv_resp_client *client = call->client;
    char *text = okv_resp_arg_is(option, "lib-name")  ? client->library
                 : okv_resp_arg_is(option, "lib-ver") ? client->library_version
                                                      : NULL;

    if (!text) {
        okv_resp_error(&call->reply, "ERR Unrecognized option '%.*s'",
                       (int)(option->length < 128 ? option->length : 128),
                       (const char *)option->text);
    } else if (need_text(call, value, option)) {
        okv_resp_client_set_text(client, text, value);
        okv_resp_simple(&call->reply, "OK");
    }
    return 0;
}

int okv_resp_cmd_client_getname(struct okv_resp_call *call)
{
    if (call->client->name[0])
        okv_resp_text(&call->reply, call->client->name);
    else
        okv_resp_null(&call->reply);
    return 0;
}

/* ---- CLIENT REPLY, NO-EVICT and NO-TOUCH ---- */

int okv_resp_cmd_client_reply(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    const struct okv_resp_arg *mode = &call->args[2];

    if (okv_resp_arg_is(mode, "ON")) {
        client->replies = OKV_RESP_REPLIES_ALL;
        okv_resp_simple(&call->reply, "OK");
    } else if (okv_resp_arg_is(mode, "OFF")) {
        client->replies = OKV_RESP_REPLIES_NONE;
    } else if (!okv_resp_arg_is(mode, "SKIP")) {
        return okv_resp_syntax_error(call);
    } else if (client->replies != OKV_RESP_REPLIES_NONE) {
        client->replies = OKV_RESP_REPLIES_NOT_THIS;
    }
    return 0;
}

/* Returns whether it is ON or OFF; replies. */
static bool read_switch(struct okv_resp_call *call, bool *is_on)
{
    const struct okv_resp_arg *state = &call->args[2];

    *is_on = okv_resp_arg_is(state, "ON");
    if (*is_on || okv_resp_arg_is(state, "OFF"))
        okv_resp_simple(&call->reply, "OK");
    else
        okv_resp_syntax_error(call);
    return *is_on || okv_resp_arg_is(state, "OFF");
}

/* Clients are not evicted. */
int okv_resp_cmd_client_no_evict(struct okv_resp_call *call)
{
    bool ignored;

    read_switch(call, &ignored);
    return 0;
}

int okv_resp_cmd_client_no_touch(struct okv_resp_call *call)
{
    bool is_on;

    if (read_switch(call, &is_on))
        atomic_store(&call->client->no_touch, is_on);
    return 0;
}

/* ---- LIST and INFO ---- */

/* Work of a step over the clients. */
#define LOOK_AT_ALL (OKV_CLIENTS_PER_SCAN * 100)

/* Collects the lines, in several turns if there are many. */
static int list_clients(struct okv_resp_call *call, const struct okv_resp_selection *which)
{
    struct okv_resp_client *client = call->client;
    struct okv_resp_buffer *text = &client->text;

    int rc = 0;

    if (!client->progress.sum && !client->progress.next)
        okv_resp_buffer_fini(text); /* of a command before it in a transaction */
    do {
        size_t before = text->used;
        if (client->progress.next)
            break; /* they are all there, and the reply has begun */
        client->progress.sum = okv_resp_table_list(client, which, client->progress.sum != 0, text);
        okv_turn_spend(&client->resp->turn, text->used - before + LOOK_AT_ALL);
    } while (client->progress.sum && call->is_part);
    if (client->progress.sum)
        return OKV_RESP_GOES_ON;
    if (text->used > OKV_TURN_WORK)
        rc =
            okv_resp_bulk_in_steps(call, &(struct okv_resp_arg){text->bytes, (uint32_t)text->used});
    else
        okv_resp_verbatim(&call->reply, text->used ? (const char *)text->bytes : "", text->used);
    if (rc == 0)
        okv_resp_buffer_fini(text);
    return rc;
}

int okv_resp_cmd_client_info(struct okv_resp_call *call)
{
    struct okv_resp_buffer *text = &call->client->text;

    okv_resp_buffer_fini(text); /* of a command before it in a transaction */
    okv_resp_table_describe(call->client, text);
    okv_resp_verbatim(&call->reply, text->used ? (const char *)text->bytes : "", text->used);
    okv_resp_buffer_fini(text);
    return 0;
}

static int list_ids(struct okv_resp_call *call)
{
    uint32_t count = call->count - 3;
    int64_t *ids = calloc(count, sizeof *ids);
    bool are_ids = ids != NULL;

    for (uint32_t i = 0; are_ids && i < count; i++)
        are_ids = okv_resp_arg_integer(&call->args[i + 3], &ids[i]);
    if (!are_ids)
        okv_resp_error(&call->reply,
                       ids ? "ERR Invalid client ID" : "ERR there is no memory for these");
    int rc = 0;
    if (are_ids) {
        qsort(ids, count, sizeof *ids, okv_resp_compare_ids);
        rc = list_clients(call, &(struct okv_resp_selection){ids, count});
    }
    free(ids);
    return rc;
}

/* Whether there are clients of this type: all are normal. Replies with an error if there is no such
 * type. */
static bool need_type(struct okv_resp_call *call, const struct okv_resp_arg *type, bool *is_normal)
{
    *is_normal = okv_resp_arg_is(type, "normal");
    if (*is_normal || okv_resp_arg_is(type, "master") || okv_resp_arg_is(type, "replica") ||
        okv_resp_arg_is(type, "slave") || okv_resp_arg_is(type, "pubsub"))
        return true;
    okv_resp_error(&call->reply, "ERR Unknown client type '%.*s'",
                   (int)(type->length < 64 ? type->length : 64), (const char *)type->text);
    return false;
}

int okv_resp_cmd_client_list(struct okv_resp_call *call)
{
    static const struct okv_resp_selection all;
    bool is_normal;

    if (call->count == 2)
        return list_clients(call, &all);
    if (okv_resp_arg_is(&call->args[2], "ID") && call->count > 3)
        return list_ids(call);
    if (!okv_resp_arg_is(&call->args[2], "TYPE") || call->count != 4)
        return okv_resp_syntax_error(call);
    if (!need_type(call, &call->args[3], &is_normal))
        return 0;
    if (is_normal)
        return list_clients(call, &all);
    okv_resp_verbatim(&call->reply, "", 0);
    return 0;
}

/* ---- KILL ---- */

/* Where the server has no users there is the default one. */
static bool need_user(struct okv_resp_call *call, const struct okv_resp_arg *user)
{
    if (call->client->resp->server->config.users || okv_resp_arg_is(user, OKV_RESP_USER_DEFAULT))
        return true;
    okv_resp_error(&call->reply, "ERR No such user '%.*s'",
                   (int)(user->length < 64 ? user->length : 64), (const char *)user->text);
    return false;
}

static bool need_id(struct okv_resp_call *call, uint32_t index, int64_t *id)
{
    if (okv_resp_arg_integer(&call->args[index], id) && *id > 0)
        return true;
    okv_resp_error(&call->reply, "ERR client-id should be greater than 0");
    return false;
}

/* Returns false when an error was replied. */
static bool read_filter(struct okv_resp_call *call, uint32_t index, struct okv_resp_choice *choice)
{
    const struct okv_resp_arg *option = &call->args[index], *value = option + 1;
    bool is_normal;

    if (index + 1 == call->count) {
        okv_resp_syntax_error(call);
        return false;
    }
    if (okv_resp_arg_is(option, "ID"))
        return need_id(call, index + 1, &choice->id);
    if (okv_resp_arg_is(option, "TYPE")) {
        if (!need_type(call, value, &is_normal))
            return false;
        choice->is_none = choice->is_none || !is_normal;
    } else if (okv_resp_arg_is(option, "USER")) {
        choice->user = value;
        return need_user(call, value);
    } else if (okv_resp_arg_is(option, "ADDR")) {
        choice->peer = value;
    } else if (okv_resp_arg_is(option, "LADDR")) {
        choice->local = value;
    } else if (okv_resp_arg_is(option, "SKIPME") && okv_resp_arg_is(value, "no")) {
        choice->skips = 0;
    } else if (!okv_resp_arg_is(option, "SKIPME") || !okv_resp_arg_is(value, "yes")) {
        okv_resp_syntax_error(call);
        return false;
    }
    return true;
}

int okv_resp_cmd_client_kill(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    struct okv_resp_choice choice = {.skips = client->id};
    bool is_old_form = call->count == 3;

    if (is_old_form) {
        choice.peer = &call->args[2];
        choice.skips = 0;
    }
    for (uint32_t i = 2; i < call->count && !is_old_form; i += 2)
        if (!read_filter(call, i, &choice))
            return 0;
    do {
        client->progress.sum =
            okv_resp_table_kill(client, &choice, client->progress.sum != 0, &client->progress.next);
        okv_turn_spend(&client->resp->turn, LOOK_AT_ALL);
    } while (client->progress.sum && call->is_part);
    if (client->progress.sum)
        return OKV_RESP_GOES_ON;
    uint32_t killed = client->progress.next;
    client->progress.next = 0;
    if (!is_old_form)
        okv_resp_integer(&call->reply, killed);
    else if (killed)
        okv_resp_simple(&call->reply, "OK");
    else
        okv_resp_error(&call->reply, "ERR No such client");
    return 0;
}
