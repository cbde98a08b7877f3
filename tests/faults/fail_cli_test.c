/*
 * Fail the n-th of the commands of okv(1): each run is one command, of which one call fails.
 * The command then ends with a documented status: 0 only when it did and printed all, else
 * with a sentence. The table holds what was there or what the command would have put.
 */
#include <fcntl.h>
#include <okv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/faults/inject.h"
#include "tests/faults/plan.h"
#include "tests/faults/runs.h"
#include "tests/faults/serving.h"
#include "tests/support/patient_open.h"

#define ARGUMENTS_MAX 8
#define OUTPUT_MAX 65536

/* client/cli/main.c, compiled with another name for its main(). */
int okv_cli_main(int argc, char **argv);

struct command {
    const char *arguments[ARGUMENTS_MAX];
    const char *input;  /* its standard input */
    const char *prints; /* on standard output when all is well; NULL: anything */
    const char *key;    /* that it changes, to `value`, or removes when that is NULL */
    const char *value;
};

static const struct command commands[] = {
    {.arguments = {"put", "a", "other"}, .prints = "", .key = "a", .value = "other"},
    {.arguments = {"put", "a", "-"},
     .input = "from there",
     .prints = "",
     .key = "a",
     .value = "from there"},
    {.arguments = {"put", "a", "-f", "/dev/stdin"},
     .input = "from a file",
     .prints = "",
     .key = "a",
     .value = "from a file"},
    {.arguments = {"get", "a"}, .prints = "first"},
    {.arguments = {"get", "a", "--json"}},
    {.arguments = {"mget", "a", "b"}, .prints = "a\tfirst\nb\tsecond\n"},
    {.arguments = {"mget", "a", "b", "--json"}},
    {.arguments = {"mget", "-"}, .input = "a\nb\n", .prints = "a\tfirst\nb\tsecond\n"},
    {.arguments = {"exists", "a"}, .prints = ""},
    {.arguments = {"incr", "n", "5"}, .prints = "12\n", .key = "n", .value = "12"},
    {.arguments = {"append", "a", "+"}, .prints = "", .key = "a", .value = "first+"},
    {.arguments = {"touch", "a", "1h"}, .prints = ""},
    {.arguments = {"ttl", "a"}, .prints = "none\n"},
    {.arguments = {"ttl", "a", "--json"}, .prints = "{\"key\":\"a\",\"ttl_ms\":null}\n"},
    {.arguments = {"del", "a", "b"}, .prints = "", .key = "a"},
    {.arguments = {"del", "--prefix", "a"}, .prints = "removed 1 item\n", .key = "a"},
    {.arguments = {"import"},
     .input = "a\tone\nc\ttwo\n",
     .prints = "imported 2 items\n",
     .key = "a",
     .value = "one"},
    {.arguments = {"import", "/dev/stdin"},
     .input = "a\tone\n",
     .prints = "imported 1 item\n",
     .key = "a",
     .value = "one"},
    {.arguments = {"scan", "--prefix", "a"}, .prints = "a\n"},
    {.arguments = {"scan", "--json"}},
    {.arguments = {"export"}},
    {.arguments = {"export", "--prefix", "a"}, .prints = "a\tfirst\n"},
    {.arguments = {"export", "--json"}},
    {.arguments = {"stat"}},
    {.arguments = {"stat", "--json"}},
    {.arguments = {"top", "-n", "2", "-i", "10ms"}},
    {.arguments = {"discover", "--group", SERVING_GROUP}},
    {.arguments = {"discover", "--group", SERVING_GROUP, "--json"}},
    {.arguments = {"keygen"}},
    {.arguments = {"ping", "-c", "2"}},
    {.arguments = {"ping", "-c", "2", "--json"}},
    {.arguments = {"probe", "-n", "2"}},
    {.arguments = {"flush", "--yes"}, .prints = "", .key = "a"},
    {.arguments = {"shell"},
     .input = "exists a\nincr n 5\n",
     .prints = "12\n",
     .key = "n",
     .value = "12"},
};

static char uri[64];

/* ---- the table before and after ---- */

static okv *open_handle(void)
{
    okv *handle = NULL;
    char why[256];

    if (patient_open(uri, NULL, &handle, why, sizeof why))
        complain("cannot open: %s", why);
    return handle;
}

static void fill_table(void)
{
    okv *handle = open_handle();

    if (okv_put(handle, "a", 1, "first", 5, NULL) || okv_put(handle, "b", 1, "second", 6, NULL) ||
        okv_put(handle, "n", 1, "7", 1, NULL))
        complain("the table cannot be filled");
    okv_close(&handle);
}

static bool is_value(const char *value, const char *found, size_t length)
{
    return value && strlen(value) == length && memcmp(value, found, length) == 0;
}

