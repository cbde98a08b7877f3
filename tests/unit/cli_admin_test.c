/* How long okv(1) asks for a snapshot that a server never makes. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "client/cli/args.h"
#include "client/cli/output.h"
#include "client/cli/run.h"
#include "client/cli/stats.h"
#include "client/include/okv_admin.h"

#define DAY_MS (24u * 3600u * 1000u)

/* The server: what it answers, and what it was asked. */
static struct {
    const char *number, *path;
    unsigned looks_before_path; /* answered with nothing */
    unsigned looks;
    uint64_t paused_ms;
    bool is_interrupted; /* at the first pause */
    int code;            /* that the command failed with */
} server;

/* ---- the library and the rest of okv(1) ---- */

int okv_admin(okv *handle, const char *command, char *buffer, size_t size, size_t *length)
{
    const char *answer = server.number;

    (void)handle;
    if (strcmp(command, "snapshot") != 0) {
        assert_int_equal(strncmp(command, "snapshot ", 9), 0);
        assert_string_equal(command + 9, server.number);
        answer = server.looks++ < server.looks_before_path ? "" : server.path;
    }
    *length = strlen(answer);
    assert_true(*length < size);
    memcpy(buffer, answer, *length + 1);
    return OKV_OK;
}

int cli_begin(struct cli *cli, const struct cli_parser *parser, int argc, char **argv, void *input)
{
    (void)cli, (void)argc, (void)argv;
    *(const char **)(void *)((char *)input + parser->arguments[0]) = "snapshot";
    return CLI_DONE;
}

bool cli_pause(uint32_t ms)
{
    server.paused_ms += ms;
    return !server.is_interrupted;
}

void cli_interrupt_catch(bool once)
{
    (void)once;
}

bool cli_interrupted(void)
{
    return server.is_interrupted;
}

int cli_fail(const struct cli *cli, const char *command, const void *key, size_t key_length,
             int code)
{
    (void)cli, (void)command, (void)key, (void)key_length;
    server.code = code;
    return CLI_FAILED;
}

int cli_fail_with(const struct cli *cli, const char *command, const void *key, size_t key_length,
                  int code, const char *advice)
{
    (void)advice;
    return cli_fail(cli, command, key, key_length, code);
}

int cli_output_end(const char *command)
{
    (void)command;
    return CLI_DONE;
}

int cli_fetch_stat(okv *handle, const char *command, char **text)
{
    (void)handle, (void)command, (void)text;
    return OKV_EUNSUPPORTED;
}

bool cli_stat_number(const char *text, const char *name, int base, uint64_t *number)
{
    (void)text, (void)name, (void)base, (void)number;
    return false;
}

/* ---- */

static int run(void)
{
    char name[] = "okv admin", word[] = "snapshot";
    char *argv[] = {name, word, NULL};
    struct cli cli = {.handle = (okv *)&cli};

    return cli_admin(&cli, 2, argv);
}

static int setup(void **state)
{
    (void)state;
    memset(&server, 0, sizeof server);
    server.number = "2a";
    server.path = "/data/default/snapshot.42";
    return 0;
}

TEST_WITH(a_path_ends_the_wait, setup, NULL)
{
    server.looks_before_path = 20;
    assert_int_equal(run(), CLI_DONE);
    assert_int_equal(server.looks, 21);
}

TEST_WITH(a_snapshot_that_is_never_made_is_left, setup, NULL)
{
    server.path = "";
    assert_int_equal(run(), CLI_FAILED);
    assert_in_range(server.paused_ms, DAY_MS, DAY_MS + DAY_MS / 100);
    assert_in_range(server.looks, DAY_MS / 1000, DAY_MS / 1000 + 100);
}

TEST_WITH(an_interrupt_ends_the_wait, setup, NULL)
{
    server.path = "";
    server.is_interrupted = true;
    assert_int_equal(run(), CLI_FAILED);
    assert_int_equal(server.looks, 1);
}

TEST_WITH(an_answer_that_is_no_number_is_refused, setup, NULL)
{
    static const char *const answers[] = {"", "2a 2a", "-1", "\x1b[2J", "123456789abcdef01"};

    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        server.number = answers[i];
        assert_int_equal(run(), CLI_FAILED);
        assert_int_equal(server.code, OKV_EPROTO);
        assert_int_equal(server.looks, 0);
    }
}
