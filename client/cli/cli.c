#include "client/cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shared/base/default_uri.h"
#include "shared/base/duration.h"

/* Long enough to recognise a key, short enough for one line. */
#define SHOWN_KEY_BYTES 64
/* A day: longer waits are a mistake in the number. */
#define TIMEOUT_MS_MAX 86400000u

enum { OPTION_COUNTERS = 0x100, OPTION_DATABASE, OPTION_USER, OPTION_KEY_FILE };

static const struct argp_option common_options[] = {
    {"server", 's', "URI", 0,
     "The server: rdma://HOST[:PORT][?source=ADDRESS], "
     "rdma://discover/NAME[?group=GROUP][&source=ADDRESS], "
     "ofi://HOST[:PORT][?provider=NAME][&source=ADDRESS] or local:///PATH",
     0},
    {"database", OPTION_DATABASE, "NAME", 0, "The database, for a URI without ?database=NAME", 0},
    {"user", OPTION_USER, "NAME", 0, "Who asks, for a server with users", 0},
    {"key-file", OPTION_KEY_FILE, "FILE", 0,
     "The file with the user's key, which `okv keygen' made", 0},
    {"timeout", 't', "TIME", 0, "Give up connecting, or an operation, after TIME, as 500ms or 10s",
     0},
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0}, /* as -? */
    {"counters", OPTION_COUNTERS, NULL, 0, "At the end, print the client's counters on stderr", 0},
    {0},
};

