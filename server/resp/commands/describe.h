/* What COMMAND says of a command. It is made of the row that the command has in its table. */
#ifndef OKV_SERVER_RESP_COMMANDS_DESCRIBE_H
#define OKV_SERVER_RESP_COMMANDS_DESCRIBE_H

#include "server/resp/proto/reply.h"
#include "server/resp/run/command.h"

/* An element of COMMAND, with those of the subcommands. */
void okv_resp_describe(const struct okv_resp_reply *to, const struct okv_resp_command_table *table,
                       const struct okv_resp_command *command);
/* Name and value in the map of COMMAND DOCS. */
void okv_resp_describe_docs(const struct okv_resp_reply *to,
                            const struct okv_resp_command_table *table,
                            const struct okv_resp_command *command);
void okv_resp_describe_name(const struct okv_resp_reply *to,
                            const struct okv_resp_command *command);
/* Whether it is one of the words, in either case. */
bool okv_resp_describe_has(const char *words, const struct okv_resp_arg *arg);
/* A set of what a request does to a key. `access`: words, as its command has them. */
void okv_resp_describe_access(const struct okv_resp_reply *to, const char *access);

/* Whether the command is in an ACL category, whose name has no @ and is in either case. */
bool okv_resp_command_is_in(const struct okv_resp_command *command,
                            const struct okv_resp_arg *category);

#endif
