#include "bench/options.h"

#include <argp.h>
#include <errno.h>
#include <okv.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shared/default_uri.h"
#include "shared/size.h"

#define USAGE_STATUS 2
#define THREADS_MAX 256
#define ROUNDS_MAX 1000
#define SECONDS_MAX 86400.0
#define RECORDS_MAX (UINT64_C(1) << 40)
#define VALUE_MAX (UINT64_C(1) << 30) /* the server's own limit is below, and its to tell */
#define GET_MANY_MAX 65536u
#define TIMEOUT_MS_MAX 86400000u

#define DEFAULT_SECONDS 10.0
#define FLOOR_OPERATIONS 20000
#define FLOOR_ROUNDS 5

enum option_key {
    OPTION_RECORDS = 0x100,
    OPTION_OPERATIONS,
    OPTION_SECONDS,
    OPTION_WARMUP,
    OPTION_THREADS,
    OPTION_DEPTH,
    OPTION_DISTRIBUTION,
    OPTION_THETA,
    OPTION_KEY_SIZE,
    OPTION_VALUE_SIZE,
    OPTION_MIX,
    OPTION_WORKLOAD,
    OPTION_ROUNDS,
    OPTION_SEED,
    OPTION_NO_LOAD,
    OPTION_FLOOR,
    OPTION_GET_MANY,
    OPTION_REGISTERED,
    OPTION_JSON,
    OPTION_PROGRESS,
};

static const struct argp_option bench_options[] = {
    {NULL, 0, NULL, 0, "Where:", 1},
    {"server", 's', "URI", 0, "The server: rdma://HOST[:PORT][?source=ADDRESS] or local:///PATH",
     1},
    {"timeout", 't', "MS", 0, "Give up on an operation after MS milliseconds (5000)", 1},
    {NULL, 0, NULL, 0, "What is stored:", 2},
    {"records", OPTION_RECORDS, "N", 0, "Number of items (100000)", 2},
    {"key-size", OPTION_KEY_SIZE, "SIZE", 0, "Bytes of a key, up to 1024 (16)", 2},
    {"value-size", OPTION_VALUE_SIZE, "SIZE", 0,
     "Bytes of a value, from 16 to what the server accepts (32)", 2},
    {"no-load", OPTION_NO_LOAD, NULL, 0, "The items are there from an earlier run", 2},
    {NULL, 0, NULL, 0, "What is asked for:", 3},
    {"workload", OPTION_WORKLOAD, "a|b|c", 0,
     "YCSB's: Zipfian with 50, 95 or 100 % gets; what other options say goes first", 3},
    {"mix", OPTION_MIX, "get=G,put=P", 0, "Percentages of operations (get=95,put=5)", 3},
    {"distribution", OPTION_DISTRIBUTION, "NAME", 0, "uniform or zipfian (uniform)", 3},
    {"theta", OPTION_THETA, "T", 0, "Skew of zipfian, between 0 and 1 (0.99)", 3},
    {"seed", OPTION_SEED, "N", 0, "Start of the random numbers (1)", 3},
    {NULL, 0, NULL, 0, "How much of it:", 4},
    {"threads", OPTION_THREADS, "T", 0, "Threads, each with its own connection (1)", 4},
    {"depth", OPTION_DEPTH, "D", 0, "Operations each thread keeps under way (1)", 4},
    {"get-many", OPTION_GET_MANY, "N", 0,
     "Gets alone, in batches of N; --depth of them are under way at once (as many as N)", 4},
    {"registered", OPTION_REGISTERED, NULL, 0,
     "Read values into registered memory: large ones without a copy", 4},
    {"operations", OPTION_OPERATIONS, "N", 0, "Operations per round, of all threads", 4},
    {"seconds", OPTION_SECONDS, "S", 0, "Seconds per round (10, unless --operations)", 4},
    {"rounds", OPTION_ROUNDS, "N", 0, "Repeat and give each round's figures (1; 5 with --floor)",
     4},
    {"warmup", OPTION_WARMUP, "S", 0, "Seconds before the first round (1)", 4},
    {"floor", OPTION_FLOOR, NULL, 0,
     "Compare gets with raw READs of as many bytes on the same connection, puts with pings", 4},
    {NULL, 0, NULL, 0, "Output:", 5},
    {"json", OPTION_JSON, "FILE", 0, "Also write everything as JSON; - is stdout", 5},
    {"progress", OPTION_PROGRESS, NULL, 0, "Show progress even if stderr is no terminal", 5},
    {0},
};

