/* okv stat: the server's statistics and what this connection goes through. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"

enum { OPTION_JSON = 0x200 };

struct stat_arguments {
    struct cli *cli;
    bool json;
};

static const struct argp_option stat_options[] = {
    {"json", OPTION_JSON, NULL, 0, "One JSON object instead of lines", 0},
    {0},
};

static error_t parse_stat(int key, char *text, struct argp_state *state)
{
    struct stat_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case OPTION_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': stat takes no arguments", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Fetches the server's text into *text to free(). Returns the code. */
static int fetch_text(okv *handle, char **text)
{
    size_t size = 16384;

    for (;;) {
        size_t length = 0;
        char *buffer = malloc(size);
        if (!buffer)
            return OKV_ENOMEM;
        int rc = okv_stat(handle, buffer, size, &length);
        if (rc == OKV_OK) {
            *text = buffer;
            return OKV_OK;
        }
        free(buffer);
        if (rc != OKV_ETOOSMALL)
            return rc;
        /* The text grows while it is asked for again. */
        size = length + 256;
    }
}

/* A statistic as a JSON number where one can hold it exactly, else as a string. */
static json_t *json_statistic(const char *text)
{
    char *end = NULL;

    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0)
        return json_integer(whole);
    double real = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(real) && strchr(text, '.'))
        return json_real(real);
    return json_string(text);
}

/* The server's lines as an object; cuts the text up. */
static json_t *json_server(char *text)
{
    json_t *server = json_object();
    char *rest = NULL;

    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *space = strchr(line, ' ');
        if (!space)
            continue;
        *space = '\0';
        json_object_set_new(server, line, json_statistic(space + 1));
    }
    return server;
}

/* Ids are names: as numbers most JSON readers would round them. */
static json_t *json_id(uint64_t id)
{
    return json_sprintf("%016llx", (unsigned long long)id);
}

static json_t *json_connection(const struct okv_info *info)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "transport",
                     info->transport, "path", info->path, "boot_id", json_id(info->boot_id),
                     "session_id", json_id(info->session_id), "region_bytes",
                     (json_int_t)info->region_bytes, "buckets", (json_int_t)info->buckets,
                     "bucket_bytes", (json_int_t)info->bucket_bytes, "max_value",
                     (json_int_t)info->max_value, "credits", (json_int_t)info->credits, "depth",
                     (json_int_t)info->depth, "one_sided", (int)info->one_sided);
}

static int print_json(char *text, const struct okv_info *info)
{
    json_t *root =
        json_pack("{s:o*, s:o*}", "server", json_server(text), "connection", json_connection(info));
    if (!root || json_dumpf(root, stdout, JSON_INDENT(2)) != 0) {
        fprintf(stderr, "okv: stat: cannot make JSON of the server's statistics: try it without "
                        "--json\n");
        json_decref(root);
        return CLI_FAILED;
    }
    putchar('\n');
    json_decref(root);
    return CLI_DONE;
}

static void print_lines(const char *text, const struct okv_info *info)
{
    size_t length = strlen(text);

    fputs(text, stdout);
    if (length > 0 && text[length - 1] != '\n')
        putchar('\n');
    printf("connection_transport %s\n", info->transport);
    printf("connection_path %s\n", info->path);
    printf("connection_one_sided %u\n", info->one_sided);
    printf("connection_session_id %016llx\n", (unsigned long long)info->session_id);
    printf("connection_buckets %llu\n", (unsigned long long)info->buckets);
    printf("connection_credits %u\n", info->credits);
    printf("connection_depth %u\n", info->depth);
    printf("connection_max_value %u\n", info->max_value);
}

#define COUNTER_LINE(name, text) "  " #name ": " text "\n"

int cli_stat(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = stat_options,
        .parser = parse_stat,
        .doc = "Print the server's statistics, then what this connection goes through, one \"name "
               "value\" a line.\v"
               "The man page okv(1) explains the server's statistics. What this client counts is "
               "printed by any command with --counters:\n" OKV_COUNTER_LIST(
                   COUNTER_LINE) "\n"
                                 "Examples:\n  okv stat\n  okv stat --json | jq .server.items",
        .children = cli_common_options};
    struct stat_arguments arguments = {.cli = cli};
    struct okv_info info;
    char *text = NULL;
    int status = CLI_DONE;

    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    int connected = cli_connect(cli, 0);
    if (connected != CLI_DONE)
        return connected;

    int rc = fetch_text(cli->handle, &text);
    if (rc != OKV_OK)
        return cli_fail(cli, "stat", NULL, 0, rc);
    okv_info(cli->handle, &info);
    if (arguments.json)
        status = print_json(text, &info);
    else
        print_lines(text, &info);
    free(text);
    return status == CLI_DONE ? cli_output_end("stat") : status;
}
