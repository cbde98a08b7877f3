/* okv admin: commands to the server. */
#include <okv_admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/output.h"
#include "client/cli/stats.h"

#define ANSWER_MAX 65536
#define COMMAND_MAX 64
#define NUMBER_MAX 16 /* digits of the number of a snapshot */
#define PAUSE_MS 10
#define RELOAD_LOOKS 1000
/* A snapshot of a large database takes hours, and one that is never made a day. */
#define SNAPSHOT_MS (24u * 3600u * 1000u)
#define SNAPSHOT_PAUSE_MS 1000u

struct admin_arguments {
    struct cli *cli;
    const char *word, *session;
};

static int fail_without(const char *word, const char *option)
{
    fprintf(stderr, "okv: admin %s: the server was started without %s\n", word, option);
    return CLI_FAILED;
}

static int read_counters(struct cli *cli, uint64_t *loaded, uint64_t *refused)
{
    char *text = NULL;
    int rc = cli_fetch_stat(cli->handle, NULL, &text);

    if (rc == OKV_OK && (!cli_stat_number(text, "users_loaded", 10, loaded) ||
                         !cli_stat_number(text, "users_refused", 10, refused)))
        rc = OKV_EUNSUPPORTED;
    free(text);
    return rc;
}

/* The server reloads after its answer: its counters show the outcome. */
static int reload_users(struct cli *cli)
{
    uint64_t loaded, refused, loaded_now, refused_now;
    char answer[1];
    size_t length;
    int rc = read_counters(cli, &loaded, &refused);

    /* Without the right admin no counters are there, and the request is denied. */
    if (rc == OKV_OK || rc == OKV_EUNSUPPORTED)
        rc = okv_admin(cli->handle, "reload", answer, sizeof answer, &length);
    if (rc == OKV_EUNSUPPORTED)
        return fail_without("reload", "--users");
    for (unsigned i = 0; i < RELOAD_LOOKS && !cli_interrupted(); i++) {
        if (rc == OKV_OK)
            rc = read_counters(cli, &loaded_now, &refused_now);
        if (rc == OKV_EUNSUPPORTED) /* the new file takes the right admin away */
            return CLI_DONE;
        if (rc != OKV_OK)
            return cli_fail(cli, "admin reload", NULL, 0, rc);
        if (refused_now > refused) {
            fprintf(stderr, "okv: admin reload: the users file has a mistake, and nothing was "
                            "changed: see the server's log\n");
            return CLI_FAILED;
        }
        if (loaded_now > loaded)
            return CLI_DONE;
        cli_pause(PAUSE_MS);
    }
    fprintf(stderr, "okv: admin reload: asked, and no outcome yet: see users_loaded in okv stat\n");
    return CLI_FAILED;
}

/* Requests a snapshot. `command` asks for its path. */
static int request_snapshot(struct cli *cli, char *answer, char command[COMMAND_MAX])
{
    size_t length;
    int rc = okv_admin(cli->handle, "snapshot", answer, ANSWER_MAX, &length);

    if (rc != OKV_OK)
        return rc;
    if (length == 0 || length > NUMBER_MAX || strspn(answer, "0123456789abcdef") != length)
        return OKV_EPROTO;
    snprintf(command, COMMAND_MAX, "snapshot %.*s", NUMBER_MAX, answer);
    return OKV_OK;
}

/* Nothing is the answer as long as the snapshot is being made. *length 0, without a failure: it was
 * interrupted, or it took too long. */
static int await_snapshot(struct cli *cli, const char *command, char *answer, size_t *length)
{
    uint32_t pause_ms = PAUSE_MS, waited_ms = 0;

    for (;;) {
        int rc = okv_admin(cli->handle, command, answer, ANSWER_MAX, length);
        if (rc != OKV_OK || *length > 0 || waited_ms >= SNAPSHOT_MS || !cli_pause(pause_ms))
            return rc;
        waited_ms += pause_ms;
        pause_ms = 2 * pause_ms < SNAPSHOT_PAUSE_MS ? 2 * pause_ms : SNAPSHOT_PAUSE_MS;
    }
}

static int fail_snapshot(struct cli *cli, int rc)
{
    if (rc == OKV_EUNSUPPORTED)
        return fail_without("snapshot", "--data");
    if (rc == OKV_ECONFLICT)
        return cli_fail_with(cli, "admin snapshot", NULL, 0, rc,
                             "a later one has replaced it already: ask again");
    if (rc != OKV_ENOTFOUND)
        return cli_fail(cli, "admin snapshot", NULL, 0, rc);
    fprintf(stderr, "okv: admin snapshot: it failed: see that the disk of --data has room and no "
                    "errors\n");
    return CLI_FAILED;
}

static int make_snapshot(struct cli *cli)
{
    static char answer[ANSWER_MAX];
    char command[COMMAND_MAX];
    size_t length = 0;
    int rc = request_snapshot(cli, answer, command);

    cli_interrupt_catch(true);
    if (rc == OKV_OK)
        rc = await_snapshot(cli, command, answer, &length);
    if (rc != OKV_OK)
        return fail_snapshot(cli, rc);
    if (length == 0) {
        fprintf(stderr, cli_interrupted()
                            ? "okv: admin snapshot: interrupted: the server goes on with it\n"
                            : "okv: admin snapshot: asked, and the server has not made it in a "
                              "day: see its log\n");
        return CLI_FAILED;
    }
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
        fprintf(stderr, "okv: admin kill: the database has no session %s: see okv clients\n", id);
        return CLI_MISS;
    }
    return rc == OKV_OK ? CLI_DONE : cli_fail(cli, "admin kill", NULL, 0, rc);
}

static error_t check_admin(struct argp_state *state, void *input)
{
    const struct admin_arguments *arguments = input;
    const char *word = arguments->word, *session = arguments->session;

    if (word && !session && (strcmp(word, "reload") == 0 || strcmp(word, "snapshot") == 0))
        return 0;
    if (session && strcmp(word, "kill") == 0 && session[0] != '\0' &&
        strspn(session, "0123456789abcdef") == strlen(session))
        return 0;
    return cli_usage(state,
                     "give `reload', `snapshot', or `kill SESSION' with an id that okv clients "
                     "shows");
}

int cli_admin(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .most = 2,
        .arguments = {offsetof(struct admin_arguments, word),
                      offsetof(struct admin_arguments, session)},
        .unexpected = "unexpected argument '%s'",
        .check = check_admin,
        .args_doc = "reload | snapshot | kill SESSION",
        .doc = "Command the server; takes the right admin. reload: read the users file again. "
               "snapshot: write all items of a durable database to a file that replaces its log, "
               "and print its path on the server; clients are served meanwhile. "
               "kill: end a session of the database; its client may come back.\v"
               "Exit status 1 says that there is no such session.\n\n"
               "Examples:\n  okv admin reload\n  okv admin kill 000000000000002a\n"
               "  cp \"$(okv admin snapshot)\" backup"};
    struct admin_arguments arguments = {.cli = cli};

    cli->may_observe = true;
    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    if (arguments.session)
        return kill_session(cli, arguments.session);
    return strcmp(arguments.word, "reload") == 0 ? reload_users(cli) : make_snapshot(cli);
}
