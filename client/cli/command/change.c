/* okv incr and touch: change existing items. */
#include <stdio.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/output.h"

/* ---- incr --------------------------------------------------------------- */

struct incr_arguments {
    struct cli *cli;
    char *key, *number; /* NULL: 1 */
    int64_t delta;
    int64_t ttl_ms; /* 0: a new item stays */
};

static const struct okv_option incr_options[] = {
    {"ttl", 0, "TIME",
     .help = "An item that was not there expires after TIME, as 500ms, 60s, 5m, 2h or 7d; a number "
             "alone is seconds",
     CLI_TTL(struct incr_arguments, ttl_ms)},
    {0},
};

static error_t check_incr(struct argp_state *state, void *input)
{
    struct incr_arguments *arguments = input;

    return arguments->number ? cli_signed_number(state, "N", arguments->number, &arguments->delta)
                             : 0;
}

int cli_incr(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = incr_options,
        .least = 1,
        .most = 2,
        .may_be_negative = true,
        .arguments = {offsetof(struct incr_arguments, key),
                      offsetof(struct incr_arguments, number)},
        .missing = "give a KEY, and N unless it is 1",
        .unexpected = "unexpected argument '%s': give KEY and N",
        .check = check_incr,
        .args_doc = "KEY [N]",
        .doc = "Add N (1) to the decimal integer that the value is, and print the sum.\v"
               "N may be negative. A key that is not there counts as 0. The value becomes the sum "
               "in decimal digits; its time to live does not change.\n\n"
               "Examples:\n  okv incr visits\n  okv incr stock -12\n"
               "  okv incr tries:alice --ttl 60s"};
    struct incr_arguments arguments = {.cli = cli, .delta = 1};
    int64_t result = 0;

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    size_t length = strlen(arguments.key);
    int rc = arguments.ttl_ms
                 ? okv_incr_ttl(cli->handle, arguments.key, length, arguments.delta,
                                arguments.ttl_ms, &result, NULL)
                 : okv_incr(cli->handle, arguments.key, length, arguments.delta, &result, NULL);
    if (rc != OKV_OK)
        return cli_fail(cli, "incr", arguments.key, length, rc);
    printf("%lld\n", (long long)result);
    return cli_output_end("incr");
}

/* ---- touch -------------------------------------------------------------- */

struct touch_arguments {
    struct cli *cli;
    char *key, *time;
    int64_t ttl_ms;
};

static error_t check_touch(struct argp_state *state, void *input)
{
    struct touch_arguments *arguments = input;

    return cli_ttl_or_none(state, "TIME", arguments->time, &arguments->ttl_ms);
}

int cli_touch(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .least = 2,
        .most = 2,
        .may_be_negative = true,
        .arguments = {offsetof(struct touch_arguments, key),
                      offsetof(struct touch_arguments, time)},
        .missing = "give KEY and a time such as 60s, or KEY and none",
        .unexpected = "unexpected argument '%s': give KEY and TIME",
        .check = check_touch,
        .args_doc = "KEY TIME\nKEY none",
        .doc = "Let an item expire after TIME (500ms, 60s, 5m, 2h, 7d; a number alone is seconds), "
               "or (none) stay until it is deleted.\v"
               "Its value stays; its version changes. Exit status 1 says that the key is not "
               "there.\n\n"
               "Examples:\n  okv touch session:7 5m\n  okv touch greeting none"};
    struct touch_arguments arguments = {.cli = cli};

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    size_t length = strlen(arguments.key);
    int rc = okv_touch(cli->handle, arguments.key, length, arguments.ttl_ms, NULL);
    return rc == OKV_OK ? CLI_DONE : cli_fail(cli, "touch", arguments.key, length, rc);
}