static void check_table(const struct command *command, int status)
{
    okv *handle = open_handle();
    char found[64];
    size_t length = 0;

    if (command->key) {
        const char *old = strcmp(command->key, "n") == 0 ? "7" : "first";
        int rc = okv_get(handle, command->key, 1, found, sizeof found, &length, NULL);
        if (rc && rc != OKV_ENOTFOUND)
            complain("get afterwards: %s", okv_errname(rc));
        bool done = rc ? !command->value : is_value(command->value, found, length);
        if (!done && (status == 0 || rc || !is_value(old, found, length)))
            complain("%s with status %d left %zu bytes under %s", command->arguments[0], status,
                     length, command->key);
    }
    okv_close(&handle);
}

/* ---- one run, in a child ---- */

static int file_of(const char *text)
{
    FILE *file = tmpfile();

    if (!file || fputs(text, file) < 0 || fflush(file))
        complain("no temporary file");
    int fd = dup(fileno(file));
    fclose(file);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

/* Leaves the place in the file alone: the server, too, may be about to write there. */
static void take_output(int fd, char *output)
{
    fflush(stdout);
    ssize_t length = pread(fd, output, OUTPUT_MAX - 1, 0);
    output[length > 0 ? length : 0] = 0;
}

static int run_command(const struct command *command, char *output, char *errors)
{
    char *argv[ARGUMENTS_MAX + 4] = {"okv", "-s", uri};
    int argc = 3, in = file_of(command->input ? command->input : ""), out = file_of(""),
        err = file_of(""), real_out = dup(STDOUT_FILENO), real_err = dup(STDERR_FILENO);

    for (unsigned i = 0; i < ARGUMENTS_MAX && command->arguments[i]; i++)
        argv[argc++] = (char *)command->arguments[i];
    fflush(stdout);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    inject_watch(true);
    int status = okv_cli_main(argc, argv);
    inject_watch(false);
    take_output(out, output);
    take_output(err, errors);
    dup2(real_out, STDOUT_FILENO);
    dup2(real_err, STDERR_FILENO);
    fprintf(stderr, "status %d\n%s%s", status, output, errors);
    close(in);
    close(out);
    close(err);
    close(real_out);
    close(real_err);
    return status;
}

/* What the server, which has the same standard error, said before it. */
static const char *after_server(const char *errors)
{
    const char *end;

    while (strncmp(errors, "okv-server: ", 12) == 0 && (end = strchr(errors, '\n')))
        errors = end + 1;
    return errors;
}

static void check_result(const struct command *command, int status, const char *output,
                         const char *errors)
{
    bool may_miss =
        strcmp(command->arguments[0], "discover") == 0; /* the only socket was at fault */

    if (status != 0 && status != 3 && !(status == 1 && may_miss))
        complain("%s ended with %d", command->arguments[0], status);
    if (status && !atomic_load(&inject->failure.happened))
        complain("%s ended with %d without a failure", command->arguments[0], status);
    if (status && strncmp(after_server(errors), "okv: ", 5) != 0)
        complain("%s ended with %d and says no reason", command->arguments[0], status);
    if (status == 0 && command->prints && strcmp(output, command->prints) != 0)
        complain("%s says that all is well and has not printed it all", command->arguments[0]);
    if (status == 0 && !command->prints && !output[0])
        complain("%s says that all is well and has printed nothing", command->arguments[0]);
}

static void run_one(const void *user)
{
    static char output[OUTPUT_MAX], errors[OUTPUT_MAX];
    const struct command *command = user;
    unsigned before = runs_count_descriptors();

    inject_watch(false);
    inject_be_client();
    serving_start(uri, NULL);
    fill_table();
    int status = run_command(command, output, errors);
    check_result(command, status, output, errors);
    check_table(command, status);
    if (serving_stop())
        complain("the server failed");
    runs_check_descriptors(before);
    exit(0);
}

int main(int argc, char **argv)
{
    bool all = argc > 1 && strcmp(argv[1], "--all") == 0, passed = true;

    all |= getenv("OKV_LONG") != NULL;
    if (argc > 1 && !all) {
        printf("usage: fail_cli_test [--all]\n"
               "Makes calls of each command of okv(1) fail: each site at one of its calls, once in "
               "all\n"
               "commands, or with --all or OKV_LONG=1 every call of every command.\n");
        return strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    snprintf(uri, sizeof uri, "local:///tmp/okv-cli-%d.sock", (int)getpid());
    setvbuf(stdout, NULL, _IOLBF, 0);
    plan_choose_seed();
    inject_init();
    runs_init();
    struct runs runs = {.name = "client", .run = run_one};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        runs.user = &commands[i];
        passed &= plan_clean(&runs);
        runs_accept_descriptors();
        if (all)
            passed &= plan_every_point(&runs, INJECT_CLIENT);
        passed &= plan_every_site(&runs, INJECT_CLIENT, true);
    }
    runs.name = "commands";
    passed &= plan_summarize(&runs, INJECT_CLIENT);
    printf("%s\n", passed ? "passed" : "FAILED");
    return passed ? 0 : 1;
}
