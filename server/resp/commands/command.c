/* COMMAND: describes the commands, in steps. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "server/resp/commands/commands.h"
#include "server/resp/commands/describe.h"
#include "server/resp/proto/pattern.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/resp/run/price.h"

static const struct okv_resp_command_table *table_of(const struct okv_resp_call *call)
{
    return call->client->resp->commands;
}

/* ---- COMMAND, INFO and DOCS ---- */

/* They reply about the commands that the request names, else about all that are no subcommands. */
static bool has_names(const struct okv_resp_call *call)
{
    return call->count > 2;
}

static uint32_t count_subjects(const struct okv_resp_call *call)
{
    return has_names(call) ? call->count - 2 : table_of(call)->count;
}

/* NULL: there is none of this index. */
static const struct okv_resp_command *subject(const struct okv_resp_call *call, uint32_t index)
{
    const struct okv_resp_command_table *table = table_of(call);

    if (has_names(call))
        return okv_resp_command_find(table, &call->args[index + 2]);
    return okv_resp_command_is_subcommand(&table->commands[index]) ? NULL : &table->commands[index];
}

static uint32_t count_found(const struct okv_resp_call *call)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < count_subjects(call); i++)
        count += subject(call, i) != NULL;
    return count;
}

typedef void describe_function(const struct okv_resp_reply *to,
                               const struct okv_resp_command_table *table,
                               const struct okv_resp_command *command);

/* `tells_unknown`: with null, of names. */
static int describe_subjects(struct okv_resp_call *call, describe_function *describe,
                             bool tells_unknown)
{
    uint32_t *next = &call->client->progress.next;

    for (; *next < count_subjects(call); ++*next) {
        const struct okv_resp_command *command = subject(call, *next);
        if (*next && okv_resp_has_to_pause(call))
            return OKV_RESP_GOES_ON;
        if (command)
            describe(&call->reply, table_of(call), command);
        else if (tells_unknown && has_names(call))
            okv_resp_null(&call->reply);
    }
    return 0;
}

/* Also COMMAND INFO. */
int okv_resp_cmd_command(struct okv_resp_call *call)
{
    if (call->client->progress.next == 0)
        okv_resp_array(&call->reply, has_names(call) ? count_subjects(call) : count_found(call));
    return describe_subjects(call, okv_resp_describe, true);
}

int okv_resp_cmd_command_docs(struct okv_resp_call *call)
{
    if (call->client->progress.next == 0)
        okv_resp_map(&call->reply, count_found(call));
    return describe_subjects(call, okv_resp_describe_docs, false);
}

int okv_resp_cmd_command_count(struct okv_resp_call *call)
{
    okv_resp_integer(&call->reply, count_found(call));
    return 0;
}

/* ---- LIST ---- */

/* Which commands it lists: all, or those that match. */
struct filter {
    struct okv_resp_pattern pattern;
    bool has_pattern;
    const struct okv_resp_arg *category; /* NULL: any */
    bool is_none;                        /* of a module: there is none */
};

/* More than the name of any command has. */
#define PATTERN_MAX 64u

/* Names are in lower case, and patterns in either. False: an error was replied. */
static bool read_pattern(struct okv_resp_call *call, const struct okv_resp_arg *arg,
                         struct filter *filter)
{
    uint8_t lower[PATTERN_MAX];

    if (arg->length > sizeof lower) {
        okv_resp_error(&call->reply, "ERR a pattern has at most %u bytes", PATTERN_MAX);
        return false;
    }
    for (uint32_t i = 0; i < arg->length; i++)
        lower[i] = (uint8_t)tolower(arg->text[i]);
    int rc = okv_resp_pattern_init(&filter->pattern, lower, arg->length);
    filter->has_pattern = rc == 0;
    if (rc)
        okv_resp_refuse(call, rc);
    return rc == 0;
}

/* False: an error was replied. */
static bool read_filter(struct okv_resp_call *call, struct filter *filter)
{
    const struct okv_resp_arg *args = call->args;

    if (call->count == 2)
        return true;
    bool is_filter = call->count == 5 && okv_resp_arg_is(&args[2], "FILTERBY");
    if (is_filter && okv_resp_arg_is(&args[3], "PATTERN"))
        return read_pattern(call, &args[4], filter);
    filter->category = is_filter && okv_resp_arg_is(&args[3], "ACLCAT") ? &args[4] : NULL;
    filter->is_none = is_filter && okv_resp_arg_is(&args[3], "MODULE");
    if (filter->category || filter->is_none)
        return true;
    okv_resp_syntax_error(call);
    return false;
}

static bool is_wanted(const struct filter *filter, const struct okv_resp_command *command,
                      uint64_t *work)
{
    char name[32];

    okv_resp_lower(command->name, name, sizeof name);
    return !filter->is_none &&
           (!filter->category || okv_resp_command_is_in(command, filter->category)) &&
           (!filter->has_pattern ||
            okv_resp_pattern_matches(&filter->pattern, (uint8_t *)name, strlen(name), work));
}

/* Also subcommands. */
int okv_resp_cmd_command_list(struct okv_resp_call *call)
{
    const struct okv_resp_command_table *table = table_of(call);
    struct okv_resp_buffer names = {.used = 0};
    const struct okv_resp_reply to = {&names, call->reply.protocol};
    struct filter filter = {.category = NULL};
    uint64_t work = 0, count = 0;

    if (!read_filter(call, &filter))
        return 0;
    for (unsigned i = 0; i < table->count; i++)
        if (is_wanted(&filter, &table->commands[i], &work)) {
            okv_resp_describe_name(&to, &table->commands[i]);
            count++;
        }
    okv_resp_array(&call->reply, count);
    okv_resp_buffer_add(call->reply.out, names.bytes, names.used);
    call->reply.out->has_failed = call->reply.out->has_failed || names.has_failed;
    okv_turn_spend(&call->client->resp->turn, work + okv_resp_pattern_bytes(&filter.pattern) / 8);
    okv_resp_buffer_fini(&names);
    okv_resp_pattern_fini(&filter.pattern);
    return 0;
}

