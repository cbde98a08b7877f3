/* okv discover: the servers that announce themselves. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/output.h"
#include "client/cli/stats.h"
#include "shared/base/size.h"
#include "shared/discovery/discovery.h"

#define TIMEOUT_MS 500
#define TIMEOUT_MS_MAX 60000

struct discover_arguments {
    struct cli *cli;
    const char *group;
    const char *source;
    bool json;
};

static int read_group(const struct okv_option *option, const char *text, void *fields,
                      struct okv_diag *why)
{
    struct discover_arguments *arguments = fields;

    (void)option;
    if (!okv_group_is_valid(text))
        return okv_diag_set(why, OKV_EINVAL, " %s: give " OKV_GROUP_RULE, text);
    arguments->group = text;
    return 0;
}

static const struct okv_option discover_options[] = {
    {"group", 0, "GROUP",
     .help = "The multicast group to ask in (" OKV_DISCOVERY_GROUP
             "), as servers have it in --announce",
     OKV_OPTION_OTHER, .read = read_group},
    {"source", 0, "ADDRESS", .help = "Ask on the interface with this address only, not on all",
     CLI_TEXT(struct discover_arguments, source)},
    {"json", 0, NULL, .help = "One JSON array instead of lines",
     CLI_FLAG(struct discover_arguments, json)},
    {0},
};

static error_t check_discover(struct argp_state *state, void *input)
{
    const struct discover_arguments *arguments = input;

    if (arguments->cli->timeout_ms > TIMEOUT_MS_MAX)
        return cli_usage(state, "--timeout: it asks for at most %ds", TIMEOUT_MS_MAX / 1000);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    const struct okv_discovery_answer *left = a, *right = b;
    int order = strcmp(left->name, right->name);

    if (order != 0)
        return order;
    return (left->boot_id > right->boot_id) - (left->boot_id < right->boot_id);
}

static void print_servers(const struct okv_discovery_found *found)
{
    for (unsigned i = 0; i < found->count; i++) {
        const struct okv_discovery_answer *server = &found->servers[i];
        char memory[OKV_SIZE_TEXT];
        okv_size_format(server->memory_used, memory, sizeof memory);
        printf("%s %s boot_id %016" PRIx64 " items %" PRIu64 " memory_used %s", server->name,
               server->release, server->boot_id, server->items, memory);
        for (unsigned j = 0; j < server->uri_count; j++)
            printf(" %s", server->uris[j]);
        putchar('\n');
    }
}

static json_t *json_server(const struct okv_discovery_answer *server)
{
    json_t *uris = json_array();

    for (unsigned i = 0; i < server->uri_count; i++)
        json_array_append_new(uris, json_string(server->uris[i]));
    return json_pack("{s:s, s:s, s:o, s:I, s:I, s:o}", "name", server->name, "version",
                     server->release, "boot_id", cli_json_id(server->boot_id), "items",
                     (json_int_t)server->items, "memory_used", (json_int_t)server->memory_used,
                     "uris", uris);
}

static int print_json(const struct okv_discovery_found *found)
{
    json_t *root = json_array();

    for (unsigned i = 0; i < found->count && root; i++) {
        if (json_array_append_new(root, json_server(&found->servers[i]))) {
            json_decref(root);
            root = NULL;
        }
    }
    return cli_print_json("discover", "the servers", root);
}

static int discover(const struct discover_arguments *arguments, struct okv_discovery_found *found)
{
    const uint32_t timeout_ms = arguments->cli->timeout_ms;
    const struct okv_discovery_search search = {
        .group = arguments->group,
        .name = "",
        .source = arguments->source,
        .rdma = true,
        .udp = true,
        .timeout_ms = timeout_ms ? timeout_ms : TIMEOUT_MS,
    };
    struct okv_diag diag = {.text = ""};
    int status = CLI_DONE;

    int rc = okv_discovery_search(&search, found, &diag);
    if (rc) {
        fprintf(stderr, "okv: discover: %s\n", diag.text);
        return CLI_FAILED;
    }
    qsort(found->servers, found->count, sizeof *found->servers, compare_names);
    if (arguments->json)
        status = print_json(found);
    else
        print_servers(found);
    if (status == CLI_DONE)
        status = cli_output_end("discover");
    if (status == CLI_DONE && found->count == 0) {
        fprintf(stderr,
                "okv: discover: no server answered in the group %s: start okv-server with "
                "--announce, or ask for longer with -t TIME\n",
                arguments->group[0] ? arguments->group : OKV_DISCOVERY_GROUP);
        return CLI_MISS;
    }
    return status;
}

int cli_discover(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = discover_options,
        .unexpected = "unexpected argument '%s': discover takes no arguments",
        .check = check_discover,
        .doc = "List the servers that announce themselves on this host's networks: name, version, "
               "boot id, items, memory used and URIs, one server a line. It listens for 500 ms, or "
               "for the time of -t, up to 60 s; other options for a connection have no effect.\v"
               "Answers are not authenticated: docs/discovery.md.\n"
               "\nExamples:\n  okv discover\n  okv discover --json -t 2s | jq -r '.[].uris[0]'\n"
               "  okv -s rdma://discover/cache get key"};
    struct discover_arguments arguments = {.cli = cli, .group = "", .source = ""};

    int status = cli_read(&parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    struct okv_discovery_found *found = malloc(sizeof *found);
    if (!found)
        return cli_fail(cli, "discover", NULL, 0, OKV_ENOMEM);
    status = discover(&arguments, found);
    free(found);
    return status;
}
