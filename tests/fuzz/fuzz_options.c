/*
 * The command line of okv-server. parse.c and settings.c of server/config/ are compiled with
 * functions named as below: a wrong command line then ends the parse and not the process, and no
 * file is read.
 */
#include <argp.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "server/config/config.h"
#include "shared/format/bucket.h"
#include "shared/format/wire.h"
#include "tests/fuzz/fuzz_input.h"

#define ARGUMENTS_MAX 40
#define TEXT_MAX 1024

error_t fuzz_argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *end,
                        void *input);
void fuzz_argp_error(const struct argp_state *state, const char *format, ...);
void fuzz_argp_failure(const struct argp_state *state, int status, int number, const char *format,
                       ...);
FILE *fuzz_fopen(const char *path, const char *mode);

/* argp knows nothing of whoever calls it, and the parser has its own input. */
static struct {
    const struct argp *argp;
    jmp_buf refused;
    error_t result;
} parse;

/* Leaves the option's parser, and not argp, which frees what it allocated. */
static error_t parse_guarded(int key, char *text, struct argp_state *state)
{
    if (setjmp(parse.refused))
        return EINVAL;
    return parse.argp->parser(key, text, state);
}

void fuzz_argp_error(const struct argp_state *state, const char *format, ...)
{
    char sentence[1024];
    va_list arguments;

    (void)state;
    va_start(arguments, format);
    FUZZ_CHECK(vsnprintf(sentence, sizeof sentence, format, arguments) > 0);
    va_end(arguments);
    longjmp(parse.refused, 1);
}

void fuzz_argp_failure(const struct argp_state *state, int status, int number, const char *format,
                       ...)
{
    (void)state;
    (void)number;
    (void)format;
    FUZZ_CHECK(status == 2 || status == 3);
    longjmp(parse.refused, 1);
}

FILE *fuzz_fopen(const char *path, const char *mode)
{
    (void)path;
    (void)mode;
    errno = ENOENT;
    return NULL;
}

error_t fuzz_argp_parse(const struct argp *argp, int argc, char **argv, unsigned flags, int *end,
                        void *input)
{
    struct argp guarded = *argp;

    parse.argp = argp;
    guarded.parser = parse_guarded;
    parse.result = argp_parse(&guarded, argc, argv, flags | ARGP_SILENT, end, input);
    return parse.result;
}

static void check_database(const struct okv_database_config *database)
{
    FUZZ_CHECK(okv_name_is_valid(database->name));
    FUZZ_CHECK(database->memory >= UINT64_C(1) << 20 && database->memory % 4096 == 0);
    FUZZ_CHECK(database->max_value >= 1 && database->max_value <= OKV_VALUE_MAX);
    FUZZ_CHECK(database->max_value <= database->memory / 4);
    FUZZ_CHECK(okv_bucket_size_valid(database->bucket_size));
    FUZZ_CHECK(database->inline_max <= OKV_BUCKET_SIZE_MAX);
    FUZZ_CHECK(database->extra_reads <= 1000);
    FUZZ_CHECK(database->index_percent >= 10 && database->index_percent <= 95);
}

static void check_cluster(const struct okv_cluster_config *cluster)
{
    FUZZ_CHECK(cluster->advertise_count <= OKV_ADVERTISED_MAX);
    FUZZ_CHECK(!cluster->etcd == !cluster->name[0]);
    FUZZ_CHECK((cluster->advertise_count > 0) == (cluster->name[0] != 0));
    FUZZ_CHECK(!cluster->etcd_user == !cluster->etcd_password_file);
    FUZZ_CHECK(!cluster->etcd_cert == !cluster->etcd_key);
    FUZZ_CHECK(!cluster->peer_user[0] == !cluster->peer_key);
}

/* What every part of the server relies on. */
static void check_config(const struct okv_config *config)
{
    FUZZ_CHECK(config->listen_count + config->resp_count >= 1);
    FUZZ_CHECK(config->listen_count <= OKV_LISTENERS_MAX);
    FUZZ_CHECK(config->resp_count <= OKV_RESP_LISTENERS_MAX);
    for (unsigned i = 0; i < config->listen_count; i++)
        FUZZ_CHECK(config->listen[i].scheme != OKV_SCHEME_RDMA || config->reachable);
    FUZZ_CHECK(!config->reachable || config->is_open || config->users);
    FUZZ_CHECK(config->database_count >= 1 && config->database_count <= OKV_DATABASES_MAX);
    for (unsigned i = 0; i < config->database_count; i++)
        check_database(&config->databases[i]);
    check_cluster(&config->cluster);
    FUZZ_CHECK(config->credits >= 1 && config->credits <= OKV_CREDITS_MAX);
    FUZZ_CHECK(config->max_clients >= 1);
}

/* Lines are arguments. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char name[] = "okv-server";
    char *arguments[ARGUMENTS_MAX + 2] = {name};
    int count = 1;
    struct okv_config config;
    char *text = fuzz_text(&input, TEXT_MAX);
    char *rest = text;

    while (count <= ARGUMENTS_MAX && rest)
        arguments[count++] = strsep(&rest, "\n");
    okv_config_parse(count, arguments, &config);
    if (parse.result == 0)
        check_config(&config);
    okv_config_fini(&config);
    free(text);
    return 0;
}
