#include "bench/options.h"

#include <okv.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/options_text.h"
#include "shared/base/default_uri.h"
#include "shared/base/duration.h"
#include "shared/base/spell_suggest.h"

#define USAGE_STATUS 2
#define THREADS_MAX 256
#define CONNECTIONS_MAX 1024
#define ROUNDS_MAX 1000
#define SECONDS_MAX 86400.0
#define RECORDS_MAX (UINT64_C(1) << 40)
#define INSERTS_MAX (UINT64_C(1) << 40)
#define RATE_MAX UINT64_C(1000000000)
#define GET_MANY_MAX 65536u
#define TIMEOUT_MS_MAX 86400000u

#define DEFAULT_SECONDS 10.0
#define DEFAULT_OPEN_DEPTH 32
#define FLOOR_OPERATIONS 20000
#define FLOOR_ROUNDS 5

enum option_key {
    OPTION_RECORDS = 0x100,
    OPTION_OPERATIONS,
    OPTION_SECONDS,
    OPTION_WARMUP,
    OPTION_THREADS,
    OPTION_CONNECTIONS,
    OPTION_DEPTH,
    OPTION_RATE,
    OPTION_EVEN,
    OPTION_DISTRIBUTION,
    OPTION_THETA,
    OPTION_HOTSPOT,
    OPTION_KEY_SIZE,
    OPTION_VALUE_SIZE,
    OPTION_MIX,
    OPTION_WORKLOAD,
    OPTION_ROUNDS,
    OPTION_SEED,
    OPTION_NO_LOAD,
    OPTION_LOAD_ONLY,
    OPTION_KEEP,
    OPTION_FLOOR,
    OPTION_GET_MANY,
    OPTION_REGISTERED,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_HDR,
    OPTION_PROGRESS,
};

static const struct argp_option bench_options[] = {
    {NULL, 0, NULL, 0, "Where:", 1},
    {"server", 's', "[NAME=]URI", 0,
     "The server: rdma://HOST[:PORT][?source=ADDRESS], ofi://HOST[:PORT], local:///PATH, or a "
     "peer: redis://HOST:PORT, redis:///SOCKET, valkey+rdma://HOST:PORT, memcached://HOST:PORT, "
     "memcached:///SOCKET, lmdb:///DIRECTORY, lmdb+sync:///DIRECTORY, lmdb+batch:///DIRECTORY. "
     "With several, rounds alternate between them; NAME is for the report",
     1},
    {"timeout", 't', "TIME", 0, "Give up on an operation after TIME, as 500ms or 10s (5s)", 1},
    {NULL, 0, NULL, 0, "What is stored:", 2},
    {"records", OPTION_RECORDS, "N", 0, "Number of items (100000)", 2},
    {"key-size", OPTION_KEY_SIZE, "SIZE", 0, "Bytes of a key, up to 1024 (16)", 2},
    {"value-size", OPTION_VALUE_SIZE, "SIZES", 0,
     "Bytes of a value, from 16 to what the server accepts (32): SIZE, uniform LOW-HIGH, or "
     "trace[:MAX], as in Facebook's ETC pool",
     2},
    {"no-load", OPTION_NO_LOAD, NULL, 0, "The items are there from an earlier run", 2},
    {"load-only", OPTION_LOAD_ONLY, NULL, 0, "Store the items, keep them and end", 2},
    {"keep", OPTION_KEEP, NULL, 0, "Leave the items there; else those that were stored are deleted",
     2},
    {NULL, 0, NULL, 0, "What is asked for:", 3},
    {"workload", OPTION_WORKLOAD, "a|b|c|d|f", 0,
     "YCSB's: a 50 % puts, b 5 % puts, c gets alone, d 5 % inserts and the latest the most "
     "popular, f 50 % read-modify-write; Zipfian except d; explicit options override it",
     3},
    {"mix", OPTION_MIX, "get=G,put=P,...", 0,
     "Percentages of get, put, insert, delete, rmw, cas and incr (get=95,put=5)", 3},
    {"distribution", OPTION_DISTRIBUTION, "NAME", 0,
     "uniform, zipfian, latest or hotspot (uniform)", 3},
    {"theta", OPTION_THETA, "T", 0, "Skew of zipfian and latest, between 0 and 1 (0.99)", 3},
    {"hotspot", OPTION_HOTSPOT, "R,O", 0,
     "A share R of the records gets a share O of the operations (0.2,0.8)", 3},
    {"seed", OPTION_SEED, "N", 0, "Start of the random numbers (1)", 3},
    {NULL, 0, NULL, 0, "How much of it:", 4},
    {"threads", OPTION_THREADS, "T[,T...]", 0,
     "Threads (1). With several numbers rounds alternate between them: 1,2 compares two with one",
     4},
    {"connections", OPTION_CONNECTIONS, "C", 0, "Connections of each thread (1)", 4},
    {"depth", OPTION_DEPTH, "D", 0,
     "Operations that each connection keeps in flight (1), or may have in flight with --rate (32)",
     4},
    {"rate", OPTION_RATE, "R", 0,
     "Open loop: R operations per second, of all threads, are due whether or not earlier ones "
     "have ended; a latency is from the moment an operation was due",
     4},
    {"even", OPTION_EVEN, NULL, 0, "--rate at even distances, not as a Poisson process", 4},
    {"get-many", OPTION_GET_MANY, "N", 0,
     "Gets alone, in batches of N; --depth of them are in flight at once (as many as N)", 4},
    {"registered", OPTION_REGISTERED, NULL, 0,
     "Read values into registered memory: large ones without a copy", 4},
    {"operations", OPTION_OPERATIONS, "N", 0, "Operations per round, of all threads", 4},
    {"seconds", OPTION_SECONDS, "S", 0,
     "Seconds per round, or a time such as 2m (10, unless --operations)", 4},
    {"rounds", OPTION_ROUNDS, "N", 0, "Repeat and give each round's results (1; 5 with --floor)",
     4},
    {"warmup", OPTION_WARMUP, "S", 0, "Seconds before the first round, or a time (1)", 4},
    {"floor", OPTION_FLOOR, NULL, 0,
     "Compare gets with raw READs of as many bytes, puts with echoes, at the same depth", 4},
    {NULL, 0, NULL, 0, "Output:", 5},
    {"json", OPTION_JSON, "FILE", 0, "Also write everything as JSON; - is stdout", 5},
    {"csv", OPTION_CSV, "FILE", 0, "Also write a line for each round and operation; - is stdout",
     5},
    {"hdr", OPTION_HDR, "PREFIX", 0,
     "Also write the histograms, as HdrHistogram's percentile text, to "
     "PREFIX.TARGET.OPERATION.hgrm",
     5},
    {"progress", OPTION_PROGRESS, NULL, 0, "Show progress even if stderr is no terminal", 5},
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1},
    {0},
};

