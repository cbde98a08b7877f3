/*
 * Whether users of one database can hurt those of another, or strangers anybody: honest clients
 * work at rest, and while all attacks of attack.h, or those that are named, go on.
 *
 * No value may be wrong, the server lives, and hardly an operation fails. How fast they are is
 * printed and not judged. --help has the options.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/chaos/attack.h"
#include "tests/chaos/attack_ends.h"
#include "tests/chaos/attack_figures.h"
#include "tests/chaos/honest.h"
#include "tests/figures/figure.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/sanitized.h"
#include "tests/support/server_process.h"
#include "tests/support/tls_files.h"
#include "tests/support/users_file.h"

#define EXIT_SKIPPED 77
#define SECONDS 4
#define SECONDS_LONG 600
#define SECONDS_MAX 100000
#define REST_PART 4 /* of that time the clients are alone as well */
#define FAILURES 0.001
#define FAILURES_SHORT 5 /* of few operations */
#define TEND_MS 20
#define RISE 8 /* of a figure; clients that come and go change one by less */
/* MiB that the server may have besides its databases: the 1 GiB of docs/resp.md, 1 MiB for each
 * RESP client that it lets in, and the replies to a command. */
#define OWN_MIB_MAX 2400
#define ARGUMENTS_MAX 24 /* of the server */

#define USERS                                                                                      \
    "[alice]\nkey = " KEY_A "\none = read, write\n"                                                \
    "[" ATTACK_USER "]\nkey = " KEY_B "\n" ATTACK_DATABASE " = read, write\n" ATTACK_DATABASE_FULL \
    " = read, write\n"                                                                             \
    "[carol]\nkey = " KEY_C "\n" ATTACK_DATABASE " = read, write, admin\n" ATTACK_DATABASE_FULL    \
    " = read, write, admin\n"

enum who { ALICE, MALLORY, CAROL, USERS_COUNT };

struct trial {
    bool is_long;
    uint64_t seconds, rounds, each; /* processes of an attack */
    int processor;                  /* of attackers; -1: any */
    int worker_cpu; /* unless it is any: where the server's worker and honest clients are */
    bool chosen[ATTACKS_MAX];
    bool is_any_chosen;
    struct users_file file;
    char key_files[USERS_COUNT][96];
    const char *json;   /* file for the figures; or NULL */
    char resp_path[96]; /* of the socket for clients of Redis */
    char resps[64];     /* of the listener with TLS */
    char cert[256], key[256];
    struct server_process server;
    okv *admin, *admin_of_full; /* who see all figures */
    struct attackers attackers;
    struct honest honest;
    struct attack_figures figures;
    double attacked_seconds;
    uint64_t most_memory; /* MiB that the server had of its own */
    unsigned failures;
};