static const char about[] =
    "Measure an okv server: a closed loop of gets and puts, every value checked.\v"
    "Sizes are binary: 64K is 65536. Numbers of items and operations are decimal: "
    "1M is 1000000. A latency is the time from submitting an operation to its result. "
    "With --floor, --operations is the number of each kind per round (20000).\n"
    "\n"
    "?source=ADDRESS in an rdma URI is the address of this host to connect from, for a host that "
    "has several. Without -s the server is $OKV_SERVER, else the well-known socket on this host, "
    "as for okv.\n"
    "\n"
    "Examples:\n"
    "  kv-bench -s rdma://10.0.0.1 --floor\n"
    "  kv-bench -s rdma://10.0.0.1 --workload b --threads 4 --depth 16\n"
    "  kv-bench -s local:///run/okv.sock --records 1M --value-size 1K --json out.json\n"
    "  kv-bench -s rdma://10.0.0.1 --get-many 64\n"
    "  kv-bench -s rdma://10.0.0.1 --records 100 --value-size 1M --registered --floor\n"
    "\n"
    "Exit status: 0 done and every value right, 2 usage, 3 could not reach the server or finish, "
    "or a value was wrong.";

/* What was said, before defaults that depend on each other are filled in. */
struct command_line {
    struct options *options;
    bool mix_given;
    bool depth_given;
    bool distribution_given;
    char workload; /* 'a' to 'c', 0: none */
};

/* A whole number with an optional decimal K, M or G. */
static uint64_t parse_count(struct argp_state *state, const char *option, const char *text,
                            uint64_t low, uint64_t high)
{
    static const char units[] = "KMG";
    char *end = NULL;
    uint64_t scale = 1;

    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    bool good = errno == 0 && text[0] >= '0' && text[0] <= '9';
    if (good && *end != '\0') {
        char unit = *end >= 'a' && *end <= 'z' ? (char)(*end - 'a' + 'A') : *end;
        const char *found = strchr(units, unit);
        good = found && end[1] == '\0';
        for (const char *at = units; good && at <= found; at++)
            scale *= 1000;
    }
    if (!good || number > high / scale || number * scale < low)
        argp_error(state, "%s '%s': give a whole number from %llu to %llu, as 1000 or 10K", option,
                   text, (unsigned long long)low, (unsigned long long)high);
    return number * scale;
}

static double parse_real(struct argp_state *state, const char *option, const char *text, double low,
                         double high)
{
    char *end = NULL;

    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number >= low && number <= high))
        argp_error(state, "%s '%s': give a number from %g to %g", option, text, low, high);
    return number;
}

static uint32_t parse_size(struct argp_state *state, const char *option, const char *text,
                           uint64_t low, uint64_t high)
{
    uint64_t size = 0;

    if (okv_size_parse(text, &size) != OKV_OK || size < low || size > high)
        argp_error(state, "%s '%s': give a size from %llu to %llu bytes, as 512 or 4K", option,
                   text, (unsigned long long)low, (unsigned long long)high);
    return (uint32_t)size;
}

/* "get=95,put=5", in any order; one alone means that the other has the rest. */
static unsigned parse_mix(struct argp_state *state, const char *text)
{
    unsigned get = 0;
    unsigned put = 0;
    int used = -1;

    if (sscanf(text, "get=%3u,put=%3u%n", &get, &put, &used) == 2 ||
        sscanf(text, "put=%3u,get=%3u%n", &put, &get, &used) == 2) {
        if (used == (int)strlen(text) && get + put == 100)
            return get;
    } else if (sscanf(text, "get=%3u%n", &get, &used) == 1 && get <= 100) {
        if (used == (int)strlen(text))
            return get;
    } else if (sscanf(text, "put=%3u%n", &put, &used) == 1 && put <= 100) {
        if (used == (int)strlen(text))
            return 100 - put;
    }
    argp_error(state, "--mix '%s': give percentages that add up to 100, as get=95,put=5", text);
    return 0;
}

static enum workload_distribution parse_distribution(struct argp_state *state, const char *text)
{
    if (strcmp(text, "zipfian") == 0)
        return WORKLOAD_ZIPFIAN;
    if (strcmp(text, "uniform") != 0)
        argp_error(state, "--distribution '%s': give uniform or zipfian", text);
    return WORKLOAD_UNIFORM;
}

