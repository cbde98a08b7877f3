/* The connection of a command: its own, or the one that the commands of a shell share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/output.h"

/* A first guess that covers most values; larger ones are fetched a second time. */
#define VALUE_BYTES 65536

int cli_open(struct cli *cli, uint32_t depth, char *why, size_t size)
{
    struct okv_options options = {.connect_timeout_ms = cli->timeout_ms,
                                  .timeout_ms = cli->timeout_ms,
                                  .depth = depth,
                                  .observe = cli->observes,
                                  .user = cli->user,
                                  .key_file = cli->key_file,
                                  .tls_ca = cli->tls_ca,
                                  .tls_cert = cli->tls_cert,
                                  .tls_key = cli->tls_key,
                                  .tls_server_name = cli->tls_server_name};

    why[0] = '\0';
    if (!cli->user != !cli->key_file) {
        snprintf(why, size, "%s",
                 cli->user ? "--user needs --key-file, or OKV_KEY_FILE"
                           : "--key-file needs --user, or OKV_USER");
        return OKV_EINVAL;
    }
    if (cli->database)
        snprintf(options.database, sizeof options.database, "%s", cli->database);
    int rc = okv_open(cli->server, &options, &cli->handle, why, size);
    if (rc == OKV_EREFUSED && cli->may_observe) { /* it may be a copy */
        options.observe = 1;
        cli->is_own = true; /* no other command of a shell can use it */
        rc = okv_open(cli->server, &options, &cli->handle, why, size);
    }
    if (rc != OKV_OK && why[0] == '\0')
        snprintf(why, size, "%s", okv_strerror(rc));
    return rc;
}

/* What to try where no server was named. Root's is elsewhere than the one of another user. */
static const char *where_else(const struct cli *cli)
{
    static const char of_root[] = "local:///run/okv.sock";

    if (access(of_root + strlen("local://"), F_OK) == 0 && strcmp(cli->server, of_root) != 0)
        return "; for root's server give -s local:///run/okv.sock or set OKV_SERVER";
    return "; for another server give -s URI or set OKV_SERVER";
}

static int open_handle(struct cli *cli, uint32_t depth)
{
    char why[CLI_WHY_TEXT];
    int rc = cli_open(cli, depth, why, sizeof why);

    if (rc == OKV_OK)
        return CLI_DONE;
    /* The sentence names the server, or an option. */
    fprintf(stderr, "okv: %s%s\n", why,
            cli->server_named || rc == OKV_EINVAL ? "" : where_else(cli));
    return rc == OKV_EURI || rc == OKV_EINVAL ? CLI_USAGE : CLI_FAILED;
}

int cli_connect(struct cli *cli, uint32_t depth)
{
    bool shares = cli->shared && !cli->is_own && !cli->observes && depth <= CLI_SHARED_DEPTH;
    int status = CLI_DONE;

    cli->handle = shares ? *cli->shared : NULL;
    if (!cli->handle)
        status = open_handle(cli, shares ? CLI_SHARED_DEPTH : depth);
    if (status != CLI_DONE)
        return status;
    if (shares && !cli->is_own)
        *cli->shared = cli->handle;
    okv_counters(cli->handle, &cli->before);
    return CLI_DONE;
}

int cli_begin(struct cli *cli, const struct cli_parser *parser, int argc, char **argv, void *input)
{
    int status = cli_read(parser, argc, argv, input);

    return status == CLI_DONE ? cli_connect(cli, 0) : status;
}

static void print_counters(const struct cli *cli)
{
    struct okv_counters counters;

    okv_counters(cli->handle, &counters);
#define PRINT_COUNTER(name, text) \
    fprintf(stderr, "%s %llu\n", #name, (unsigned long long)(counters.name - cli->before.name));
    OKV_COUNTER_LIST(PRINT_COUNTER)
#undef PRINT_COUNTER
}

/* True when the next command can use it: it has not failed, and nothing is under way. */
static bool is_usable(okv *handle)
{
    struct okv_result result;

    return okv_pending(handle) == 0 && okv_poll(handle, &result, 1) >= 0;
}

void cli_disconnect(struct cli *cli)
{
    bool is_shared = cli->shared && cli->handle == *cli->shared;

    if (!cli->handle)
        return;
    if (cli->counters)
        print_counters(cli);
    if (is_shared && is_usable(cli->handle)) {
        cli->handle = NULL;
        return;
    }
    if (is_shared)
        *cli->shared = NULL;
    okv_close(&cli->handle);
}

int cli_each_database(struct cli *cli, char *names,
                      int (*visit)(struct cli *cli, const char *name, void *user), void *user)
{
    int status = CLI_DONE;
    char *rest = NULL;

    cli->is_own = true;
    for (char *name = strtok_r(names, "\n", &rest); name; name = strtok_r(NULL, "\n", &rest)) {
        cli->database = name;
        int connected = cli_connect(cli, 0);
        status = cli_worse(status, connected == CLI_DONE ? visit(cli, name, user) : connected);
        cli_disconnect(cli);
    }
    cli->database = NULL;
    return status;
}

int cli_fetch(okv *handle, const void *key, size_t key_length, char **value, size_t *length,
              uint64_t *version)
{
    size_t size = VALUE_BYTES;

    for (;;) {
        char *buffer = malloc(size);
        if (!buffer)
            return OKV_ENOMEM;
        int rc = okv_get(handle, key, key_length, buffer, size, length, version);
        if (rc == OKV_OK) {
            *value = buffer;
            return OKV_OK;
        }
        free(buffer);
        if (rc != OKV_ETOOSMALL)
            return rc;
        size = *length;
    }
}