static const char about[] =
    "Measure an okv server, and what it is compared with, every value checked.\v"
    "Items are stored first, then comes a warm-up, then the rounds. Without --rate each connection "
    "keeps --depth operations in flight, and a latency is from submitting an operation to its "
    "result. At the end the items are deleted, unless --keep, --no-load or --load-only is given. "
    "Sizes are binary: 64K is 65536. Numbers of items and operations are decimal: 1M is "
    "1000000. With --floor, --operations is the number of gets per round (20000).\n"
    "\n"
    "?source=ADDRESS in an rdma URI is the address of this host to connect from, for a host that "
    "has several, ?device=NAME[&port=N][&gid=INDEX] the device to leave by. Without -s the server "
    "is $OKV_SERVER, else the well-known socket on this host, "
    "as for okv.\n"
    "\n"
    "Examples:\n"
    "How far are gets from raw READs?\n"
    "  kv-bench -s rdma://10.0.0.1 --floor\n"
    "How many operations per second do four threads get through?\n"
    "  kv-bench -s rdma://10.0.0.1 --workload b --threads 4 --depth 16\n"
    "What latency do users see at 50000 requests per second?\n"
    "  kv-bench -s rdma://10.0.0.1 --workload b --rate 50K --seconds 30\n"
    "How does it compare with Redis, for the same keys and values?\n"
    "  kv-bench -s okv=rdma://10.0.0.1 -s redis=redis://10.0.0.1:6379 --rounds 5\n"
    "A million items of many sizes, stored once and measured twice:\n"
    "  kv-bench --records 1M --value-size trace --load-only\n"
    "  kv-bench --records 1M --value-size trace --no-load --workload c --json c.json\n"
    "  kv-bench --records 1M --value-size trace --no-load --mix get=90,cas=8,incr=2\n"
    "Batches of gets, and large values without a copy:\n"
    "  kv-bench -s rdma://10.0.0.1 --get-many 64\n"
    "  kv-bench -s rdma://10.0.0.1 --records 100 --value-size 1M --registered --floor\n"
    "\n"
    "Exit status: 0 done and every value right, 2 usage, 3 could not reach the server or finish, "
    "or a value was wrong.";