/* Options about what is stored and asked for. */
static error_t parse_content(int key, char *text, struct argp_state *state)
{
    struct command_line *line = state->input;
    struct options *options = line->options;

    switch (key) {
    case OPTION_RECORDS:
        options->records = parse_count(state, "--records", text, 1, RECORDS_MAX);
        return 0;
    case OPTION_KEY_SIZE:
        options->key_size = parse_size(state, "--key-size", text, 1, OKV_KEY_MAX_BYTES);
        return 0;
    case OPTION_VALUE_SIZE:
        options->value_size =
            parse_size(state, "--value-size", text, WORKLOAD_VALUE_MIN, VALUE_MAX);
        return 0;
    case OPTION_NO_LOAD:
        options->load = false;
        return 0;
    case OPTION_WORKLOAD:
        if (strlen(text) != 1 || !strchr("abc", text[0]))
            argp_error(state, "--workload '%s': give a, b or c", text);
        line->workload = text[0];
        return 0;
    case OPTION_MIX:
        options->get_percent = parse_mix(state, text);
        line->mix_given = true;
        return 0;
    case OPTION_DISTRIBUTION:
        options->distribution = parse_distribution(state, text);
        line->distribution_given = true;
        return 0;
    case OPTION_THETA:
        options->theta = parse_real(state, "--theta", text, 0.001, 0.999);
        return 0;
    case OPTION_SEED:
        options->seed = parse_count(state, "--seed", text, 0, UINT64_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Fills in what depends on several options and refuses what does not go together. */
static void settle(struct argp_state *state, struct command_line *line)
{
    struct options *options = line->options;

    if (line->workload && !line->mix_given)
        options->get_percent = line->workload == 'a' ? 50 : line->workload == 'b' ? 95 : 100;
    if (line->workload && !line->distribution_given)
        options->distribution = WORKLOAD_ZIPFIAN;
    if (!workload_key_fits(options->records, options->key_size))
        argp_error(state, "--key-size %u: too short for %llu different keys: give a longer one",
                   options->key_size, (unsigned long long)options->records);
    if (options->floor && options->threads != 1)
        argp_error(state, "--floor measures one connection: leave out --threads");
    if (options->floor && options->get_many > 0)
        argp_error(state, "--floor compares single gets: leave out --get-many");
    if (options->get_many > 0 && line->mix_given && options->get_percent < 100)
        argp_error(state, "--get-many measures gets alone: leave out the puts of --mix");
    if (options->get_many > 0)
        options->get_percent = 100;
    if (options->get_many > 0 && !line->depth_given)
        options->depth = options->get_many < OKV_DEPTH_MAX_OPERATIONS ? options->get_many
                                                                      : OKV_DEPTH_MAX_OPERATIONS;
    if (options->floor && options->operations == 0 && options->seconds == 0)
        options->operations = FLOOR_OPERATIONS;
    if (options->operations == 0 && options->seconds == 0)
        options->seconds = DEFAULT_SECONDS;
    if (options->rounds == 0)
        options->rounds = options->floor ? FLOOR_ROUNDS : 1;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct command_line *line = state->input;
    struct options *options = line->options;

    switch (key) {
    case 's':
        options->uri = text;
        options->server_named = true;
        return 0;
    case 't':
        options->timeout_ms = (uint32_t)parse_count(state, "--timeout", text, 1, TIMEOUT_MS_MAX);
        return 0;
    case OPTION_THREADS:
        options->threads = (uint32_t)parse_count(state, "--threads", text, 1, THREADS_MAX);
        return 0;
    case OPTION_DEPTH:
        options->depth = (uint32_t)parse_count(state, "--depth", text, 1, OKV_DEPTH_MAX_OPERATIONS);
        line->depth_given = true;
        return 0;
    case OPTION_GET_MANY:
        options->get_many = (uint32_t)parse_count(state, "--get-many", text, 1, GET_MANY_MAX);
        return 0;
    case OPTION_REGISTERED:
        options->registered = true;
        return 0;
    case OPTION_OPERATIONS:
        options->operations = parse_count(state, "--operations", text, 1, UINT64_MAX / 2);
        return 0;
    case OPTION_SECONDS:
        options->seconds = parse_real(state, "--seconds", text, 0.01, SECONDS_MAX);
        return 0;
    case OPTION_ROUNDS:
        options->rounds = (uint32_t)parse_count(state, "--rounds", text, 1, ROUNDS_MAX);
        return 0;
    case OPTION_WARMUP:
        options->warmup = parse_real(state, "--warmup", text, 0.0, SECONDS_MAX);
        return 0;
    case OPTION_FLOOR:
        options->floor = true;
        return 0;
    case OPTION_JSON:
        options->json = text;
        return 0;
    case OPTION_PROGRESS:
        options->progress = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s': kv-bench takes options only", text);
        return 0;
    case ARGP_KEY_END:
        settle(state, line);
        return 0;
    default:
        return parse_content(key, text, state);
    }
}

static void print_version(FILE *out, struct argp_state *state)
{
    (void)state;
    fprintf(out, "kv-bench %s\n", okv_version());
}

/* As okv(1): $OKV_SERVER, else the well-known socket. */
static void default_server(struct options *options)
{
    const char *named = getenv("OKV_SERVER");

    okv_default_uri(options->well_known, sizeof options->well_known);
    options->server_named = named && named[0] != '\0';
    options->uri = options->server_named ? named : options->well_known;
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp parser = {.options = bench_options, .parser = parse, .doc = about};
    struct command_line line = {.options = options};

    *options = (struct options){
        .records = 100000,
        .warmup = 1.0,
        .threads = 1,
        .depth = 1,
        .distribution = WORKLOAD_UNIFORM,
        .theta = 0.99,
        .key_size = 16,
        .value_size = 32,
        .get_percent = 95,
        .seed = 1,
        .load = true,
        .progress = isatty(STDERR_FILENO),
    };
    default_server(options);
    argp_err_exit_status = USAGE_STATUS;
    argp_program_version_hook = print_version;
    argp_parse(&parser, argc, argv, 0, NULL, &line);
}

const char *options_distribution_name(enum workload_distribution distribution)
{
    return distribution == WORKLOAD_ZIPFIAN ? "zipfian" : "uniform";
}