__attribute__((format(printf, 2, 3))) static void complain(struct trial *trial, const char *format,
                                                           ...)
{
    va_list arguments;

    trial->failures++;
    va_start(arguments, format);
    fprintf(stderr, "attack_test: FAILED: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
}

/* ---- set-up ---- */

static const char *key_file(struct trial *trial, enum who who, const char *name, const char *key)
{
    char *path = trial->key_files[who];

    snprintf(path, sizeof trial->key_files[who], "%s", users_file_key(&trial->file, name, key));
    return path;
}

/* Honest clients are on the attackers' processor, and have it whenever they have something to do:
 * as if they were on hosts of their own. */
static void go_first(const struct trial *trial)
{
    struct sched_param first = {.sched_priority = 1};
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET((unsigned)trial->processor, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    if (sched_setscheduler(0, SCHED_FIFO, &first))
        printf("honest clients have no higher priority: that takes root\n");
}

/* Nobody else's server is at an address that is made of this process' number. */
static void choose_addresses(struct trial *trial)
{
    unsigned pid = (unsigned)getpid();

    snprintf(trial->resp_path, sizeof trial->resp_path, "%s/resp.sock", trial->file.directory);
    snprintf(trial->resps, sizeof trial->resps, "resps://127.%u.%u.%u:6380", 1 + pid / 40000 % 200,
             1 + pid / 200 % 200, 1 + pid % 200);
    snprintf(trial->cert, sizeof trial->cert, "%s/cert", trial->file.directory);
    snprintf(trial->key, sizeof trial->key, "%s/key", trial->file.directory);
}

/* That of the transport, or one of its own. */
static void choose_certificate(struct trial *trial)
{
    if (server_has_tls()) {
        test_tls_file("server.pem", trial->cert);
        test_tls_file("server.key", trial->key);
    } else {
        attack_write_certificate(trial->cert, trial->key);
    }
}

static void start_server(struct trial *trial)
{
    /* In the guest there is less memory. */
    const char *database = server_is_slow() ? ATTACK_DATABASE ":128M" : ATTACK_DATABASE ":512M";
    const bool is_apart = trial->processor >= 0;
    const char *arguments[ARGUMENTS_MAX] = {"--users", trial->file.users, "--database", "one:16M",
                                            "--database", database, "--database",
                                            ATTACK_DATABASE_FULL ":32M",
                                            /* Commands that run alone stop the other worker. */
                                            "--workers", is_apart ? "1" : "2"};
    unsigned count = 10;
    char worker_cpu[16], resp[128];

    snprintf(resp, sizeof resp, "resp://%s", trial->resp_path);
    snprintf(worker_cpu, sizeof worker_cpu, "%d", trial->worker_cpu);
    arguments[count++] = "--listen";
    arguments[count++] = resp;
    if (is_apart) {
        arguments[count++] = "--worker-cpus";
        arguments[count++] = worker_cpu;
    }
    if (attack_has_tls()) {
        choose_certificate(trial);
        const char *const tls[] = {"--listen",  trial->resps, "--tls-cert",
                                   trial->cert, "--tls-key",  trial->key};
        memcpy(arguments + count, tls, sizeof tls);
    }
    server_start(&trial->server, arguments);
}

static void set_up(struct trial *trial)
{
    struct okv_options alice = {.user = "alice", .database = "one"};
    struct okv_options admin = {.user = "carol", .database = ATTACK_DATABASE};

    users_file_open(&trial->file);
    users_file_write(&trial->file, USERS);
    choose_addresses(trial);
    start_server(trial);
    if (trial->processor >= 0)
        go_first(trial);
    alice.key_file = key_file(trial, ALICE, "alice", KEY_A);
    admin.key_file = key_file(trial, CAROL, "carol", KEY_C);
    honest_init(&trial->honest, trial->server.uri, &alice);
    attack_figures_init(&trial->figures);
    trial->admin = server_connect(&trial->server, &admin);
    strcpy(admin.database, ATTACK_DATABASE_FULL);
    trial->admin_of_full = server_connect(&trial->server, &admin);
    const struct attack_target target = {
        .uri = trial->server.uri,
        .resp_path = trial->resp_path,
        .resps = trial->resps,
        .key_file = key_file(trial, MALLORY, ATTACK_USER, KEY_B),
    };
    attackers_init(&trial->attackers, &target, (unsigned)trial->each, trial->processor);
}

static void tear_down(struct trial *trial)
{
    attackers_fini(&trial->attackers);
    users_file_close(&trial->file);
}

/* ---- the attack ---- */

/* NULL: it is possible. */
static const char *why_impossible(const struct attack *attack)
{
    if (attack->reach == ATTACK_TLS)
        return attack_has_tls() ? NULL : "this build has no OpenSSL";
    if (attack->reach == ATTACK_LOCAL && !server_is_local())
        return "there is no shared memory";
    return attack->reach == ATTACK_SOCKET && server_is_rdma() ? "there is no socket" : NULL;
}

/* Resident, in MiB. */
static uint64_t own_memory(const struct trial *trial)
{
    char path[64], line[256];
    uint64_t kib = 0;

    snprintf(path, sizeof path, "/proc/%d/status", (int)trial->server.pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "RssAnon: %" SCNu64, &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib >> 10;
}

/* An attacker goes on until it is killed. */
static void tend(struct trial *trial)
{
    uint64_t memory = own_memory(trial);

    trial->most_memory = memory > trial->most_memory ? memory : trial->most_memory;
    if (memory > OWN_MIB_MAX && !OKV_SANITIZED) /* which has memory of its own */
        complain(trial, "the server has %" PRIu64 " MiB of its own memory", memory);
    for (size_t i = 0; i < attack_count; i++)
        if (attackers_has_ended(&trial->attackers, i))
            complain(trial, "the attacker %s ended by itself", attacks[i].name);
}

/* Starts it and waits until it took place, and the server counted something of it. */
static void begin_attack(struct trial *trial, size_t index)
{
    const char *figure = attacks[index].figure;
    okv *admin = attacks[index].reach == ATTACK_FULL ? trial->admin_of_full : trial->admin;
    const struct attack_state *state = &trial->attackers.states[index];
    uint64_t before = figure ? server_stat(admin, figure) : 0;
    uint64_t done = atomic_load(&state->done), guard = pace_guard_end();

    attackers_start(&trial->attackers, index);
    while (atomic_load(&state->done) == done && okv_clock_ns() < guard)
        pace_sleep_ms(TEND_MS);
    if (atomic_load(&state->done) == done)
        complain(trial, "%s: the attack did not take place", attacks[index].name);
    else if (figure && done == 0) /* later it may be at its limit */
        server_await_stat_from(admin, figure, before + RISE);
}

static void begin_attacks(struct trial *trial)
{
    for (size_t i = 0; i < attack_count; i++)
        if (trial->chosen[i])
            begin_attack(trial, i);
}

/* One after the other; then all go on for so long. */
static void attack_for(struct trial *trial, uint64_t seconds)
{
    uint64_t begin = okv_clock_ns();

    begin_attacks(trial);
    uint64_t end = okv_clock_ns() + seconds * 1000000000u;
    while (trial->failures == 0 && okv_clock_ns() < end && server_is_running(&trial->server)) {
        pace_sleep_ms(TEND_MS);
        tend(trial);
    }
    trial->attacked_seconds += (double)(okv_clock_ns() - begin) / 1e9;
}

/* A value of the greatest length needs the memory for values that are under way. */
static void put_long(struct trial *trial)
{
    struct okv_info info;

    okv_info(trial->admin, &info);
    uint8_t *value = calloc(1, info.max_value);
    assert_non_null(value);
    int status = okv_put(trial->admin, "long", 4, value, info.max_value, NULL);
    if (status)
        complain(trial, "no long put after the attack: %s", okv_why(trial->admin));
    free(value);
}

static void empty(struct trial *trial, okv *admin)
{
    int status = okv_flush(admin);

    if (status)
        complain(trial, "no flush after the attack: %s", okv_why(admin));
    server_await_stat(admin, "extent_bytes", 0);
}

/* Nothing stays behind: no RESP client, no memory of values that were under way. */
static void expect_nothing_left(struct trial *trial)
{
    if (!server_is_running(&trial->server))
        return;
    server_await_stat(trial->admin, "resp_clients", 0);
    server_await_stat(trial->admin, "sessions", 2);
    empty(trial, trial->admin);
    empty(trial, trial->admin_of_full);
    put_long(trial);
}

static void raise_to(double *most, double value)
{
    *most = value > *most ? value : *most;
}

/* In both databases, while the attackers go on. */
static void end_their_sessions(struct trial *trial)
{
    raise_to(&trial->figures.kill_ms, attack_ends_kill(trial->admin, ATTACK_USER));
    raise_to(&trial->figures.kill_ms, attack_ends_kill(trial->admin_of_full, ATTACK_USER));
}

/* Stops the server while attacks go on. */
static void end_server(struct trial *trial)
{
    int status;

    if (!server_is_running(&trial->server))
        complain(trial, "the server is gone");
    else if (trial->failures == 0)
        begin_attacks(trial);
    okv_close(&trial->admin);
    okv_close(&trial->admin_of_full);
    trial->figures.stop_ms = attack_ends_stop(&trial->server, &status);
    if (status)
        complain(trial, "the server ended with status %d", status);
    attackers_kill(&trial->attackers);
}

static void run(struct trial *trial)
{
    uint64_t seconds = trial->seconds / trial->rounds;

    for (uint64_t round = 0; round < trial->rounds; round++) {
        honest_begin(&trial->honest);
        pace_sleep_ms((uint32_t)(seconds * 1000 / REST_PART));
        honest_end(&trial->honest, &trial->figures.at_rest);
        honest_begin(&trial->honest);
        attack_for(trial, seconds);
        honest_end(&trial->honest, &trial->figures.attacked);
        end_their_sessions(trial);
        attackers_kill(&trial->attackers);
        expect_nothing_left(trial);
    }
}

/* ---- what came of it ---- */

static void print_attacks(const struct trial *trial)
{
    for (size_t i = 0; i < attack_count; i++) {
        const struct attack_state *state = &trial->attackers.states[i];
        uint64_t done = atomic_load(&state->done), refused = atomic_load(&state->refused);
        if (!trial->chosen[i])
            continue;
        printf("%-17s %10.1f/s, %5.1f %% refused: %s\n", attacks[i].name,
               (double)done / trial->attacked_seconds,
               done ? 100.0 * (double)refused / (double)done : 0, attacks[i].about);
    }
}

static void judge_honest(struct trial *trial, const struct honest_figures *figures,
                         const char *when)
{
    uint64_t failed = 0, all = 0;

    for (unsigned kind = 0; kind < HONEST_KINDS; kind++) {
        failed += figures->failed[kind];
        all += figures->failed[kind] + figures->times[kind].count;
    }
    printf("%s: of %" PRIu64 " operations failed %" PRIu64 " puts, %" PRIu64 " gets, %" PRIu64
           " opens; %" PRIu64 " took over 5 s; %" PRIu64 " wrong values%s%s\n",
           when, all, figures->failed[HONEST_PUT], figures->failed[HONEST_GET],
           figures->failed[HONEST_OPEN], figures->late, figures->wrong,
           failed ? "; the last failure: " : "", figures->why);
    if (figures->wrong)
        complain(trial, "%s: %" PRIu64 " wrong values", when, figures->wrong);
    for (unsigned kind = 0; kind < HONEST_KINDS; kind++)
        if (figures->times[kind].count == 0)
            complain(trial, "%s: there were no operations of a kind", when);
    if ((double)failed > FAILURES * (double)all + (trial->is_long ? 0 : FAILURES_SHORT))
        complain(trial, "%s: %" PRIu64 " of %" PRIu64 " operations failed", when, failed, all);
}

/* As "append, 60 processes, 20 s". */
static void name_attacks(const struct trial *trial, char *name, size_t size)
{
    size_t length = 0;

    name[0] = '\0';
    for (size_t i = 0; i < attack_count && trial->is_any_chosen; i++)
        if (trial->chosen[i])
            length += (size_t)snprintf(name + length, size - length, "%s, ", attacks[i].name);
    if (!trial->is_any_chosen)
        length = (size_t)snprintf(name, size, "all, ");
    if (trial->each > 1)
        length +=
            (size_t)snprintf(name + length, size - length, "%" PRIu64 " processes, ", trial->each);
    snprintf(name + length, size - length, "%" PRIu64 " s", trial->seconds);
}

static void report(struct trial *trial)
{
    char name[ATTACKS_MAX * 32];

    print_attacks(trial);
    attack_figures_print(&trial->figures);
    printf("the server had at most %" PRIu64 " MiB of its own memory\n", trial->most_memory);
    judge_honest(trial, &trial->figures.at_rest, "at rest");
    judge_honest(trial, &trial->figures.attacked, "attacked");
    name_attacks(trial, name, sizeof name);
    trial->figures.name = name;
    int rc = trial->json ? attack_figures_write(&trial->figures, trial->json) : 0;
    if (rc)
        complain(trial, "%s: %s", trial->json, strerror(-rc));
}

/* ---- the command line ---- */

static void choose(struct trial *trial, const char *name, struct argp_state *state)
{
    for (size_t i = 0; i < attack_count; i++)
        if (strcmp(attacks[i].name, name) == 0) {
            trial->chosen[i] = trial->is_any_chosen = true;
            return;
        }
    argp_error(state, "%s: there is no such attack", name);
}

/* Finds one for the worker. */
static void choose_processor(struct trial *trial, struct argp_state *state)
{
    cpu_set_t usable;
    int cpu = 0;

    if (sched_getaffinity(0, sizeof usable, &usable))
        argp_failure(state, 2, errno, "the system does not tell its processors");
    while (cpu < CPU_SETSIZE && (cpu == trial->processor || !CPU_ISSET((unsigned)cpu, &usable)))
        cpu++;
    if (cpu == CPU_SETSIZE || !CPU_ISSET((unsigned)trial->processor, &usable))
        argp_failure(state, 2, 0, "no processor %d, or no other", trial->processor);
    trial->worker_cpu = cpu;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct trial *trial = state->input;

    switch (key) {
    case 's':
        trial->seconds = figure_number(text, 1, SECONDS_MAX, state);
        return 0;
    case 'r':
        trial->rounds = figure_number(text, 1, SECONDS_MAX, state);
        return 0;
    case 'c':
        trial->each = figure_number(text, 1, ATTACKERS_MAX, state);
        return 0;
    case 'p':
        trial->processor = (int)figure_number(text, 0, CPU_SETSIZE - 1, state);
        choose_processor(trial, state);
        return 0;
    case 'j':
        trial->json = text;
        return 0;
    case 'l':
        for (size_t i = 0; i < attack_count; i++)
            puts(attacks[i].name);
        exit(0);
    case ARGP_KEY_ARG:
        choose(trial, text, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Behind the options, as argp has it. */
static char *list_attacks(int key, const char *text, void *input)
{
    char *list = NULL;
    size_t size;
    FILE *out;

    (void)input;
    if (key != ARGP_KEY_HELP_EXTRA || !(out = open_memstream(&list, &size)))
        return (char *)text;
    for (size_t i = 0; i < attack_count; i++)
        fprintf(out, "  %-17s %s\n", attacks[i].name, attacks[i].about);
    fclose(out);
    return list;
}

/* Chooses all without a choice, and leaves out what is not possible here. False: everything. */
static bool keep_possible(struct trial *trial)
{
    bool is_any_possible = false;

    for (size_t i = 0; i < attack_count; i++) {
        const char *why = why_impossible(&attacks[i]);
        bool is_wanted = trial->chosen[i] || !trial->is_any_chosen;
        trial->chosen[i] = is_wanted && !why;
        is_any_possible = is_any_possible || trial->chosen[i];
        if (is_wanted && why)
            printf("%-17s skipped: %s\n", attacks[i].name, why);
    }
    return is_any_possible;
}

/* False: nothing that is asked for is possible here. */
static bool read_arguments(struct trial *trial, int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"seconds", 's', "N", 0, "How long to attack (4; with OKV_LONG=1 600)", 0},
        {"copies", 'c', "N", 0, "So many processes of each attack (1)", 0},
        {"rounds", 'r', "N", 0, "In so many rounds, each with a rest before it (1)", 0},
        {"processor", 'p', "N", 0,
         "The server's one worker has another processor to itself. Honest clients run first on "
         "processor N, attackers last",
         0},
        {"json", 'j', "FILE", 0, "Write the figures to FILE, for bench/results", 0},
        {"list", 'l', NULL, 0, "Print the names of all attacks and end", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .args_doc = "[ATTACK...]",
        .doc =
            "Honest clients of a server that is attacked, by all attacks or those that are named.",
        .help_filter = list_attacks};
    const char *is_long = getenv("OKV_LONG");

    trial->is_long = is_long && strcmp(is_long, "1") == 0;
    trial->seconds = trial->is_long ? SECONDS_LONG : SECONDS;
    trial->rounds = trial->each = 1;
    trial->processor = -1;
    argp_parse(&argp, argc, argv, 0, NULL, trial);
    if (trial->rounds > trial->seconds)
        trial->rounds = trial->seconds;
    return keep_possible(trial);
}

int main(int argc, char **argv)
{
    static struct trial trial;

    if (argc > 1 && strcmp(argv[1], ATTACKER_ROLE) == 0)
        return attacker_main(argc, argv);
    if (!read_arguments(&trial, argc, argv)) {
        printf("skipped: no such attack here\n");
        return EXIT_SKIPPED;
    }
    set_up(&trial);
    run(&trial);
    end_server(&trial);
    report(&trial);
    tear_down(&trial);
    return trial.failures ? 1 : 0;
}