static error_t parse_common(int key, char *text, struct argp_state *state)
{
    struct cli *cli = state->input;

    switch (key) {
    case 's':
        cli->server = text;
        cli->server_named = true;
        return 0;
    case OPTION_DATABASE:
        if (strlen(text) >= sizeof((struct okv_options *)0)->database)
            argp_error(state, "--database %s: a name has at most 31 characters", text);
        cli->database = text;
        return 0;
    case OPTION_USER:
        cli->user = text;
        return 0;
    case OPTION_KEY_FILE:
        cli->key_file = text;
        return 0;
    case 't':
        cli->timeout_ms = cli_timeout(state, "--timeout", text);
        return 0;
    case 'h':
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return 0;
    case OPTION_COUNTERS:
        cli->counters = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp common_parser = {.options = common_options, .parser = parse_common};

const struct argp_child cli_common_options[] = {
    {&common_parser, 0, "Options of every command:", 1},
    {0},
};

void cli_parse_child(int key, struct argp_state *state, struct cli *cli)
{
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = cli;
}

/* NULL when the variable is empty, too. */
static const char *environment(const char *name)
{
    const char *text = getenv(name);

    return text && text[0] != '\0' ? text : NULL;
}

void cli_server_default(struct cli *cli)
{
    const char *named = environment("OKV_SERVER");

    cli->database = environment("OKV_DATABASE");
    cli->user = environment("OKV_USER");
    cli->key_file = environment("OKV_KEY_FILE");
    if (named) {
        cli->server = named;
        cli->server_named = true;
        return;
    }
    okv_default_uri(cli->well_known, sizeof cli->well_known);
    cli->server = cli->well_known;
    cli->server_named = false;
}

int cli_connect(struct cli *cli, uint32_t depth)
{
    struct okv_options options = {.connect_timeout_ms = cli->timeout_ms,
                                  .timeout_ms = cli->timeout_ms,
                                  .depth = depth,
                                  .user = cli->user,
                                  .key_file = cli->key_file};
    char why[512] = "";

    if (cli->database)
        snprintf(options.database, sizeof options.database, "%s", cli->database);

    int rc = okv_open(cli->server, &options, &cli->handle, why, sizeof why);
    if (rc == OKV_OK)
        return CLI_DONE;
    fprintf(stderr, "okv: cannot reach %s: %s%s\n", cli->server,
            why[0] != '\0' ? why : okv_strerror(rc),
            cli->server_named ? "" : "; for another server give -s URI or set OKV_SERVER");
    return rc == OKV_EURI || rc == OKV_EINVAL ? CLI_USAGE : CLI_FAILED;
}

static void print_counters(const okv *handle)
{
    struct okv_counters counters;

    okv_counters(handle, &counters);
#define PRINT_COUNTER(name, text) \
    fprintf(stderr, "%s %llu\n", #name, (unsigned long long)counters.name);
    OKV_COUNTER_LIST(PRINT_COUNTER)
#undef PRINT_COUNTER
}

void cli_disconnect(struct cli *cli)
{
    if (cli->counters && cli->handle)
        print_counters(cli->handle);
    okv_close(&cli->handle);
}

const char *cli_advice(int code)
{
    switch (code) {
    case OKV_EDENIED:
        return "ask the server's operator for the right in its users file";
    case OKV_EVALUESIZE:
        return "see connection_max_value in `okv stat`, or split it";
    case OKV_ECONFLICT:
        return "see `okv exists -v KEY` for the version that is there, and decide again";
    case OKV_EEXISTS:
        return "leave out --if-absent to replace it";
    case OKV_ENUMBER:
        return "look at it with `okv get`, or put a number there first";
    case OKV_EOVERFLOW:
        return "the value is as it was: add less, or put a smaller number there first";
    case OKV_ERENDEZVOUS:
        return "see that the connection is sound, then repeat the command";
    case OKV_EFULL:
        return "delete something, or start okv-server with a larger --memory";
    case OKV_EBUCKETFULL:
        return "choose another key, or delete the keys that somebody made to share its bucket";
    case OKV_EREADONLY:
        return "see what the server's disk says, then start the server again";
    case OKV_EDISKFULL:
        return "make room on the disk of the server's --data, then repeat the command";
    case OKV_ETIMEDOUT:
        return "see that the server runs, or give it longer with -t MS";
    case OKV_EUNKNOWN:
        return "look at the key, then repeat the command if it is needed";
    case OKV_EDISCONNECTED:
    case OKV_ESHUTDOWN:
        return "see that the server runs, then repeat the command";
    case OKV_ECORRUPT:
        return "repeat the command; if it stays, the server's memory or the device is at fault";
    default:
        return NULL;
    }
}

/* Writes the key so that it cannot garble a terminal. */
static void print_key(FILE *out, const unsigned char *key, size_t length)
{
    size_t shown = length > SHOWN_KEY_BYTES ? SHOWN_KEY_BYTES : length;

    fputs(" '", out);
    for (size_t i = 0; i < shown; i++) {
        if (key[i] < 0x20 || key[i] == 0x7f)
            fprintf(out, "\\x%02x", key[i]);
        else
            putc(key[i], out);
    }
    fputs(shown < length ? "…'" : "'", out);
}

int cli_fail(const struct cli *cli, const char *command, const void *key, size_t key_length,
             int code)
{
    return cli_fail_with(cli, command, key, key_length, code, cli_advice(code));
}

/* A condition that was not met is an answer, as a miss is. */
static bool is_answer(int code)
{
    return code == OKV_ENOTFOUND || code == OKV_ECONFLICT || code == OKV_EEXISTS;
}

int cli_fail_with(const struct cli *cli, const char *command, const void *key, size_t key_length,
                  int code, const char *advice)
{
    /* An answer may come with the end of its connection, which is not what went wrong. */
    bool has_why = cli_connection_failed(code) || code == OKV_EINVAL;
    const char *why = cli->handle && has_why ? okv_why(cli->handle) : "";

    fprintf(stderr, "okv: %s", command);
    if (key)
        print_key(stderr, key, key_length);
    /* Why the connection ended says less than that a write may have happened. */
    if (code == OKV_EUNKNOWN && why[0] != '\0')
        fprintf(stderr, ": %s (%s)", okv_strerror(code), why);
    else
        fprintf(stderr, ": %s", why[0] != '\0' ? why : okv_strerror(code));
    fprintf(stderr, "%s%s\n", advice ? ": " : "", advice ? advice : "");
    return is_answer(code) ? CLI_MISS : CLI_FAILED;
}

int cli_worse(int status, int other)
{
    return status > other ? status : other;
}

bool cli_connection_failed(int code)
{
    switch (code) {
    case OKV_ETIMEDOUT:
    case OKV_EUNKNOWN:
    case OKV_EDISCONNECTED:
    case OKV_ESHUTDOWN:
    case OKV_EPROTO:
    case OKV_EVERSION:
    case OKV_EUNSUPPORTED:
        return true;
    default:
        return false;
    }
}

void cli_pause(uint32_t ms)
{
    const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
}

int cli_output_end(const char *command)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CLI_DONE;
    fprintf(stderr, "okv: %s: cannot write the output: %s\n", command, strerror(errno));
    return CLI_FAILED;
}

uint64_t cli_number(struct argp_state *state, const char *option, const char *text, uint64_t low,
                    uint64_t high)
{
    char *end = NULL;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || number < low ||
        number > high)
        argp_error(state, "%s '%s': give a whole number from %llu to %llu", option, text,
                   (unsigned long long)low, (unsigned long long)high);
    return number;
}

int64_t cli_signed_number(struct argp_state *state, const char *option, const char *text)
{
    const char *digits = text[0] == '-' ? text + 1 : text;
    char *end = NULL;

    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || digits[0] < '0' || digits[0] > '9' || *end != '\0')
        argp_error(state, "%s '%s': give a whole number from %lld to %lld", option, text,
                   (long long)INT64_MIN, (long long)INT64_MAX);
    return number;
}