/* The command line while it is parsed. */
struct command_line {
    struct options *options;
    bool mix_given;
    bool depth_given;
    bool distribution_given;
    bool hotspot_given;
    bool no_load;
};

/* ---- single options ----------------------------------------------------- */

/* Options about items and operations. */
static error_t parse_content(int key, char *text, struct argp_state *state)
{
    struct command_line *line = state->input;
    struct options *options = line->options;

    switch (key) {
    case OPTION_RECORDS:
        options->choice.records = options_read_count(state, "--records", text, 1, RECORDS_MAX);
        return 0;
    case OPTION_KEY_SIZE:
        options->key_size = options_read_size(state, "--key-size", text, 1, OKV_KEY_MAX_BYTES);
        return 0;
    case OPTION_VALUE_SIZE:
        options_read_values(state, text, &options->values);
        return 0;
    case OPTION_NO_LOAD:
        line->no_load = true;
        return 0;
    case OPTION_LOAD_ONLY:
        options->load_only = true;
        return 0;
    case OPTION_KEEP:
        options->keep = true;
        return 0;
    case OPTION_WORKLOAD:
        if (strcmp(text, "e") == 0)
            argp_error(state, "--workload e: it scans in the order of keys, which okv does not "
                              "offer: give a, b, c, d or f");
        if (strlen(text) != 1 || !strchr("abcdf", text[0]))
            argp_error(state, "--workload '%s': give a, b, c, d or f", text);
        options->workload = text[0];
        return 0;
    case OPTION_MIX:
        options_read_mix(state, text, options->mix);
        line->mix_given = true;
        return 0;
    case OPTION_DISTRIBUTION:
        options->choice.distribution = options_read_distribution(state, text);
        line->distribution_given = true;
        return 0;
    case OPTION_THETA:
        options->choice.theta = options_read_real(state, "--theta", text, 0.001, 0.999);
        return 0;
    case OPTION_HOTSPOT:
        options_read_hotspot(state, text, &options->choice);
        line->hotspot_given = true;
        return 0;
    case OPTION_SEED:
        options->seed = options_read_count(state, "--seed", text, 0, UINT64_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Options about the amount of work. */
static error_t parse_amount(int key, char *text, struct argp_state *state)
{
    struct command_line *line = state->input;
    struct options *options = line->options;

    switch (key) {
    case OPTION_THREADS:
        options->threads_count = options_read_counts(state, "--threads", text, THREADS_MAX,
                                                     options->threads, OPTIONS_TARGETS_MAX);
        return 0;
    case OPTION_CONNECTIONS:
        options->connections =
            (uint32_t)options_read_count(state, "--connections", text, 1, CONNECTIONS_MAX);
        return 0;
    case OPTION_DEPTH:
        options->depth =
            (uint32_t)options_read_count(state, "--depth", text, 1, OKV_DEPTH_MAX_OPERATIONS);
        line->depth_given = true;
        return 0;
    case OPTION_RATE:
        options->rate = (double)options_read_count(state, "--rate", text, 1, RATE_MAX);
        return 0;
    case OPTION_EVEN:
        options->even = true;
        return 0;
    case OPTION_GET_MANY:
        options->get_many =
            (uint32_t)options_read_count(state, "--get-many", text, 1, GET_MANY_MAX);
        return 0;
    case OPTION_REGISTERED:
        options->registered = true;
        return 0;
    case OPTION_OPERATIONS:
        options->operations = options_read_count(state, "--operations", text, 1, UINT64_MAX / 2);
        return 0;
    case OPTION_SECONDS:
        options->seconds = options_read_seconds(state, "--seconds", text, 0.01, SECONDS_MAX);
        return 0;
    case OPTION_ROUNDS:
        options->rounds = (uint32_t)options_read_count(state, "--rounds", text, 1, ROUNDS_MAX);
        return 0;
    case OPTION_WARMUP:
        options->warmup = options_read_seconds(state, "--warmup", text, 0.0, SECONDS_MAX);
        return 0;
    case OPTION_FLOOR:
        options->floor = true;
        return 0;
    default:
        return parse_content(key, text, state);
    }
}

/* ---- combinations ------------------------------------------------------- */

/* Applies a YCSB workload; explicit options override it. */
static void settle_workload(const struct command_line *line)
{
    static const struct {
        char name;
        enum operation other; /* besides get */
        double percent;       /* of `other` */
        enum workload_distribution distribution;
    } workloads[] = {
        {'a', OPERATION_PUT, 50, WORKLOAD_ZIPFIAN}, {'b', OPERATION_PUT, 5, WORKLOAD_ZIPFIAN},
        {'c', OPERATION_PUT, 0, WORKLOAD_ZIPFIAN},  {'d', OPERATION_INSERT, 5, WORKLOAD_LATEST},
        {'f', OPERATION_RMW, 50, WORKLOAD_ZIPFIAN},
    };
    struct options *options = line->options;

    if (line->hotspot_given && !line->distribution_given)
        options->choice.distribution = WORKLOAD_HOTSPOT;
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        if (workloads[i].name != options->workload)
            continue;
        if (!line->mix_given) {
            memset(options->mix, 0, sizeof options->mix);
            options->mix[workloads[i].other] = workloads[i].percent;
            options->mix[OPERATION_GET] = 100 - workloads[i].percent;
        }
        if (!line->distribution_given && !line->hotspot_given)
            options->choice.distribution = workloads[i].distribution;
    }
}

/* Refuses options that contradict each other. */
static void check_together(struct argp_state *state, const struct command_line *line)
{
    const struct options *options = line->options;
    bool inserts = options->mix[OPERATION_INSERT] > 0;
    uint64_t records = options->choice.records + (inserts ? INSERTS_MAX : 0);

    if (!workload_key_fits(records, options->key_size))
        argp_error(state, "--key-size %u: too short for %llu different keys: give a longer one",
                   options->key_size, (unsigned long long)records);
    if (options->floor &&
        (options->threads[0] != 1 || options->threads_count != 1 || options->connections != 1))
        argp_error(state, "--floor measures one connection: leave out --threads and --connections");
    if (options->threads_count > 1 && inserts)
        argp_error(state, "--threads with several numbers: each would insert the same items: leave "
                          "inserts out of --mix");
    if (options->floor && options->values.sizes != WORKLOAD_SIZES_FIXED)
        argp_error(state, "--floor compares with READs of one size: give --value-size one SIZE");
    if (options->floor && options->rate > 0)
        argp_error(state, "--floor is a closed loop: leave out --rate");
    if (options->floor && options->load_only)
        argp_error(state, "--load-only measures nothing but loading: leave out --floor");
    if (options->load_only && line->no_load)
        argp_error(state, "--load-only and --no-load leave nothing to do: give one of them");
    if (options->get_many > 0 && options->rate > 0)
        argp_error(state, "--get-many is a closed loop: leave out --rate");
    if (options->get_many > 0 && line->mix_given && options->mix[OPERATION_GET] < 100)
        argp_error(state, "--get-many measures gets alone: leave out what else is in --mix");
    if (options->even && options->rate <= 0)
        argp_error(state, "--even is of an open loop: give --rate too");
    if (options->json && options->csv && strcmp(options->json, "-") == 0 &&
        strcmp(options->csv, "-") == 0)
        argp_error(state, "--json and --csv cannot both be on stdout: give one a FILE");
}

/* As okv(1): $OKV_SERVER, else a well-known socket. */
static void default_target(struct options *options)
{
    const char *named = getenv("OKV_SERVER");

    okv_default_uri_find(options->well_known, sizeof options->well_known);
    options->server_named = named && named[0] != '\0';
    options->targets[0].uri = options->server_named ? named : options->well_known;
    options->targets[0].name = options->targets[0].uri;
    options->target_count = 1;
}

/* Makes one target for each server and number of threads. */
static void spread_threads(struct argp_state *state, struct options *options)
{
    struct options_target servers[OPTIONS_TARGETS_MAX];
    uint32_t count = options->target_count, numbers = options->threads_count, made = 0;

    if (count * numbers > OPTIONS_TARGETS_MAX)
        argp_error(state,
                   "--threads: %u numbers for %u servers are too many: give at most %d together",
                   numbers, count, OPTIONS_TARGETS_MAX);
    memcpy(servers, options->targets, count * sizeof *servers);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < numbers; k++, made++) {
            struct options_target *target = &options->targets[made];
            *target = (struct options_target){.name = servers[i].name,
                                              .uri = servers[i].uri,
                                              .threads = options->threads[k],
                                              .load = k == 0};
            if (numbers == 1)
                continue;
            snprintf(options->names[made], sizeof options->names[made], "%.300s %u thread%s",
                     servers[i].name, target->threads, target->threads > 1 ? "s" : "");
            target->name = options->names[made];
        }
    }
    options->target_count = made;
}

