/* COMMAND: describes the commands. */
#include <stdio.h>
#include <string.h>

#include "server/resp/commands/commands.h"
#include "server/resp/run/options.h"

static void reply_command(const struct okv_resp_reply *to, const struct okv_resp_command *command)
{
    char name[32];
    bool is_write = command->flags & OKV_RESP_WRITE, is_read = command->flags & OKV_RESP_READ;

    okv_resp_lower(command->name, name, sizeof name);
    okv_resp_array(to, 6);
    okv_resp_text(to, name);
    okv_resp_integer(to, command->arity);
    okv_resp_set(to, is_write || is_read);
    if (is_write || is_read)
        okv_resp_simple(to, is_write ? "write" : "readonly");
    okv_resp_integer(to, command->first_key);
    okv_resp_integer(to, command->last_key);
    okv_resp_integer(to, command->key_step);
}

static const struct okv_resp_command_table *table_of(const struct okv_resp_call *call)
{
    return call->client->resp->commands;
}

/* Of those that are no subcommands. */
static unsigned count_commands(const struct okv_resp_call *call)
{
    const struct okv_resp_command_table *table = table_of(call);
    unsigned count = 0;

    for (unsigned i = 0; i < table->count; i++)
        count += !okv_resp_command_is_subcommand(&table->commands[i]);
    return count;
}

typedef void reply_function(const struct okv_resp_reply *to,
                            const struct okv_resp_command *command);

/* Replies about each command that is no subcommand. */
static void reply_all(struct okv_resp_call *call, reply_function *reply)
{
    const struct okv_resp_command_table *table = table_of(call);

    for (unsigned i = 0; i < table->count; i++)
        if (!okv_resp_command_is_subcommand(&table->commands[i]))
            reply(&call->reply, &table->commands[i]);
}

int okv_resp_cmd_command(struct okv_resp_call *call)
{
    if (call->count > 1)
        return okv_resp_refuse_subcommand(call);
    okv_resp_array(&call->reply, count_commands(call));
    reply_all(call, reply_command);
    return 0;
}

int okv_resp_cmd_command_count(struct okv_resp_call *call)
{
    okv_resp_integer(&call->reply, count_commands(call));
    return 0;
}

int okv_resp_cmd_command_info(struct okv_resp_call *call)
{
    const struct okv_resp_command *command;

    okv_resp_array(&call->reply, call->count == 2 ? count_commands(call) : call->count - 2);
    if (call->count == 2)
        reply_all(call, reply_command);
    for (uint32_t i = 2; i < call->count; i++)
        if ((command = okv_resp_command_find(table_of(call), &call->args[i])))
            reply_command(&call->reply, command);
        else
            okv_resp_null_array(&call->reply);
    return 0;
}

static void reply_docs(const struct okv_resp_reply *to, const struct okv_resp_command *command)
{
    char name[32];

    okv_resp_lower(command->name, name, sizeof name);
    okv_resp_text(to, name);
    okv_resp_map(to, 2);
    okv_resp_text(to, "summary");
    okv_resp_text(to, command->summary);
    okv_resp_text(to, "group");
    okv_resp_text(to, command->group);
}

int okv_resp_cmd_command_docs(struct okv_resp_call *call)
{
    const struct okv_resp_command *command;
    unsigned count = 0;

    for (uint32_t i = 2; i < call->count; i++)
        count += okv_resp_command_find(table_of(call), &call->args[i]) != NULL;
    okv_resp_map(&call->reply, call->count == 2 ? count_commands(call) : count);
    if (call->count == 2)
        reply_all(call, reply_docs);
    for (uint32_t i = 2; i < call->count; i++)
        if ((command = okv_resp_command_find(table_of(call), &call->args[i])))
            reply_docs(&call->reply, command);
    return 0;
}

int okv_resp_cmd_command_getkeys(struct okv_resp_call *call)
{
    const struct okv_resp_command *command =
        okv_resp_command_of(table_of(call), &call->args[2], call->count - 2);
    int count = (int)call->count - 2;
    uint64_t bytes = 0;

    for (uint32_t i = 2; i < call->count; i++)
        bytes += call->args[i].length;
    if (bytes > OKV_TURN_WORK) {
        okv_resp_error(&call->reply, "ERR the arguments have more than %u bytes", OKV_TURN_WORK);
        return 0;
    }
    if (!command || !command->first_key) {
        okv_resp_error(&call->reply, command ? "ERR The command has no key arguments"
                                             : "ERR Invalid command specified");
        return 0;
    }
    if (command->arity > 0 ? count != command->arity : count < -command->arity) {
        okv_resp_error(&call->reply, "ERR Invalid number of arguments specified for command");
        return 0;
    }
    int last = okv_resp_last_key(command, (uint32_t)count);
    okv_resp_array(&call->reply, (size_t)((last - command->first_key) / command->key_step + 1));
    for (int i = command->first_key; i <= last; i += command->key_step)
        okv_resp_bulk(&call->reply, call->args[i + 2].text, call->args[i + 2].length);
    return 0;
}
