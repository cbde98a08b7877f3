/* okv(1): finds the command and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/cli/cli.h"

struct command {
    const char *name;
    cli_command *run;
    const char *arguments;
    const char *summary;
};

static const struct command commands[] = {
    {"put", cli_put, "KEY VALUE|-", "store a value; - takes it from stdin"},
    {"get", cli_get, "KEY [-o FILE]", "write the value to stdout or FILE"},
    {"mget", cli_mget, "KEY...|-", "write many items as KEY TAB VALUE lines"},
    {"exists", cli_exists, "KEY [-v]", "exit 0 if the key is there, else 1"},
    {"del", cli_del, "KEY...|-", "remove keys"},
    {"incr", cli_incr, "KEY [N]", "add N (1) to a number and print the sum"},
    {"append", cli_append, "KEY VALUE|-", "add to the end of a value"},
    {"touch", cli_touch, "KEY TIME|none", "set when an item expires"},
    {"watch", cli_watch, "KEY [-i TIME] [-n N]", "print an item each time that it changes"},
    {"scan", cli_scan, "[--prefix P]", "list keys, one a line"},
    {"import", cli_import, "[--depth D]", "store the KEY TAB VALUE lines of stdin"},
    {"export", cli_export, "", "write all items as KEY TAB VALUE lines"},
    {"flush", cli_flush, "[--yes]", "remove every item"},
    {"ping", cli_ping, "[-c N]", "time requests through the server's CPU"},
    {"stat", cli_stat, "[--json]", "the server's statistics and this connection"},
    {"top", cli_top, "[-i TIME] [-n N]", "what the server does, a line each second"},
    {"clients", cli_clients, "[--json]", "list who is connected to the database"},
    {"admin", cli_admin, "WORD", "reload users, make a snapshot, end a session"},
    {"doctor", cli_doctor, "[--json]", "say what of this host and the server does not work"},
    {"discover", cli_discover, "[--json]", "list the servers that announce themselves"},
    {"keygen", cli_keygen, "[FILE]", "make a key for a user of a server"},
    {"probe", cli_probe, "[-n N] [--size S]", "time raw reads of the table"},
};
#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static const char about[] =
    "Store and read items of an okv server.\v"
    "Examples:\n"
    "  okv -s rdma://10.0.0.1 put greeting 'hello there'\n"
    "  okv -s rdma://10.0.0.1 get greeting\n"
    "  export OKV_SERVER=local:///run/okv.sock\n"
    "  okv put photo - <photo.jpg && okv get photo -o copy.jpg\n"
    "  okv put session:7 alice --ttl 60s         # expires after a minute\n"
    "  okv --counters get greeting >/dev/null    # one READ for one get\n"
    "  okv export | gzip >items.tsv.gz\n"
    "  okv COMMAND --help\n"
    "\n"
    "?source=ADDRESS in an rdma or ofi URI is the address of this host to connect from, for a host "
    "that has several. ?group=GROUP is the multicast group in which to look for the server. "
    "?provider=NAME is the libfabric provider that the server has to use.\n"
    "\n"
    "?database=NAME in a URI is the database of that server; without it, --database, else "
    "$OKV_DATABASE, else the one called default.\n"
    "\n"
    "A server with users needs --user and --key-file, else $OKV_USER and $OKV_KEY_FILE.\n"
    "\n"
    "Without -s the server is $OKV_SERVER, else the well-known socket on this host: "
    "/run/okv.sock for root, $XDG_RUNTIME_DIR/okv.sock or /tmp/okv-UID.sock for others.\n"
    "\n"
    "Exit status: 0 done, 1 the key is not there or a condition was not met, 2 usage, 3 could not "
    "reach the server or finish.";

/* What is left of the command line once the common options were taken. */
struct dispatch {
    struct cli *cli;
    char *name;
    int first; /* index in argv of the command's name */
};

static void print_commands(FILE *out)
{
    fputs("Commands:\n", out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-8s %-18s %s\n", commands[i].name, commands[i].arguments,
                commands[i].summary);
}

