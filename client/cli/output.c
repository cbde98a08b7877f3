#include "client/cli/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/printable.h"

/* Long enough to recognise a key, short enough for one line. */
#define SHOWN_KEY_BYTES 64

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
        return "delete items, give items a time to live, or start okv-server with a larger "
               "--memory";
    case OKV_EBUCKETFULL:
        return "choose another key, or delete the keys that somebody made to share its bucket";
    case OKV_EREADONLY:
        return "see what the server's disk says, then start the server again";
    case OKV_EDISKFULL:
        return "make room on the disk of the server's --data, then repeat the command";
    case OKV_EFEWCOPIES:
        return "see okv cluster status, and start the servers that are missing";
    case OKV_ETIMEDOUT:
        return "see that the server runs, or give it longer with -t TIME";
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

/* In one line, also in a file. */
static void print_key(FILE *out, const void *key, size_t length)
{
    char text[OKV_PRINTABLE_MAX * SHOWN_KEY_BYTES];
    size_t shown = length > SHOWN_KEY_BYTES ? SHOWN_KEY_BYTES : length;

    fprintf(out, " '%.*s%s'", (int)okv_printable_copy(key, shown, false, text), text,
            shown < length ? "…" : "");
}

int cli_fail(const struct cli *cli, const char *command, const void *key, size_t key_length,
             int code)
{
    return cli_fail_with(cli, command, key, key_length, code, cli_advice(code));
}

int cli_fail_line(const struct cli *cli, const char *command, uint64_t line, const void *key,
                  size_t key_length, int code)
{
    char where[64];

    if (line == 0)
        return cli_fail(cli, command, key, key_length, code);
    snprintf(where, sizeof where, "%s: line %llu", command, (unsigned long long)line);
    return cli_fail(cli, where, key, key_length, code);
}

/* A condition that was not met is an answer, like a miss. */
static bool is_answer(int code)
{
    return code == OKV_ENOTFOUND || code == OKV_ECONFLICT || code == OKV_EEXISTS;
}

int cli_fail_with(const struct cli *cli, const char *command, const void *key, size_t key_length,
                  int code, const char *advice)
{
    /* An answer may come with the end of its connection, which is not the cause. */
    bool has_why = cli_connection_failed(code) || code == OKV_EINVAL || code == OKV_EDENIED;
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

int cli_output_end(const char *command)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return CLI_DONE;
    fprintf(stderr, "okv: %s: cannot write the output: %s\n", command, strerror(errno));
    return CLI_FAILED;
}

void cli_fail_escape(const char *command, uint64_t line)
{
    fprintf(stderr,
            "okv: %s: line %llu: a key with an unknown escape: write a backslash that is data "
            "as \\\\\n",
            command, (unsigned long long)line);
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

bool cli_confirm(const char *question)
{
    char *answer = NULL;
    size_t size = 0;

    fprintf(stderr, "%s [y/N] ", question);
    bool answered = getline(&answer, &size, stdin) > 0;
    bool yes = answered && (answer[0] == 'y' || answer[0] == 'Y');
    if (!answered)
        putc('\n', stderr);
    free(answer);
    return yes;
}
