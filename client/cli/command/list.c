/* okv scan and export: the commands that read the whole table. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/item_json.h"
#include "client/cli/output.h"
#include "client/cli/progress.h"
#include "client/cli/tsv.h"
#include "shared/base/clock.h"

/* Ends a scan from within; okv_scan() returns it as it is. */
#define SCAN_STOPPED 1

/* Scans with `visit` and reports how it ended. */
static int scan_all(struct cli *cli, const char *command, okv_visit *visit, void *user)
{
    cli_interrupt_catch_in_output();
    int rc = okv_scan(cli->handle, visit, user);
    int status = cli_output_end(command);

    if (rc != OKV_OK && rc != SCAN_STOPPED)
        status = cli_fail(cli, command, NULL, 0, rc);
    return cli_interrupted() ? CLI_FAILED : status;
}

/* What keys have to begin with, and its length. */
struct prefix {
    const char *text;
    size_t length;
};

static bool begins_with(const struct okv_item *item, const struct prefix *prefix)
{
    return item->key_length >= prefix->length &&
           memcmp(item->key, prefix->text, prefix->length) == 0;
}

/* ---- scan --------------------------------------------------------------- */

/* Other stores have patterns. */
static int length_before_star(const char *pattern)
{
    return (int)strcspn(pattern, "*");
}

struct scan_arguments {
    struct cli *cli;
    char *pattern; /* which is a mistake */
    struct prefix prefix;
    uint64_t left; /* items that may still be shown */
    uint64_t shown;
    bool verbose;
    bool is_null; /* raw keys, each followed by a NUL */
    bool json;
    int status; /* of the output */
};

static const struct okv_option scan_options[] = {
    {"prefix", 0, "P", .help = "Only keys that begin with P",
     CLI_TEXT(struct scan_arguments, prefix.text)},
    {"limit", 0, "N", .help = "End after N keys",
     CLI_NUMBER(struct scan_arguments, left, 1, UINT64_MAX)},
    {"long", 0, NULL, .help = "Also the value's length, the version and the time to live",
     CLI_FLAG(struct scan_arguments, verbose)},
    {"null", '0', NULL, .help = "Raw keys, each followed by a NUL",
     CLI_FLAG(struct scan_arguments, is_null)},
    {"json", 0, NULL, .help = "Lines of JSON instead: objects with key, length, version and ttl_ms",
     CLI_FLAG(struct scan_arguments, json)},
    {0},
};

static error_t check_scan(struct argp_state *state, void *input)
{
    const struct scan_arguments *arguments = input;

    if (arguments->pattern)
        return cli_usage(
            state, "unexpected argument '%s': for keys that begin with it give --prefix %.*s",
            arguments->pattern, length_before_star(arguments->pattern), arguments->pattern);
    if (arguments->is_null && arguments->verbose)
        return cli_usage(state, "--null and --long exclude each other: --long has lines");
    if (arguments->json && (arguments->is_null || arguments->verbose))
        return cli_usage(state, "--json has all of an item in lines: leave out --long and --null");
    return 0;
}

static int print_key_json(const struct okv_item *item)
{
    json_t *object = cli_json_key(item->key, item->key_length);

    cli_json_add(&object, "length", json_integer((json_int_t)item->value_length));
    cli_json_add(&object, "version", json_integer((json_int_t)item->version));
    cli_json_add(&object, "ttl_ms", cli_json_ttl(item->ttl_ms));
    return cli_print_json_line("scan", object);
}

static void print_key(const struct scan_arguments *arguments, const struct okv_item *item)
{
    char ttl[CLI_TTL_TEXT];

    if (arguments->is_null)
        fwrite(item->key, 1, item->key_length, stdout);
    else
        tsv_write_key(stdout, item->key, item->key_length);
    if (arguments->verbose)
        printf("\t%zu\t%llu\t%s", item->value_length, (unsigned long long)item->version,
               cli_ttl_text(item->ttl_ms, ttl));
    putchar(arguments->is_null ? '\0' : '\n');
}

static int show_key(void *user, const struct okv_item *item)
{
    struct scan_arguments *arguments = user;

    if (!begins_with(item, &arguments->prefix))
        return cli_interrupted() ? SCAN_STOPPED : 0;
    if (arguments->json)
        arguments->status = print_key_json(item);
    else
        print_key(arguments, item);
    if (arguments->status != CLI_DONE)
        return SCAN_STOPPED;
    arguments->shown++;
    return --arguments->left == 0 || ferror(stdout) || cli_interrupted() ? SCAN_STOPPED : 0;
}

static int list_keys(struct scan_arguments *arguments, const char *command)
{
    arguments->prefix.length = strlen(arguments->prefix.text);
    int status = scan_all(arguments->cli, command, show_key, arguments);

    status = cli_worse(status, arguments->status);
    if (status != CLI_DONE)
        fprintf(stderr, "okv: %s: ended after %llu key%s: not all are listed\n", command,
                (unsigned long long)arguments->shown, cli_s(arguments->shown));
    return status;
}

int cli_list_keys(struct cli *cli, const char *command, const char *prefix)
{
    struct scan_arguments arguments = {.cli = cli, .prefix = {.text = prefix}, .left = UINT64_MAX};

    return list_keys(&arguments, command);
}

