/*
 * Fail the n-th: one call of the client or of the server fails, once, and each run does it
 * to another call. Afterwards the results were such as the manual allows, the table is
 * sound and holds what was acknowledged, and nothing has leaked.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/faults/inject.h"
#include "tests/faults/plan.h"
#include "tests/faults/program.h"
#include "tests/faults/runs.h"
#include "tests/faults/scenario.h"
#include "tests/faults/serving.h"

#define CANNOT_SERVE 3

struct settings {
    const char *uri;    /* clients connect to it */
    const char *listen; /* and the server listens there */
    bool all;
    bool verbose;
    int only_side; /* -1: both */
    uint64_t only; /* the one point to fail; 0: those of the form */
};

/* ---- one run, in a child ---- */

static bool is_local(const char *uri)
{
    return strncmp(uri, "local://", strlen("local://")) == 0;
}

/* Leaves what a killed server leaves, for the next to remove. Returns the file's number. */
static ino_t leave_socket(const char *uri)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    struct stat file = {.st_ino = 0};

    if (!is_local(uri))
        goto close_socket;
    snprintf(address.sun_path, sizeof address.sun_path, "%s", uri + strlen("local://"));
    remove(address.sun_path);
    if (bind(sock, (const struct sockaddr *)&address, sizeof address) ||
        stat(address.sun_path, &file))
        complain("cannot make %s", address.sun_path);
close_socket:
    close(sock);
    return file.st_ino;
}

/* A server leaves nothing in the file system, unless it was not allowed to remove it or has
 * not come to that: `old` is what leave_socket() made. */
static void check_path(const char *uri, int status, ino_t old)
{
    const char *function = inject->failure.function;
    const char *path = uri + strlen("local://");
    struct stat file;

    if (!is_local(uri) || stat(path, &file) != 0)
        return;
    remove(path);
    if (status && file.st_ino == old)
        return;
    if (!function || (strcmp(function, "unlink") != 0 && strcmp(function, "lstat") != 0))
        complain("the server left its socket behind");
}

/* A server and its clients; ends the process. */
static void run_both(const void *user)
{
    const struct settings *settings = user;
    static struct model model;
    unsigned before = runs_count_descriptors();

    inject_watch(false);
    inject_be_client();
    model_init(&model);
    ino_t old = leave_socket(settings->listen);
    serving_start(settings->listen, &model);
    if (!serving_has_ended())
        scenario_run(settings->uri, &model);
    if (!serving_has_ended())
        scenario_verify(settings->uri, &model);
    int status = serving_stop();
    if (status != 0 && status != CANNOT_SERVE)
        complain("the server's exit status is %d", status);
    if (status && !atomic_load(&inject->failure.happened))
        complain("the server ended with %d without a failure", status);
    check_path(settings->listen, status, old);
    runs_check_descriptors(before);
    exit(0);
}

/* ---- choosing what fails ---- */

static const char *const side_names[] = {"client", "server"};

static bool is_chosen(const struct settings *settings, enum inject_side side)
{
    return settings->only_side < 0 || settings->only_side == (int)side;
}

static bool fail_side(const struct settings *settings, enum inject_side side)
{
    struct runs runs = {
        .verbose = settings->verbose, .name = side_names[side], .run = run_both, .user = settings};
    bool passed = true;

    if (settings->all)
        passed = plan_every_point(&runs, side);
    passed &= plan_every_site(&runs, side, settings->all);
    return plan_summarize(&runs, side) && passed;
}

/* ---- the program ---- */

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: fail_nth_test [--all] [--side client|server] [--nth N] [--verbose] [--sites]\n"
        "\n"
        "Makes calls of okv fail, one in each run. By default each call site once in each of its\n"
        "ways to fail, at a random one of its calls (OKV_TEST_SEED); with --all every call.\n"
        "--nth N: the N-th alone. --sites prints all sites at the end. OKV_LONG=1 is --all.\n"
        "OKV_TEST_LISTEN and OKV_TEST_URI say where; default: a fresh local:// socket.\n");
}

static void parse(int argc, char **argv, struct settings *settings, bool *sites)
{
    static const struct option options[] = {
        {"all", no_argument, NULL, 'a'},
        {"side", required_argument, NULL, 's'},
        {"nth", required_argument, NULL, 'n'},
        {"verbose", no_argument, NULL, 'v'},
        {"sites", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'a':
            settings->all = true;
            break;
        case 's':
            settings->only_side = strcmp(optarg, "server") == 0;
            break;
        case 'n':
            settings->only = strtoull(optarg, NULL, 10);
            break;
        case 'v':
            settings->verbose = true;
            break;
        case 'l':
            *sites = true;
            break;
        default:
            usage(option == 'h' ? stdout : stderr);
            exit(option == 'h' ? 0 : 2);
        }
    }
}

int main(int argc, char **argv)
{
    char fresh[64];
    bool sites = false, passed;
    struct settings settings = {.only_side = -1, .all = getenv("OKV_LONG") != NULL};

    parse(argc, argv, &settings, &sites);
    snprintf(fresh, sizeof fresh, "local:///tmp/okv-nth-%d.sock", (int)getpid());
    settings.uri = getenv("OKV_TEST_URI") ? getenv("OKV_TEST_URI") : fresh;
    settings.listen = getenv("OKV_TEST_LISTEN") ? getenv("OKV_TEST_LISTEN") : settings.uri;
    setvbuf(stdout, NULL, _IOLBF, 0);
    plan_choose_seed();
    inject_init();
    runs_init();
    struct runs clean = {.verbose = true, .name = "clean", .run = run_both, .user = &settings};
    passed = plan_clean(&clean);
    runs_accept_descriptors();
    for (enum inject_side side = 0; passed && settings.only && side < INJECT_SIDES; side++) {
        struct runs runs = {
            .verbose = true, .name = side_names[side], .run = run_both, .user = &settings};
        const struct inject_plan plan = {.side = side, .nth = settings.only};
        if (is_chosen(&settings, side))
            passed &= runs_do(&runs, &plan);
    }
    if (passed && !settings.only) {
        for (enum inject_side side = 0; side < INJECT_SIDES; side++)
            passed &= !is_chosen(&settings, side) || fail_side(&settings, side);
    }
    if (sites)
        program_print_sites();
    printf("%s\n", passed ? "passed" : "FAILED");
    return passed ? 0 : 1;
}
