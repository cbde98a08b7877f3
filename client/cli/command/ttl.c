/* okv ttl: how long an item has to live. */
#include <stdio.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/item_json.h"
#include "client/cli/output.h"

struct ttl_arguments {
    struct cli *cli;
    char *key;
    bool json;
};

static const struct okv_option ttl_options[] = {
    {"json", 0, NULL, .help = "A JSON object instead, with key and ttl_ms",
     CLI_FLAG(struct ttl_arguments, json)},
    {0},
};

/* With its unit, so that nobody takes it for seconds, and as a TIME is read. */
static void print_text(int64_t ttl_ms)
{
    char text[CLI_TTL_TEXT];

    printf("%s%s\n", cli_ttl_text(ttl_ms, text), ttl_ms == OKV_TTL_NONE ? "" : "ms");
}

static int print_json(const struct ttl_arguments *arguments, int64_t ttl_ms)
{
    json_t *object = cli_json_key(arguments->key, strlen(arguments->key));

    cli_json_add(&object, "ttl_ms", cli_json_ttl(ttl_ms));
    return cli_print_json_line("ttl", object);
}

int cli_ttl(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = ttl_options,
        .least = 1,
        .most = 1,
        .arguments = {offsetof(struct ttl_arguments, key)},
        .missing = "give a KEY",
        .unexpected = "unexpected argument '%s': give one KEY, and to set its time okv touch",
        .args_doc = "KEY",
        .doc = "Print how long an item has to live: milliseconds with their unit, such as 59874ms, "
               "or none for an item that stays.\v"
               "It may be about 100ms too long, and is never too short. `okv touch` takes what "
               "this prints. With --json ttl_ms is a number, or null for an item that stays.\n\n"
               "Exit status 1 says that the key is not there.\n\n"
               "Examples:\n  okv ttl session:7\n  okv touch session:8 \"$(okv ttl session:7)\"\n"
               "  okv ttl session:7 --json | jq .ttl_ms"};
    struct ttl_arguments arguments = {.cli = cli};
    struct okv_item_info info;

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    size_t length = strlen(arguments.key);
    int rc = okv_head(cli->handle, arguments.key, length, &info);
    if (rc != OKV_OK)
        return cli_fail(cli, "ttl", arguments.key, length, rc);
    if (info.ttl_ms == 0) {
        fprintf(stderr,
                "okv: ttl: the server answered, and does not tell it: repeat the command\n");
        return CLI_FAILED;
    }
    if (arguments.json)
        status = print_json(&arguments, info.ttl_ms);
    else
        print_text(info.ttl_ms);
    return cli_worse(status, cli_output_end("ttl"));
}