int cli_scan(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = scan_options,
        .most = 1,
        .arguments = {offsetof(struct scan_arguments, pattern)},
        .unexpected = "unexpected argument '%s': scan takes options only",
        .check = check_scan,
        .doc =
            "List the keys that are there, one a line, in no order.\v"
            "The table is read without the server's CPU, and all of it, also with --prefix: "
            "only --limit ends it early. With --long a line is KEY, the value's length in "
            "bytes, the item's version and its time to live in milliseconds (or none), with "
            "tabs between them. Keys are escaped as those of `okv export`, except with --null. "
            "With --json ttl_ms is null for none, and a key that is no UTF-8 is in key_base64.\n\n"
            "A key that is there all the while is listed exactly once.\n\n"
            "Examples:\n  okv scan --prefix user: | wc -l\n  okv scan --long | sort -n -k 2 -t "
            "$'\\t'\n  okv scan --prefix tmp: | okv mget -\n  okv scan -0 | xargs -0 -n 1 okv get"};
    struct scan_arguments arguments = {.cli = cli, .prefix = {.text = ""}, .left = UINT64_MAX};

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    return status != CLI_DONE ? status : list_keys(&arguments, "scan");
}

/* ---- export ------------------------------------------------------------- */

struct export
{
    struct cli *cli;
    char *pattern; /* which is a mistake */
    struct prefix prefix;
    bool json;
    int status; /* of the output */
    uint64_t items;
    struct progress progress;
};

/* The expiry of an item by the wall clock. */
static int64_t expiry_of(const struct okv_item *item)
{
    return item->ttl_ms == OKV_TTL_NONE ? 0 : (int64_t)okv_clock_wall_ms() + item->ttl_ms;
}

static int write_json(const struct okv_item *item)
{
    json_t *object =
        cli_json_item(item->key, item->key_length, item->value, item->value_length, item->version);
    int64_t expires_at_ms = expiry_of(item);

    cli_json_add(&object, "expires_at_ms",
                 expires_at_ms ? json_integer(expires_at_ms) : json_null());
    return cli_print_json_line("export", object);
}

static void write_text(const struct okv_item *item)
{
    struct tsv_item line = {.key = item->key,
                            .key_length = item->key_length,
                            .value = item->value,
                            .value_length = item->value_length,
                            .expires_at_ms = expiry_of(item)};

    tsv_write(stdout, &line);
}

static int write_item(void *user, const struct okv_item *item)
{
    struct export *export = user;

    if (!begins_with(item, &export->prefix))
        return cli_interrupted() ? SCAN_STOPPED : 0;
    if (export->json)
        export->status = write_json(item);
    else
        write_text(item);
    if (export->status != CLI_DONE || ferror(stdout))
        return SCAN_STOPPED;
    progress_show(&export->progress, ++export->items);
    return cli_interrupted() ? SCAN_STOPPED : 0;
}

static error_t check_export(struct argp_state *state, void *input)
{
    const char *pattern = ((struct export *)input)->pattern;

    return pattern ? cli_usage(state,
                               "unexpected argument '%s': for keys that begin with it give "
                               "--prefix %.*s, for a file of this name >%s",
                               pattern, length_before_star(pattern), pattern, pattern)
                   : 0;
}

static int export_all(struct export *export)
{
    export->prefix.length = strlen(export->prefix.text);
    /* On one terminal the items show the progress. */
    progress_init(&export->progress, isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO));
    int status = scan_all(export->cli, "export", write_item, export);
    status = cli_worse(status, export->status);
    progress_clear(&export->progress);
    if (status == CLI_DONE)
        fprintf(stderr, "exported %llu item%s\n", (unsigned long long)export->items,
                cli_s(export->items));
    else
        fprintf(stderr, "okv: export: ended after %llu item%s: not all are written\n",
                (unsigned long long)export->items, cli_s(export->items));
    return status;
}

static const struct okv_option export_options[] = {
    {"prefix", 0, "P", .help = "Only items whose keys begin with P",
     CLI_TEXT(struct export, prefix.text)},
    {"json", 0, NULL,
     .help = "Lines of JSON instead: objects with key, value, version and expires_at_ms",
     CLI_FLAG(struct export, json)},
    {0},
};

int cli_export(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = export_options,
        .most = 1,
        .arguments = {offsetof(struct export, pattern)},
        .unexpected = "unexpected argument '%s': export takes options only",
        .check = check_export,
        .doc = "Write all items, or those with a prefix, to standard output, one KEY TAB VALUE a "
               "line; of an item that "
               "expires KEY TAB VALUE TAB TIME, in ms since 1970.\v"
               "The table is read without the server's CPU, and all of it, also with --prefix. In "
               "keys and values a tab is written "
               "\\t, a newline \\n, a carriage return \\r and a backslash \\\\; `okv import` reads "
               "them back exactly. Versions are not written. An item that is put or deleted "
               "meanwhile may be missing.\n\n"
               "With --json, which import does not read, expires_at_ms is null for an item that "
               "stays, and a key or value that is no UTF-8 is in key_base64 or value_base64.\n\n"
               "Examples:\n  okv export >items.tsv\n  okv export | sort | sha256sum\n"
               "  okv export --prefix user: >users.tsv\n"
               "  okv export --json | jq -r 'select(.expires_at_ms) | .key'"};

    struct export export = {.cli = cli, .prefix = {.text = ""}};

    int status = cli_begin(cli, &parser, argc, argv, &export);
    return status != CLI_DONE ? status : export_all(&export);
}