/* Fills in defaults that depend on several options. */
static void settle(struct argp_state *state, struct command_line *line)
{
    struct options *options = line->options;

    settle_workload(line);
    check_together(state, line);
    options->load = !line->no_load;
    options->keep |= line->no_load || options->load_only; /* another run has use for them */
    if (options->get_many > 0) {
        memset(options->mix, 0, sizeof options->mix);
        options->mix[OPERATION_GET] = 100;
    }
    if (options->get_many > 0 && !line->depth_given)
        options->depth = options->get_many < OKV_DEPTH_MAX_OPERATIONS ? options->get_many
                                                                      : OKV_DEPTH_MAX_OPERATIONS;
    if (options->rate > 0 && !line->depth_given)
        options->depth = DEFAULT_OPEN_DEPTH;
    if (options->floor && options->operations == 0 && options->seconds == 0)
        options->operations = FLOOR_OPERATIONS;
    if (options->operations == 0 && options->seconds == 0)
        options->seconds = DEFAULT_SECONDS;
    if (options->rounds == 0)
        options->rounds = options->floor ? FLOOR_ROUNDS : 1;
    if (options->target_count == 0)
        default_target(options);
    spread_threads(state, options);
}

/* Adds the target "URI" or "NAME=URI". Splits `text` in place. */
static void read_target(struct argp_state *state, char *text, struct options *options)
{
    char *equals = strchr(text, '=');
    char *scheme = strstr(text, "://");
    struct options_target target = {.name = text, .uri = text};

    if (equals && (!scheme || equals < scheme)) {
        *equals = '\0';
        target.uri = equals + 1;
    }
    if (target.name[0] == '\0' || target.uri[0] == '\0')
        argp_error(state, "--server '%s': give a URI or NAME=URI, such as local:///run/okv.sock",
                   text);
    for (uint32_t i = 0; i < options->target_count; i++) {
        if (strcmp(options->targets[i].name, target.name) == 0)
            argp_error(state, "--server '%s': this name was given before: give each another NAME=",
                       target.name);
    }
    if (options->target_count == OPTIONS_TARGETS_MAX)
        argp_error(state, "--server '%s': give at most %d servers", text, OPTIONS_TARGETS_MAX);
    options->targets[options->target_count++] = target;
}

