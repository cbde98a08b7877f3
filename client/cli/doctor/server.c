#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "client/cli/doctor/checks.h"
#include "client/cli/output.h"
#include "client/cli/stats.h"
#include "shared/base/clock.h"

#define WHAT "server"
#define VALUE "okv doctor"
/* Longer than any MTU, and short enough for one message. */
#define LONG_VALUE_SIZE 8192
/* The item is gone soon if deleting it fails. */
#define TTL_MS 60000

static const char *fix_of(int code)
{
    const char *advice = cli_advice(code);

    switch (code) {
    case OKV_EREFUSED:
        return "see that okv-server listens there and has room: its log says whom it refused";
    case OKV_EADDRESS:
    case OKV_ENODEVICE:
    case OKV_EUNSUPPORTED:
        return "compare the URI with the devices and addresses above";
    case OKV_EPERM:
        return "look at the permissions of the socket or file, over rdma:// at the limit on locked "
               "memory";
    case OKV_EINVAL:
    case OKV_ENOMEM:
    case OKV_EIO:
        return "correct what it names on this host";
    case OKV_ETIMEDOUT:
        return "see that the server's host is up and the server runs, and that firewalls on both "
               "hosts and between them pass its port";
    case OKV_EVERSION:
    case OKV_EPROTO:
        return "use the same release of okv on both hosts";
    case OKV_EURI:
        return "see okv-uri(7)";
    default:
        return advice ? advice : "see the server's log";
    }
}

/* Adds the result of a step. Returns true if it succeeded. */
static bool note(struct doctor_report *report, const struct cli *cli, const char *step, int rc,
                 uint64_t begin_ns)
{
    double us = (double)(okv_clock_ns() - begin_ns) / 1000.0;

    if (rc == OKV_OK) {
        doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s: %.1f us", step, us);
        return true;
    }
    doctor_add(report, DOCTOR_PROBLEM, WHAT, fix_of(rc), "%s: %s: %s", step, okv_errname(rc),
               cli->handle ? okv_why(cli->handle) : okv_strerror(rc));
    return false;
}

static void describe(struct doctor_report *report, const struct cli *cli)
{
    struct okv_info info;

    okv_info(cli->handle, &info);
    doctor_add(report, DOCTOR_OK, WHAT, NULL, "%s over %s%s%s; %s",
               strncmp(cli->server, "okv://", 6) == 0 ? info.uri : cli->server, info.transport,
               info.path[0] ? ": " : "", info.path,
               info.one_sided ? "gets take none of its CPU time" : "its process serves READs");
}

/* Tries messages of full length: a ping and a short value are not. */
static bool put_long(struct doctor_report *report, const struct cli *cli, const char *key)
{
    const struct okv_put_options options = {.flags = OKV_WITH_TTL, .ttl_ms = TTL_MS};
    static const char value[LONG_VALUE_SIZE];
    char back[LONG_VALUE_SIZE];
    size_t length = 0;
    uint64_t begin = okv_clock_ns();
    int rc = okv_put_with(cli->handle, key, strlen(key), value, sizeof value, &options, NULL);

    if (rc == OKV_OK)
        rc = okv_get(cli->handle, key, strlen(key), back, sizeof back, &length, NULL);
    if (note(report, cli, "put and get of 8 KiB", rc, begin))
        return true;
    doctor_add(report, DOCTOR_PROBLEM, WHAT,
               "compare 'okv doctor' on both hosts, and the MTU of the switches between them",
               "short messages arrive and long ones do not: the MTU is not the same all the way");
    return false;
}

static bool is_value(struct doctor_report *report, const char *value, size_t length)
{
    if (length == sizeof VALUE - 1 && memcmp(value, VALUE, length) == 0)
        return true;
    doctor_add(report, DOCTOR_PROBLEM, WHAT, "report it", "the value is not what was put");
    return false;
}

/* By a READ and by a request: one may work where the other does not. */
static bool get_back(struct doctor_report *report, const struct cli *cli, const char *key)
{
    char value[sizeof VALUE];
    size_t length = 0;
    struct okv_info info;

    okv_info(cli->handle, &info);
    uint64_t begin = okv_clock_ns();
    int rc = okv_get(cli->handle, key, strlen(key), value, sizeof value, &length, NULL);
    if (!note(report, cli, info.one_sided ? "get by one-sided READ" : "get by READ", rc, begin) ||
        !is_value(report, value, length))
        return false;
    begin = okv_clock_ns();
    rc = okv_get_touch(cli->handle, key, strlen(key), TTL_MS, value, sizeof value, &length, NULL);
    return note(report, cli, "get by request", rc, begin) && is_value(report, value, length);
}

void doctor_draw_key(char out[DOCTOR_KEY_SIZE])
{
    uint64_t random = 0;

    if (getrandom(&random, sizeof random, 0) != sizeof random)
        random = okv_clock_ns();
    snprintf(out, DOCTOR_KEY_SIZE, "okv-doctor:%016" PRIx64, random);
}

static void exercise(struct doctor_report *report, const struct cli *cli)
{
    const struct okv_put_options options = {.flags = OKV_WITH_TTL, .ttl_ms = TTL_MS};
    char key[DOCTOR_KEY_SIZE];

    doctor_draw_key(key);
    uint64_t begin = okv_clock_ns();
    if (!note(report, cli, "ping", okv_ping(cli->handle), begin))
        return;
    begin = okv_clock_ns();
    int rc = okv_put_with(cli->handle, key, strlen(key), VALUE, sizeof VALUE - 1, &options, NULL);
    if (!note(report, cli, "put", rc, begin))
        return;
    if (get_back(report, cli, key) && put_long(report, cli, key)) {
        begin = okv_clock_ns();
        note(report, cli, "delete", okv_delete(cli->handle, key, strlen(key)), begin);
    }
}

/* A full server serves gets and small puts, so that the steps above go well. */
static void look_for_room(struct doctor_report *report, const struct cli *cli)
{
    uint64_t refused = 0;
    char *text = NULL;

    if (cli_fetch_stat(cli->handle, NULL, &text) != OKV_OK)
        return; /* a user without the right to read it */
    if (cli_stat_number(text, "puts_refused", 10, &refused) && refused > 0)
        doctor_add(report, DOCTOR_NOTE, WHAT,
                   "delete items, give items a time to live, or start okv-server with a larger "
                   "--memory",
                   "%" PRIu64 " puts were refused since its start: no room, or a value too large",
                   refused);
    free(text);
}

void doctor_check_server(struct doctor_report *report, struct cli *cli)
{
    uint64_t begin = okv_clock_ns();
    char why[CLI_WHY_TEXT];

    cli->is_own = true; /* connecting is a step, too */
    int rc = cli_open(cli, 0, why, sizeof why);
    if (rc != OKV_OK) {
        bool is_unnamed = rc == OKV_EDENIED && !cli->user;
        doctor_add(report, DOCTOR_PROBLEM, WHAT,
                   is_unnamed ? "give --user and --key-file, or set OKV_USER and OKV_KEY_FILE"
                              : fix_of(rc),
                   "no connection: %s", why);
        return;
    }
    okv_counters(cli->handle, &cli->before);
    note(report, cli, "connect", OKV_OK, begin);
    describe(report, cli);
    exercise(report, cli);
    look_for_room(report, cli);
}