/* Puts the table of commands between the options and the examples. */
static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC || !text)
        return (char *)text;

    char *page = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&page, &size);
    if (!out)
        return (char *)text;
    print_commands(out);
    fprintf(out, "\n%s", text);
    fclose(out);
    return page;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct dispatch *dispatch = state->input;

    cli_parse_child(key, state, dispatch->cli);
    switch (key) {
    case ARGP_KEY_ARG:
        dispatch->name = text;
        dispatch->first = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        fputs("usage: okv [-s URI] COMMAND [ARGUMENT...]\n\n", stderr);
        print_commands(stderr);
        fputs("\nTry `okv COMMAND --help', or `okv --help' for options and examples.\n", stderr);
        exit(CLI_USAGE);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* Of `okv help COMMAND' makes `okv COMMAND --help'. */
static void turn_help(struct dispatch *dispatch, int argc, char **argv)
{
    static char help[] = "--help";

    argv[dispatch->first] = argc > dispatch->first + 1 ? argv[dispatch->first + 1] : help;
    if (argc > dispatch->first + 1)
        argv[dispatch->first + 1] = help;
    dispatch->name = argv[dispatch->first];
}

/* Bytes that are to be inserted, removed or replaced (Levenshtein). `to` has less than 16. */
static size_t edits(const char *from, const char *to)
{
    size_t length = strlen(to), row[16];

    for (size_t i = 0; i <= length; i++)
        row[i] = i;
    for (size_t line = 1; *from; line++, from++) {
        size_t corner = row[0];
        row[0] = line;
        for (size_t i = 1; i <= length; i++) {
            size_t replaced = corner + (*from != to[i - 1]);
            size_t other = (row[i] < row[i - 1] ? row[i] : row[i - 1]) + 1;
            corner = row[i];
            row[i] = replaced < other ? replaced : other;
        }
    }
    return row[length];
}

static const char *nearest_command(const char *name)
{
    /* What other stores and shells call them. */
    static const char *const others[][2] = {
        {"set", "put"},     {"write", "put"},       {"read", "get"},      {"rm", "del"},
        {"delete", "del"},  {"unlink", "del"},      {"keys", "scan"},     {"ls", "scan"},
        {"list", "scan"},   {"info", "stat"},       {"stats", "stat"},    {"expire", "touch"},
        {"ttl", "touch"},   {"flushall", "flush"},  {"flushdb", "flush"}, {"incrby", "incr"},
        {"dump", "export"}, {"sessions", "clients"}};
    size_t least = 3; /* edits that a slip of the fingers makes */
    const char *nearest = NULL;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcasecmp(name, others[i][0]) == 0)
            return others[i][1];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        size_t distance = edits(name, commands[i].name);
        if (distance < least) {
            least = distance;
            nearest = commands[i].name;
        }
    }
    return nearest;
}

static void say_unknown(const char *name)
{
    const char *nearest = nearest_command(name);

    fprintf(stderr, "okv: '%s': no such command", name);
    if (nearest)
        fprintf(stderr, ": do you mean `okv %s'?\n", nearest);
    else
        fputs(": see `okv --help' for the list\n", stderr);
}

static void print_version(FILE *out, struct argp_state *state)
{
    (void)state;
    fprintf(out, "okv %s\ntransports: %s\n", okv_version(), okv_transports());
}

int main(int argc, char **argv)
{
    static const struct argp parser = {.parser = parse,
                                       .args_doc = "COMMAND [ARGUMENT...]",
                                       .doc = about,
                                       .children = cli_common_options,
                                       .help_filter = help_filter};
    struct cli cli = {0};
    struct dispatch dispatch = {.cli = &cli};
    char name[32];

    argp_err_exit_status = CLI_USAGE;
    argp_program_version_hook = print_version;
    cli_server_default(&cli);
    argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &dispatch);

    if (strcmp(dispatch.name, "help") == 0)
        turn_help(&dispatch, argc, argv);
    if (strcmp(dispatch.name, "--help") == 0)
        argp_parse(&parser, argc, argv, ARGP_IN_ORDER, NULL, &dispatch);
    const struct command *command = find_command(dispatch.name);
    if (!command) {
        say_unknown(dispatch.name);
        return CLI_USAGE;
    }
    /* argp begins its messages with argv[0]. */
    snprintf(name, sizeof name, "okv %s", command->name);
    argv[dispatch.first] = name;
    int status = command->run(&cli, argc - dispatch.first, argv + dispatch.first);
    cli_disconnect(&cli);
    return status;
}