static uint32_t read_timeout(struct argp_state *state, const char *text)
{
    uint64_t ms = 0;

    if (okv_duration_parse(text, &ms) || ms < 1 || ms > TIMEOUT_MS_MAX)
        argp_error(state, "--timeout '%s': give a time from 1ms to 24h with its unit, such as 10s",
                   text);
    return (uint32_t)ms;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct command_line *line = state->input;
    struct options *options = line->options;

    switch (key) {
    case 's':
        read_target(state, text, options);
        options->server_named = true;
        return 0;
    case 't':
        options->timeout_ms = read_timeout(state, text);
        return 0;
    case OPTION_JSON:
        options->json = text;
        return 0;
    case OPTION_CSV:
        options->csv = text;
        return 0;
    case OPTION_HDR:
        options->hdr = text;
        return 0;
    case OPTION_PROGRESS:
        options->progress = true;
        return 0;
    case 'h':
        argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s': kv-bench takes options only", text);
        return 0;
    case ARGP_KEY_END:
        settle(state, line);
        return 0;
    default:
        return parse_amount(key, text, state);
    }
}

static void print_version(FILE *out, struct argp_state *state)
{
    (void)state;
    fprintf(out, "kv-bench %s\ntransports: %s\n", okv_version(), okv_transports());
}

void options_parse(struct options *options, int argc, char **argv)
{
    static const struct argp parser = {.options = bench_options, .parser = parse, .doc = about};
    struct command_line line = {.options = options};
    char hint[OKV_SPELL_HINT_TEXT];

    *options = (struct options){
        .key_size = 16,
        .values = {.sizes = WORKLOAD_SIZES_FIXED, .low = 32, .high = 32},
        .choice = {.distribution = WORKLOAD_UNIFORM,
                   .records = 100000,
                   .theta = 0.99,
                   .hot_records = 0.2,
                   .hot_operations = 0.8},
        .mix = {[OPERATION_GET] = 95, [OPERATION_PUT] = 5},
        .seed = 1,
        .warmup = 1.0,
        .threads = {1},
        .threads_count = 1,
        .connections = 1,
        .depth = 1,
        .progress = isatty(STDERR_FILENO),
    };
    argp_err_exit_status = USAGE_STATUS;
    argp_program_version_hook = print_version;
    if (okv_spell_hint(&parser, 0, argc, argv, hint)) {
        fprintf(stderr, "kv-bench: %s\n", hint);
        exit(USAGE_STATUS);
    }
    argp_parse(&parser, argc, argv, 0, NULL, &line);
}