/* ---- GETKEYS and GETKEYSANDFLAGS ---- */

/* Bytes that are looked at in one step, with what is replied about each argument. */
#define ARGUMENTS_MAX (OKV_TURN_WORK / 2)

/* The command that the request has behind its first two words, and that has keys. NULL: an error
 * was replied. */
static const struct okv_resp_command *need_keys(struct okv_resp_call *call)
{
    const struct okv_resp_arg *args = &call->args[2];
    uint32_t count = call->count - 2;
    const struct okv_resp_command *command = okv_resp_command_of(table_of(call), args, count);
    const char *problem = NULL;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += args[i].length;
    if (bytes > ARGUMENTS_MAX)
        okv_resp_error(&call->reply, "ERR the arguments have more than %u bytes", ARGUMENTS_MAX);
    else if (!command || okv_resp_command_lacks_part(table_of(call), command, count))
        problem = "Invalid command specified";
    else if (!command->first_key && !(command->flags & OKV_RESP_COUNTED))
        problem = "The command has no key arguments";
    else if (!okv_resp_command_takes(command, count))
        problem = "Invalid number of arguments specified for command";
    if (problem)
        okv_resp_error(&call->reply, "ERR %s", problem);
    return problem || bytes > ARGUMENTS_MAX ? NULL : command;
}

/* Whether operations of BITFIELD may change something. What is none of them may do anything. */
static bool may_change_fields(const struct okv_resp_call *call)
{
    for (uint32_t i = 4; i < call->count; i++) {
        uint32_t left = call->count - i - 1;
        if (okv_resp_arg_is(&call->args[i], "GET") && left >= 2)
            i += 2;
        else if (okv_resp_arg_is(&call->args[i], "OVERFLOW") && left >= 1)
            i += 1;
        else
            return true;
    }
    return false;
}

/* Whether one of its words is behind the keys and the value of the request. */
static bool has_its_words(const struct okv_resp_call *call, const struct okv_resp_command *command)
{
    int last = command->value ? command->value : command->last_key;

    for (uint32_t i = 2 + (uint32_t)last + 1; i < call->count; i++)
        if (okv_resp_describe_has(command->words, &call->args[i]))
            return true;
    return false;
}

static bool may_do_all(const struct okv_resp_call *call, const struct okv_resp_command *command)
{
    return command->flags & OKV_RESP_FIELDS ? may_change_fields(call)
                                            : has_its_words(call, command);
}

static const char *access_of(const struct okv_resp_call *call,
                             const struct okv_resp_command *command, uint32_t key)
{
    if (command->access_without && !may_do_all(call, command))
        return command->access_without;
    return key > 0 && command->access_rest ? command->access_rest : command->access;
}

/* Where the first key of the request is, and the number of keys. */
static const struct okv_resp_arg *find_keys(const struct okv_resp_call *call,
                                            const struct okv_resp_command *command, uint32_t *count)
{
    const struct okv_resp_arg *args = &call->args[2];
    uint32_t words = call->count - 2;
    int64_t number;

    *count = okv_resp_count_keys(command, words);
    if (!(command->flags & OKV_RESP_COUNTED))
        return args + command->first_key;
    if (okv_resp_arg_integer(&args[2], &number) && number > 0 && number <= (int64_t)words - 3)
        *count = (uint32_t)number;
    return args + 3;
}

static int reply_keys(struct okv_resp_call *call, bool with_access)
{
    const struct okv_resp_command *command = need_keys(call);
    uint32_t count;

    if (!command)
        return 0;
    const struct okv_resp_arg *key = find_keys(call, command, &count);
    okv_resp_array(&call->reply, count);
    for (uint32_t i = 0; i < count; i++, key += command->key_step ? command->key_step : 1) {
        if (with_access)
            okv_resp_array(&call->reply, 2);
        okv_resp_bulk(&call->reply, key->text, key->length);
        if (with_access)
            okv_resp_describe_access(&call->reply, access_of(call, command, i));
    }
    return 0;
}

int okv_resp_cmd_command_getkeys(struct okv_resp_call *call)
{
    return reply_keys(call, false);
}

int okv_resp_cmd_command_getkeysandflags(struct okv_resp_call *call)
{
    return reply_keys(call, true);
}

/* ---- HELP, which every command with subcommands has ---- */

int okv_resp_cmd_help(struct okv_resp_call *call)
{
    const struct okv_resp_command *whole = call->command;
    char line[160];

    while (okv_resp_command_is_subcommand(whole))
        whole--;
    unsigned parts = okv_resp_command_parts(table_of(call), whole);
    okv_resp_array(&call->reply, 1 + 2 * parts);
    snprintf(line, sizeof line,
             "%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", whole->name);
    okv_resp_simple(&call->reply, line);
    for (const struct okv_resp_command *part = whole + 1; part <= whole + parts; part++) {
        okv_resp_simple(&call->reply, part->name + strlen(whole->name) + 1);
        snprintf(line, sizeof line, "    %s.", part->summary);
        okv_resp_simple(&call->reply, line);
    }
    return 0;
}