void cli_fail_escape(const char *command, uint64_t line)
{
    fprintf(stderr,
            "okv: %s: line %llu: a key with an unknown escape: write a backslash that is data "
            "as \\\\\n",
            command, (unsigned long long)line);
}

uint32_t cli_timeout(struct argp_state *state, const char *option, const char *text)
{
    uint64_t ms = 0;

    if (okv_duration_parse(text, &ms) || ms < 1 || ms > TIMEOUT_MS_MAX)
        argp_error(state,
                   "%s '%s': give a time from 1ms to 24h with its unit, such as 500ms or 10s",
                   option, text);
    return (uint32_t)ms;
}

int64_t cli_ttl(struct argp_state *state, const char *option, const char *text)
{
    uint64_t ms = 0;

    if (okv_duration_parse(text, &ms) || ms < 1 || ms > (uint64_t)OKV_TTL_MAX_MS)
        argp_error(state,
                   "%s '%s': give a time from 1ms to %llud, such as 500ms, 60s, 5m, 2h "
                   "or 7d, or %s",
                   option, text, (unsigned long long)OKV_TTL_MAX_MS / 86400000,
                   option[0] == '-' ? "leave it out for an item that stays"
                                    : "none for an item that stays");
    return (int64_t)ms;
}

const char *cli_ttl_text(int64_t ttl_ms, char text[CLI_TTL_TEXT])
{
    if (ttl_ms == OKV_TTL_NONE)
        return "none";
    snprintf(text, CLI_TTL_TEXT, "%lld", (long long)ttl_ms);
    return text;
}

bool cli_uri_names_database(const struct cli *cli, const char *command)
{
    if (!strstr(cli->server, "?database=") && !strstr(cli->server, "&database="))
        return false;
    fprintf(stderr, "okv: %s: leave the database out of the URI; --database names the one to ask\n",
            command);
    return true;
}

const char *cli_short_number(double number, char text[16])
{
    static const char units[] = " kMGTP";
    size_t unit = 0;

    while (number >= 1000 && units[unit + 1]) {
        number /= 1000;
        unit++;
    }
    int digits = unit == 0 || number >= 100 ? 0 : number >= 10 ? 1 : 2;
    snprintf(text, 16, "%.*f%.*s", digits, number, unit > 0, &units[unit]);
    return text;
}

static int compare_samples(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

void cli_samples_sort(uint64_t *samples, size_t count)
{
    qsort(samples, count, sizeof *samples, compare_samples);
}

uint64_t cli_percentile(const uint64_t *samples, size_t count, double percent)
{
    size_t rank = (size_t)((double)count * percent / 100.0);
    return samples[rank < count ? rank : count - 1];
}
