#include "client/cli/commands.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "shared/base/spell_suggest.h"

struct command {
    const char *name;
    cli_command *run;
    const char *arguments;
    const char *summary;
};

static const struct command commands[] = {
    {"put", cli_put, "KEY VALUE|-|-f F", "store a value; - takes it from stdin"},
    {"get", cli_get, "KEY [-o FILE]", "write the value to stdout or FILE"},
    {"mget", cli_mget, "KEY...|-", "write many items as KEY TAB VALUE lines"},
    {"exists", cli_exists, "KEY [-v]", "exit 0 if the key is there, else 1"},
    {"del", cli_del, "KEY...|--prefix P", "remove keys; - takes them from stdin"},
    {"incr", cli_incr, "KEY [N] [--ttl T]", "add N (1) to a number and print the sum"},
    {"append", cli_append, "KEY VALUE|-", "add to the end of a value"},
    {"touch", cli_touch, "KEY TIME|none", "set when an item expires"},
    {"ttl", cli_ttl, "KEY [--json]", "print how long an item has to live"},
    {"watch", cli_watch, "KEY [-n N]", "print an item each time that it changes"},
    {"scan", cli_scan, "[--prefix P]", "list keys, one a line"},
    {"import", cli_import, "[FILE]", "store the KEY TAB VALUE lines of FILE or stdin"},
    {"export", cli_export, "[--prefix P]", "write items as KEY TAB VALUE lines"},
    {"flush", cli_flush, "[--yes]", "remove every item"},
    {"ping", cli_ping, "[-c N]", "time requests through the server's CPU"},
    {"stat", cli_stat, "[--json]", "the server's statistics and this connection"},
    {"top", cli_top, "[-i TIME] [-n N]", "the server's rates, a line each second"},
    {"clients", cli_clients, "[--json]", "list the clients of the database"},
    {"admin", cli_admin, "WORD", "reload users, make a snapshot, end a session"},
    {"cluster", cli_cluster, "WORD",
     "create a cluster, change it, show it, have another server lead"},
    {"doctor", cli_doctor, "[--peer] [--json]", "check this host and the server"},
    {"discover", cli_discover, "[--json]", "list the servers that announce themselves"},
    {"keygen", cli_keygen, "[FILE]", "make a key for a user of a server"},
    {"probe", cli_probe, "[-n N] [--size S]", "time raw reads of the table"},
    {"shell", cli_shell, "[-k]", "run many commands on one connection"},
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static const char *const shell_words[] = {"help", "exit", "quit"};
#define SHELL_WORD_COUNT (sizeof shell_words / sizeof *shell_words)

void commands_print(FILE *out)
{
    fputs("Commands:\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-8s %-18s %s\n", commands[i].name, commands[i].arguments,
                commands[i].summary);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

bool command_exists(const char *name)
{
    return find_command(name) != NULL;
}

static const char *nearest_command(const char *name, bool in_shell)
{
    /* Their names in other stores and shells. */
    static const char *const others[][2] = {
        {"set", "put"},     {"write", "put"},       {"read", "get"},      {"rm", "del"},
        {"delete", "del"},  {"unlink", "del"},      {"keys", "scan"},     {"ls", "scan"},
        {"list", "scan"},   {"info", "stat"},       {"stats", "stat"},    {"expire", "touch"},
        {"pttl", "ttl"},    {"flushall", "flush"},  {"flushdb", "flush"}, {"incrby", "incr"},
        {"dump", "export"}, {"sessions", "clients"}};
    /* Edits of a typing error; two would turn a short name into any other. */
    size_t least = strlen(name) < 5 ? 2 : 3;
    const char *nearest = NULL, *other;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcasecmp(name, others[i][0]) == 0)
            return others[i][1];
    for (size_t i = 0; (other = command_name(i)) && (in_shell || i < COMMAND_COUNT); i++) {
        size_t distance = okv_spell_distance(name, other);
        if (distance < least) {
            least = distance;
            nearest = other;
        }
    }
    return nearest;
}

static void say_unknown(const char *name, bool in_shell, bool wants_help)
{
    const char *nearest = nearest_command(name, in_shell);

    fprintf(stderr, "okv: '%s': no such command", name);
    if (nearest)
        fprintf(stderr, ": do you mean `%s%s%s'?\n", in_shell ? "" : "okv ",
                wants_help ? "help " : "", nearest);
    else
        fprintf(stderr, ": see `%s' for the list\n", in_shell ? "help" : "okv --help");
}

const char *command_name(size_t index)
{
    if (index < COMMAND_COUNT)
        return commands[index].name;
    index -= COMMAND_COUNT;
    return index < SHELL_WORD_COUNT ? shell_words[index] : NULL;
}

/* Whether it may stand for standard input: "-", or "--file=-" and its like. */
static bool is_stdin(const char *word)
{
    size_t length = strlen(word);

    return length > 0 && word[0] == '-' && word[length - 1] == '-' && strcmp(word, "--") != 0;
}

/* That of the name, or the one that a mistake in it is near to. */
static const struct command *find_meant(const char *name)
{
    const struct command *command = find_command(name);
    const char *nearest = command || name[0] == '-' ? NULL : nearest_command(name, false);

    return nearest ? find_command(nearest) : command;
}

/* A word behind an option may be its argument. */
static bool has_file(int count, const char **words)
{
    for (int i = 1; i < count; i++)
        if (words[i][0] != '-' && words[i - 1][0] != '-')
            return true;
    return false;
}

bool command_may_read(int count, const char **words)
{
    const struct command *command = NULL;

    for (; count > 0 && !(command = find_meant(words[0])); count--, words++) {
    }
    if (!command || command->run == cli_import)
        return command && !has_file(count, words);
    bool takes_dash = command->run == cli_put || command->run == cli_append ||
                      command->run == cli_mget || command->run == cli_del;
    for (int i = 1; takes_dash && i < count; i++)
        if (is_stdin(words[i]))
            return true;
    return false;
}

int command_run(struct cli *cli, int argc, char **argv)
{
    static char help[] = "--help";
    const struct command *command;
    bool wants_help = argc > 1 && strcmp(argv[0], "help") == 0;
    char name[32];

    if (wants_help) { /* `help COMMAND' is `COMMAND --help' */
        argv[0] = argv[1];
        argv[1] = help;
        argc = 2;
    }
    command = find_command(argv[0]);
    if (!command) {
        say_unknown(argv[0], cli->shared, wants_help);
        return CLI_USAGE;
    }
    /* argp begins its messages with argv[0]. */
    snprintf(name, sizeof name, "okv %s", command->name);
    argv[0] = name;
    int status = command->run(cli, argc, argv);
    cli_disconnect(cli);
    return status;
}
