#include "server/resp/run/command.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Compares a word, in either case, with a name. */
static int compare(const struct okv_resp_arg *word, const char *name)
{
    for (uint32_t i = 0; i < word->length; i++) {
        int difference = toupper(word->text[i]) - name[i];
        if (difference || name[i] == '\0')
            return difference ? difference : 1;
    }
    return name[word->length] ? -1 : 0;
}

#define SUBCOMMAND '|' /* between the names of command and subcommand */

bool okv_resp_command_is_subcommand(const struct okv_resp_command *command)
{
    return strchr(command->name, SUBCOMMAND) != NULL;
}

unsigned okv_resp_command_parts(const struct okv_resp_command_table *table,
                                const struct okv_resp_command *command)
{
    const struct okv_resp_command *end = table->commands + table->count, *part = command + 1;

    while (part < end && okv_resp_command_is_subcommand(part) &&
           !okv_resp_command_is_subcommand(command))
        part++;
    return (unsigned)(part - command - 1);
}

bool okv_resp_command_lacks_part(const struct okv_resp_command_table *table,
                                 const struct okv_resp_command *command, uint32_t count)
{
    return count > 1 && okv_resp_command_parts(table, command) > 0;
}

const struct okv_resp_command *okv_resp_command_find(const struct okv_resp_command_table *table,
                                                     const struct okv_resp_arg *name)
{
    size_t first = 0, end = table->count;

    while (first < end) {
        size_t middle = (first + end) / 2;
        int order = compare(name, table->commands[middle].name);
        if (order == 0)
            return &table->commands[middle];
        if (order < 0)
            end = middle;
        else
            first = middle + 1;
    }
    return NULL;
}

const struct okv_resp_command *okv_resp_command_of(const struct okv_resp_command_table *table,
                                                   const struct okv_resp_arg *args, uint32_t count)
{
    const struct okv_resp_command *command = okv_resp_command_find(table, &args[0]);
    char name[32];

    if (!command || okv_resp_command_is_subcommand(command))
        return NULL;
    if (!okv_resp_command_lacks_part(table, command, count) || args[1].length > sizeof name / 2)
        return command;
    uint32_t length = (uint32_t)snprintf(name, sizeof name / 2, "%s%c", command->name, SUBCOMMAND);
    memcpy(name + length, args[1].text, args[1].length);
    const struct okv_resp_arg arg = {(const uint8_t *)name, length + args[1].length};
    const struct okv_resp_command *part = okv_resp_command_find(table, &arg);
    return part ? part : command;
}
