#include "server/resp/run/price.h"

#include <string.h>

#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/run/call.h"
#include "server/resp/run/command.h"

/* Bytes of the line of a client in CLIENT LIST. */
#define CLIENT_LINE 768u
/* Work of an argument of BITFIELD, of which an operation has three or four. */
#define FIELD_ARGUMENT 64u
/* Work of a command without keys that describes the server. */
#define DESCRIPTION (64u * OKV_TURN_ITEM)
/* The same of one that describes all commands, or those that its arguments name. */
#define COMMANDS (128u * OKV_TURN_ITEM)
#define NAMED_COMMAND (8u * OKV_TURN_ITEM)
/* Work of one that writes a number with decimals. */
#define NUMBER (10u * OKV_TURN_ITEM)

uint64_t okv_resp_alone_work(const struct okv_resp_client *client)
{
    return client->resp->server->config.alone_ms * (UINT64_C(1000) * OKV_TURN_ITEM);
}

uint32_t okv_resp_count_keys(const struct okv_resp_command *command, uint32_t count)
{
    int last = okv_resp_last_key(command, count);

    return command->first_key
               ? (uint32_t)(last - command->first_key) / (unsigned)command->key_step + 1
               : 0;
}

static uint64_t price_of_table(const struct okv_resp_client *client)
{
    const struct okv_store *store =
        &client->resp->executors[client->common.database].database->store;

    return (atomic_load(&store->bucket_count) + 2 * atomic_load(&store->totals.items)) *
           OKV_TURN_ITEM;
}

static uint64_t price_without_keys(const struct okv_resp_client *client,
                                   const struct okv_resp_command *command, uint32_t count)
{
    if (command->flags & OKV_RESP_DESCRIBES)
        return COMMANDS + count * NAMED_COMMAND;
    if (command->flags & OKV_RESP_WALK)
        return price_of_table(client);
    if (command->flags & OKV_RESP_TABLE)
        return OKV_TURN_STEP_MAX;
    if (command->flags & OKV_RESP_CLIENTS)
        return atomic_load(&client->resp->server->stats.resp_clients) * CLIENT_LINE + DESCRIPTION;
    return strcmp(command->group, "server") == 0 ? DESCRIPTION : 0;
}

uint64_t okv_resp_price_of_arguments(const struct okv_resp_client *client,
                                     const struct okv_resp_command *command,
                                     const struct okv_resp_arg *args, uint32_t count)
{
    uint64_t keys = okv_resp_count_keys(command, count), most = okv_resp_alone_work(client);
    uint64_t price = (1 + (keys ? keys : count)) * OKV_TURN_ITEM +
                     (command->flags & OKV_RESP_DECIMALS ? NUMBER : 0) +
                     (keys ? 0 : price_without_keys(client, command, count));

    if (command->flags & OKV_RESP_FIELDS)
        price += (uint64_t)count * FIELD_ARGUMENT;
    for (uint32_t i = 0; i < count && price <= most; i++)
        price += args[i].length;
    return price;
}

void okv_resp_refuse_length(struct okv_resp_call *call)
{
    okv_resp_error(&call->reply,
                   "ERR this would run alone for longer than the server allows (--alone-ms=%u): "
                   "send less at once",
                   call->client->resp->server->config.alone_ms);
}
