/* okv sessions, okv admin: who is connected to the database, and commands to the server. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <okv_admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/cli.h"

#define ANSWER_MAX 65536
#define COMMAND_MAX 64
#define PAUSE_NS 10000000
#define RELOAD_LOOKS 1000

enum { OPTION_JSON = 0xd00 };

struct admin_arguments {
    struct cli *cli;
    bool json;
    const char *words[2];
    unsigned count;
};

struct session_line {
    uint64_t id;
    char user[32], address[64];
    uint64_t age_ms, requests;
};

static bool read_line(const char *line, struct session_line *out)
{
    return sscanf(line, "%" SCNx64 " %31s %63s %" SCNu64 " %" SCNu64, &out->id, out->user,
                  out->address, &out->age_ms, &out->requests) == 5;
}

static int add_json(json_t *list, const struct session_line *line)
{
    char id[20];

    snprintf(id, sizeof id, "%016" PRIx64, line->id);
    return json_array_append_new(
        list, json_pack("{s:s, s:o, s:s, s:I, s:I}", "session", id, "user",
                        strcmp(line->user, "-") == 0 ? json_null() : json_string(line->user),
                        "address", line->address, "age_ms", (json_int_t)line->age_ms, "requests",
                        (json_int_t)line->requests));
}

/* Prints the sessions of one answer, or adds them to the list. Returns the last id; 0: none came.
 */
static uint64_t take_sessions(char *text, json_t *list)
{
    struct session_line line = {.id = 0};
    char *rest = NULL;

    for (char *at = strtok_r(text, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        if (!read_line(at, &line))
            return 0;
        if (list)
            add_json(list, &line);
        else
            printf("%016" PRIx64 " %-16s %-28s %10.1f %12" PRIu64 "\n", line.id, line.user,
                   line.address, (double)line.age_ms / 1e3, line.requests);
    }
    return line.id;
}

static int list_sessions(struct cli *cli, json_t *list)
{
    static char answer[ANSWER_MAX];
    char command[COMMAND_MAX];
    uint64_t after = 0;
    size_t length;

    do {
        snprintf(command, sizeof command, "sessions %" PRIx64, after);
        int rc = okv_admin(cli->handle, command, answer, sizeof answer, &length);
        if (rc != OKV_OK)
            return cli_fail(cli, "sessions", NULL, 0, rc);
        if (!list && after == 0)
            printf("%-16s %-16s %-28s %10s %12s\n", "SESSION", "USER", "ADDRESS", "AGE/S",
                   "REQUESTS");
        after = take_sessions(answer, list);
    } while (after);
    return CLI_DONE;
}

static error_t parse_sessions(int key, char *text, struct argp_state *state)
{
    struct admin_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case OPTION_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': sessions takes no arguments", text);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cli_sessions(struct cli *cli, int argc, char **argv)
{
    static const struct argp_option sessions_options[] = {
        {"json", OPTION_JSON, NULL, 0, "One JSON array instead of a table", 0},
        {0},
    };
    static const struct argp parser = {
        .options = sessions_options,
        .parser = parse_sessions,
        .doc =
            "List who is connected to the database: session, user, address, age in seconds, "
            "requests (gets do not count). Takes the right admin.\v"
            "Examples:\n  okv sessions\n  okv sessions --json | jq -r '.[].user' | sort | uniq -c",
        .children = cli_common_options};
    struct admin_arguments arguments = {.cli = cli};

    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    int status = cli_connect(cli, 0);
    if (status != CLI_DONE)
        return status;
    json_t *list = arguments.json ? json_array() : NULL;
    status = list_sessions(cli, list);
    if (list && status == CLI_DONE && json_dumpf(list, stdout, JSON_INDENT(2)) == 0)
        putchar('\n');
    json_decref(list);
    return status == CLI_DONE ? cli_output_end("sessions") : status;
}

static int stat_figure(struct cli *cli, const char *name, uint64_t *out)
{
    static char text[ANSWER_MAX];
    size_t length, name_length = strlen(name);
    int rc = okv_stat(cli->handle, text, sizeof text, &length);

    for (const char *at = text; rc == OKV_OK && at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, name_length) == 0 && at[name_length] == ' ') {
            *out = strtoull(at + name_length, NULL, 10);
            return OKV_OK;
        }
        if (*at == '\0')
            break;
    }
    return rc == OKV_OK ? OKV_EUNSUPPORTED : rc;
}

