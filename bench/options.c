#include "bench/options.h"

#include <errno.h>
#include <okv.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/option_table.h"
#include "shared/base/default_uri.h"
#include "shared/base/spell_suggest.h"

#define USAGE_STATUS 2
#define INSERTS_MAX (UINT64_C(1) << 40)

#define DEFAULT_SECONDS 10.0
#define DEFAULT_OPEN_DEPTH 32
#define FLOOR_OPERATIONS 20000
#define FLOOR_ROUNDS 5

/* The command line while it is parsed. */
struct command_line {
    struct options *options;
    uint64_t given; /* a bit for each row of the table */
};

static bool is_given(const struct command_line *line, const char *name)
{
    return line->given >> (okv_option_find(bench_options, name) - bench_options) & 1;
}

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

    if (is_given(line, "hotspot") && !is_given(line, "distribution"))
        options->choice.distribution = WORKLOAD_HOTSPOT;
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        if (workloads[i].name != options->workload)
            continue;
        if (!is_given(line, "mix")) {
            memset(options->mix, 0, sizeof options->mix);
            options->mix[workloads[i].other] = workloads[i].percent;
            options->mix[OPERATION_GET] = 100 - workloads[i].percent;
        }
        if (!is_given(line, "distribution") && !is_given(line, "hotspot"))
            options->choice.distribution = workloads[i].distribution;
    }
}

/* Refuses what a trace decides, and what is not done to it. */
static void check_replay(struct argp_state *state, const struct command_line *line)
{
    static const char *const others[] = {
        "records", "key-size",     "value-size", "no-load", "load-only", "workload", "mix",
        "theta",   "distribution", "hotspot",    "rate",    "even",      "get-many", "operations",
        "seconds", "rounds",       "warmup",     "floor",   "seed"};

    for (size_t i = 0; line->options->replay && i < sizeof others / sizeof *others; i++)
        if (is_given(line, others[i]))
            argp_error(state,
                       "--replay takes requests and sizes from the trace, once: leave out --%s",
                       others[i]);
    if (line->options->replay && line->options->threads_count > 1)
        argp_error(state, "--replay begins with an empty server: give --threads one number");
    if (!line->options->replay && line->options->replay_items > 0)
        argp_error(state, "--replay-items is of a replay: give --replay too");
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
    if (options->load_only && options->no_load)
        argp_error(state, "--load-only and --no-load leave nothing to do: give one of them");
    if (options->get_many > 0 && options->rate > 0)
        argp_error(state, "--get-many is a closed loop: leave out --rate");
    if (options->get_many > 0 && is_given(line, "mix") && options->mix[OPERATION_GET] < 100)
        argp_error(state, "--get-many measures gets alone: leave out what else is in --mix");
    if (options->even && options->rate <= 0)
        argp_error(state, "--even is of an open loop: give --rate too");
    if (options->json && options->csv && strcmp(options->json, "-") == 0 &&
        strcmp(options->csv, "-") == 0)
        argp_error(state, "--json and --csv cannot both be on stdout: give one a FILE");
}

/* NULL when the variable is empty, too. */
static const char *environment(const char *name)
{
    const char *text = getenv(name);

    return text && text[0] != '\0' ? text : NULL;
}

/* As okv(1): $OKV_SERVER, else a well-known socket. */
static void default_target(struct options *options)
{
    const char *named = environment("OKV_SERVER");

    okv_default_uri_find(options->well_known, sizeof options->well_known);
    options->server_named = named != NULL;
    options->targets[0].uri = named ? named : options->well_known;
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
    check_replay(state, line);
    if (options->replay) {
        memset(options->mix, 0, sizeof options->mix);
        options->warmup = 0;
    }
    options->keep |= options->no_load || options->load_only; /* another run has use for them */
    if (options->get_many > 0) {
        memset(options->mix, 0, sizeof options->mix);
        options->mix[OPERATION_GET] = 100;
    }
    if (options->get_many > 0 && !is_given(line, "depth"))
        options->depth = options->get_many < OKV_DEPTH_MAX_OPERATIONS ? options->get_many
                                                                      : OKV_DEPTH_MAX_OPERATIONS;
    if (options->rate > 0 && !is_given(line, "depth"))
        options->depth = DEFAULT_OPEN_DEPTH;
    if (options->floor && options->operations == 0 && options->seconds == 0)
        options->operations = FLOOR_OPERATIONS;
    if (options->operations == 0 && options->seconds == 0 && !options->replay)
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

static error_t parse_option(struct command_line *line, int key, const char *text,
                            struct argp_state *state)
{
    const struct okv_option *option = okv_option_of_key(bench_options, key);
    struct okv_diag why;

    if (!option)
        return ARGP_ERR_UNKNOWN;
    line->given |= UINT64_C(1) << (option - bench_options);
    if (okv_option_read(option, text, line->options, &why) == 0)
        return 0;
    if (why.text[0] == ' ')
        argp_error(state, "--%s%s", option->name, why.text);
    else
        argp_error(state, "--%s '%s': %s", option->name, text, why.text);
    return EINVAL;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct command_line *line = state->input;

    switch (key) {
    case 's':
        read_target(state, text, line->options);
        line->options->server_named = true;
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
        return parse_option(line, key, text, state);
    }
}

static void print_version(FILE *out, struct argp_state *state)
{
    (void)state;
    fprintf(out, "kv-bench %s\ntransports: %s\n", okv_version(), okv_transports());
}

void options_parse(struct options *options, int argc, char **argv)
{
    struct okv_options_argp table;
    const struct argp parser = {.options = table.list, .parser = parse, .doc = bench_about};
    struct command_line line = {.options = options};
    const char *database = environment("OKV_DATABASE");
    char hint[OKV_SPELL_HINT_TEXT];

    *options = (struct options){
        .progress = isatty(STDERR_FILENO),
        .okv = {.user = environment("OKV_USER"), .key_file = environment("OKV_KEY_FILE")}};
    if (database)
        snprintf(options->okv.database, sizeof options->okv.database, "%s", database);
    okv_options_init(bench_options, options);
    okv_options_argp(bench_options, &table);
    argp_err_exit_status = USAGE_STATUS;
    argp_program_version_hook = print_version;
    if (okv_spell_hint(&parser, 0, argc, argv, hint)) {
        fprintf(stderr, "kv-bench: %s\n", hint);
        exit(USAGE_STATUS);
    }
    argp_parse(&parser, argc, argv, 0, NULL, &line);
}