static int read_counters(struct cli *cli, uint64_t *loaded, uint64_t *refused)
{
    int rc = stat_figure(cli, "users_loaded", loaded);

    return rc == OKV_OK ? stat_figure(cli, "users_refused", refused) : rc;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

/* The server does it after it has answered: its counters tell how that came out. */
static int reload_users(struct cli *cli)
{
    uint64_t loaded, refused, loaded_now, refused_now;
    char answer[1];
    size_t length;
    int rc = read_counters(cli, &loaded, &refused);

    if (rc == OKV_OK)
        rc = okv_admin(cli->handle, "reload", answer, sizeof answer, &length);
    for (unsigned i = 0; i < RELOAD_LOOKS; i++) {
        if (rc == OKV_OK)
            rc = read_counters(cli, &loaded_now, &refused_now);
        if (rc == OKV_EUNSUPPORTED)
            return cli_fail_with(cli, "admin reload", NULL, 0, rc,
                                 "the server was started without --users");
        if (rc != OKV_OK)
            return cli_fail(cli, "admin reload", NULL, 0, rc);
        if (refused_now > refused) {
            fprintf(stderr, "okv: admin reload: the users file has a mistake, and nothing was "
                            "changed: see the server's log\n");
            return CLI_FAILED;
        }
        if (loaded_now > loaded)
            return CLI_DONE;
        pause_briefly();
    }
    fprintf(stderr, "okv: admin reload: asked, and no outcome yet: see users_loaded in okv stat\n");
    return CLI_FAILED;
}

/* Asks for one, and then for its path until there is one. */
static int make_snapshot(struct cli *cli)
{
    static char answer[ANSWER_MAX];
    char command[COMMAND_MAX];
    size_t length;
    int rc = okv_admin(cli->handle, "snapshot", answer, sizeof answer, &length);

    if (rc == OKV_EUNSUPPORTED)
        return cli_fail_with(cli, "admin snapshot", NULL, 0, rc,
                             "the server was started without --data");
    snprintf(command, sizeof command, "snapshot %.16s", answer);
    for (length = 0; rc == OKV_OK && length == 0;) {
        rc = okv_admin(cli->handle, command, answer, sizeof answer, &length);
        if (rc == OKV_OK && length == 0)
            pause_briefly();
    }
    if (rc == OKV_ENOTFOUND) {
        fprintf(stderr, "okv: admin snapshot: it failed: see that the disk of --data has room and "
                        "no errors\n");
        return CLI_FAILED;
    }
    if (rc == OKV_ECONFLICT)
        return cli_fail_with(cli, "admin snapshot", NULL, 0, rc,
                             "a later one has replaced it already: ask again");
    if (rc != OKV_OK)
        return cli_fail(cli, "admin snapshot", NULL, 0, rc);
    printf("%s\n", answer);
    return cli_output_end("admin snapshot");
}

static int kill_session(struct cli *cli, const char *id)
{
    char command[COMMAND_MAX], answer[1];
    size_t length;

    snprintf(command, sizeof command, "kill %.32s", id);
    int rc = okv_admin(cli->handle, command, answer, sizeof answer, &length);
    if (rc == OKV_ENOTFOUND) {
        fprintf(stderr, "okv: admin kill: the database has no session %s: see okv sessions\n", id);
        return CLI_MISS;
    }
    return rc == OKV_OK ? CLI_DONE : cli_fail(cli, "admin kill", NULL, 0, rc);
}

static error_t parse_admin(int key, char *text, struct argp_state *state)
{
    struct admin_arguments *arguments = state->input;
    const char *const *words = arguments->words;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case ARGP_KEY_ARG:
        if (arguments->count == 2)
            argp_error(state, "unexpected argument '%s'", text);
        arguments->words[arguments->count++] = text;
        return 0;
    case ARGP_KEY_END:
        if (arguments->count == 1 &&
            (strcmp(words[0], "reload") == 0 || strcmp(words[0], "snapshot") == 0))
            return 0;
        if (arguments->count == 2 && strcmp(words[0], "kill") == 0 && words[1][0] != '\0' &&
            strspn(words[1], "0123456789abcdef") == strlen(words[1]))
            return 0;
        argp_error(state,
                   "give `reload', `snapshot', or `kill SESSION' with an id that okv sessions "
                   "shows");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int cli_admin(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .parser = parse_admin,
        .args_doc = "reload | snapshot | kill SESSION",
        .doc = "Command the server; takes the right admin. reload: read the users file again. "
               "snapshot: write all items of a durable database to a file that replaces its log, "
               "and print its path on the server; clients are served meanwhile. "
               "kill: end a session of the database; its client may come back.\v"
               "Exit status 1 says that there is no such session.\n\n"
               "Examples:\n  okv admin reload\n  okv admin kill 000000000000002a\n"
               "  cp \"$(okv admin snapshot)\" backup",
        .children = cli_common_options};
    struct admin_arguments arguments = {.cli = cli};

    argp_parse(&parser, argc, argv, 0, NULL, &arguments);
    int status = cli_connect(cli, 0);
    if (status != CLI_DONE)
        return status;
    if (arguments.count == 2)
        return kill_session(cli, arguments.words[1]);
    return strcmp(arguments.words[0], "reload") == 0 ? reload_users(cli) : make_snapshot(cli);
}
