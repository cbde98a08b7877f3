#include "server/config.h"

#include <argp.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config_databases.h"
#include "server/processors.h"
#include "server/store/store.h"
#include "shared/base/default_uri.h"
#include "shared/discovery/discovery.h"
#include "shared/format/bucket.h"
#include "shared/format/wire.h"
#include "shared/transport/pending.h"
#include "shared/transport/transport.h"

#define EXIT_USAGE 2
#define RATIO_MAX 1000
#define DAY_S 86400u
#define SILENT_MAX 1024u
#define DEFAULT_WORKERS_MAX 4
#define DEFAULT_NAME "okv"

enum option_key {
    OPTION_BUCKET_SIZE = 256,
    OPTION_INLINE_MAX,
    OPTION_MAX_VALUE,
    OPTION_EXTRA_READS,
    OPTION_INDEX_PERCENT,
    OPTION_CREDITS,
    OPTION_WORKERS,
    OPTION_WORKER_CPUS,
    OPTION_MAX_CLIENTS,
    OPTION_MAX_CLIENTS_PER_USER,
    OPTION_MAX_CLIENTS_PER_ADDRESS,
    OPTION_MAX_SILENT,
    OPTION_HELLO_MS,
    OPTION_KEEPALIVE_MS,
    OPTION_IDLE_S,
    OPTION_REMEMBER_S,
    OPTION_DRAIN_MS,
    OPTION_SPIN_US,
    OPTION_HUGE,
    OPTION_PREFAULT,
    OPTION_ANNOUNCE,
    OPTION_NAME,
    OPTION_DATABASE,
    OPTION_DATA,
    OPTION_RESTORE,
    OPTION_SYNC,
    OPTION_SNAPSHOT_RATIO,
    OPTION_CHECK,
    OPTION_SALVAGE,
    OPTION_TO,
    OPTION_USERS,
    OPTION_METRICS,
    OPTION_OPEN,
    OPTION_WIPE,
};

/* What the options have said so far. */
struct parsing {
    struct okv_config *config;
    struct okv_config_databases databases;
    const char *reachable; /* the --listen that other hosts may reach; NULL: none */
    bool has_sync;         /* --sync was given */
};

static const char about[] =
    "Serves a key-value table that clients read with one-sided RDMA READs."
    "\v"
    "URI is rdma://ADDRESS[:PORT] for an address of an RDMA device (InfiniBand, RoCE, soft-RoCE), "
    "ofi://ADDRESS[:PORT][?provider=NAME] for another fabric by libfabric, TCP among them, "
    "or local:///PATH for clients of this user and root on this host over shared memory, and "
    "local:///PATH?uids=any for those of all users. Prints one line `ready URI...` when it serves. "
    "SIGTERM and SIGINT end it; it tells its clients.\n"
    "\n"
    "Examples:\n"
    "  okv-server --listen local:///run/okv.sock --memory 16G --huge\n"
    "  okv-server --listen rdma://10.0.0.1:7471 --listen local:///run/okv.sock --open\n"
    "\n"
    "Exit status: 0 after a signal, 2 for a wrong command line, 3 if it cannot serve, 4 if --check "
    "or "
    "--salvage found damage.";

static const struct argp_option options[] = {
    {"listen", 'l', "URI", 0,
     "Where to serve; may be repeated. Default: local:///run/okv.sock as root, else a socket in "
     "$XDG_RUNTIME_DIR or /tmp",
     1},
    {"open", OPTION_OPEN, NULL, 0,
     "Serve whoever reaches the server. Without it and --users a URI that other hosts reach is "
     "refused: every rdma://, and ofi:// but for the loopback addresses 127.0.0.0/8 and [::1]",
     1},
    {"announce", OPTION_ANNOUNCE, "GROUP", OPTION_ARG_OPTIONAL,
     "Answer clients that look for servers in the multicast group GROUP (" OKV_DISCOVERY_GROUP
     "): okv discover, rdma://discover/NAME",
     1},
    {"name", OPTION_NAME, "NAME", 0,
     "What --announce calls this server (" DEFAULT_NAME "): " OKV_NAME_RULE, 1},
    {"database", OPTION_DATABASE, "NAME[:SIZE][,sync=MODE]", 0,
     "A database of this name and size; may be repeated. A client reaches the one that it names "
     "(?database=NAME) and no other. Default: one called " OKV_DATABASE_DEFAULT
     ", of --memory and with --sync. NAME: " OKV_NAME_RULE,
     2},
    {"data", OPTION_DATA, "DIR", 0,
     "Keep each database in a log below DIR, which is created if it is not there: a write is "
     "answered, and seen by readers, once it is on the disk. A start reads the log. Default: in "
     "memory only",
     2},
    {"sync", OPTION_SYNC, "MODE", 0,
     "With --data, when a change is on the disk: always: before it is answered or seen; a time "
     "such "
     "as 100ms: so much later at most; never: when the kernel likes, and at a stop. A crash of the "
     "host loses what is not; see okv-server(1) (always)",
     2},
    {"restore", OPTION_RESTORE, "FILE", 0,
     "Begin a database, of which DIR has nothing, with this copy of a snapshot: okv-server(1)", 2},
    {"snapshot-ratio", OPTION_SNAPSHOT_RATIO, "R", 0,
     "Replace a log by a snapshot when it is R times as long as the data, and at a stop (1.5). "
     "0: only by okv admin snapshot",
     2},
    {"check", OPTION_CHECK, "DIR", 0,
     "Do not serve: verify all that a start with --data DIR would read, or the directory of one "
     "database, and list what is damaged. Changes nothing",
     2},
    {"salvage", OPTION_SALVAGE, "DIR", 0,
     "Do not serve: write what is whole in DIR to the directory of --to, for a start with --data, "
     "and list what is not. See okv-server(1) for what it may bring back",
     2},
    {"to", OPTION_TO, "DIR", 0, "Where --salvage writes: not there, or empty", 2},
    {"users", OPTION_USERS, "FILE", 0,
     "Serve only users that FILE names, each with a key and rights in databases: see USERS in "
     "okv-server(1). SIGHUP reads it again",
     2},
    {"metrics", OPTION_METRICS, "HOST:PORT", 0,
     "Figures for Prometheus over HTTP, such as 127.0.0.1:9469: /metrics, /healthz and /readyz", 2},
    {"memory", 'm', "SIZE", 0, "Size of a database without one, from 1M (256M)", 2},
    {"huge", OPTION_HUGE, "KIND", OPTION_ARG_OPTIONAL,
     "Put the region on 2 MiB pages, or fail: gets over shared memory and registration are faster. "
     "KIND: `reserved' ones (sysctl vm.nr_hugepages; also what --huge alone asks for) or "
     "`transparent' ones, which the kernel makes as the server starts, in up to 4 seconds per GiB",
     2},
    {"prefault", OPTION_PREFAULT, NULL, 0,
     "Take all memory of the region at the start, in a second or two per GiB: no put waits for a "
     "page later",
     2},
    {"wipe", OPTION_WIPE, NULL, 0,
     "Zero the memory of a value that is deleted, replaced or expired. Otherwise clients can read "
     "it there until it is used again",
     2},
    {"max-value", OPTION_MAX_VALUE, "SIZE", 0,
     "Largest value, to 64M and a quarter of the smallest database (the smaller of the two)", 2},
    {"bucket-size", OPTION_BUCKET_SIZE, "SIZE", 0,
     "Bytes that one READ fetches: 256, 512, 1K, 2K or 4K (512). A larger bucket keeps larger "
     "items inline and wastes less of the table, and every get moves more bytes",
     2},
    {"inline-max", OPTION_INLINE_MAX, "SIZE", 0,
     "Largest entry that is kept in its bucket, where a get finds it with one READ: key, value "
     "and 4 bytes or more (a third of a bucket's room: 162 of 512 bytes). More saves READs of "
     "large items and lets fewer items share a bucket",
     2},
    {"extra-reads", OPTION_EXTRA_READS, "N", 0,
     "READs beyond one per get, in 1000 gets of small items, that make the index grow: 1 to 1000 "
     "(5 while the region is empty, to 40 when it is full). Less makes gets quicker on average "
     "and takes more memory for the index",
     2},
    {"index-percent", OPTION_INDEX_PERCENT, "P", 0,
     "Largest share of the region that the index may take, in percent: 10 to 95 (75). More lets a "
     "fuller table of small items keep to one READ for each; less keeps room for large values",
     2},
    {"workers", OPTION_WORKERS, "N", 0,
     "Worker threads; each serves a share of the clients: 1 to 64 (half of the CPUs, up to 4)", 3},
    {"worker-cpus", OPTION_WORKER_CPUS, "LIST", 0,
     "Give each worker a processor of its own, such as 2-5,8, and keep all other threads of the "
     "server off them. Needs as many as there are workers, and one that is left (any processor)",
     3},
    {"max-clients", OPTION_MAX_CLIENTS, "N", 0, "Clients at once: 1 to 10000 (1024)", 3},
    {"max-clients-per-user", OPTION_MAX_CLIENTS_PER_USER, "N", 0,
     "With --users: clients at once of one user; 0: as many as in all (half of --max-clients)", 3},
    {"max-clients-per-address", OPTION_MAX_CLIENTS_PER_ADDRESS, "N", 0,
     "Clients at once from one address, over local:// of one uid; 0: as many as in all (half of "
     "--max-clients; with --users 0)",
     3},
    {"max-silent", OPTION_MAX_SILENT, "N", 0,
     "Connections to one local:// or ofi:// listener that have not said hello: 1 to 1024 (128). "
     "One more drops one of the uid or host that has most",
     3},
    {"hello-ms", OPTION_HELLO_MS, "MS", 0,
     "How long a client may take to say hello, over rdma:// to confirm its connection: 100 to "
     "600000 (3000 over local://, 5000 over rdma://, 10000 over ofi://)",
     3},
    {"credits", OPTION_CREDITS, "N", 0, "Requests that a client may have outstanding (16)", 3},
    {"keepalive-ms", OPTION_KEEPALIVE_MS, "MS", 0,
     "A dead client is found within this time: 200 to 600000 (3000)", 3},
    {"idle-s", OPTION_IDLE_S, "S", 0,
     "Disconnect a client that sends no request for this long; gets do not count. 0: never (0)", 3},
    {"remember-s", OPTION_REMEMBER_S, "S", 0,
     "How long the server keeps the reply cache of a client that is gone: 0 to 86400 (60)", 3},
    {"drain-ms", OPTION_DRAIN_MS, "MS", 0,
     "How long clients may take to leave when the server ends (5000)", 3},
    {"spin-us", OPTION_SPIN_US, "US", 0, "How long an idle worker polls before it sleeps (50)", 3},
    {0},
};

/* Names count as other hosts: who serves the name may change what it stands for. */
static bool is_loopback(const char *host)
{
    struct in6_addr in6;
    struct in_addr in;

    if (inet_pton(AF_INET, host, &in) == 1)
        return ntohl(in.s_addr) >> IN_CLASSA_NSHIFT == IN_LOOPBACKNET;
    return inet_pton(AF_INET6, host, &in6) == 1 && IN6_IS_ADDR_LOOPBACK(&in6);
}

/* RDMA devices have no loopback address. */
static bool is_reachable(const struct okv_uri *uri)
{
    return uri->scheme == OKV_SCHEME_RDMA ||
           (uri->scheme == OKV_SCHEME_OFI && !is_loopback(uri->host));
}

static void parse_listen(struct parsing *parsing, const char *text, struct argp_state *state)
{
    struct okv_config *config = parsing->config;
    struct okv_diag diag;

    if (config->listen_count == OKV_LISTENERS_MAX)
        argp_error(state, "--listen: at most %d URIs", OKV_LISTENERS_MAX);
    else if (okv_uri_parse(text, &config->listen[config->listen_count], &diag))
        argp_error(state, "--listen %s: %s", text, diag.text);
    else if (config->listen[config->listen_count].name[0])
        argp_error(state,
                   "--listen %s: this is for clients; name an address, and the server with "
                   "--announce --name",
                   text);
    else if (config->listen[config->listen_count].source[0])
        argp_error(state, "--listen %s: 'source' is for clients; name the address itself", text);
    else if (config->listen[config->listen_count].database[0])
        argp_error(state, "--listen %s: 'database' is for clients; make one with --database", text);
    else if (is_reachable(&config->listen[config->listen_count++]))
        parsing->reachable = text;
}

static void check_reach(const struct parsing *parsing, struct argp_state *state)
{
    struct okv_config *config = parsing->config;

    config->is_reachable = parsing->reachable != NULL;
    if (config->is_reachable && !config->is_open && !config->users)
        argp_error(state,
                   "--listen %s: other hosts may reach it, and whoever does can read, write and "
                   "flush everything: name who may with --users, or give --open if all may, or "
                   "listen on local:///PATH or on a loopback address, such as ofi://127.0.0.1",
                   parsing->reachable);
}

static uint32_t parse_number(const char *option, const char *text, uint32_t least, uint32_t most,
                             struct argp_state *state)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || number < least || number > most)
        argp_error(state, "--%s %s: give a number from %u to %u", option, text, least, most);
    return (uint32_t)number;
}

/* NULL: the option has no argument. */
static enum okv_region_pages parse_pages(const char *text, struct argp_state *state)
{
    if (!text || strcmp(text, "reserved") == 0)
        return OKV_REGION_RESERVED;
    if (strcmp(text, "transparent") != 0)
        argp_error(state, "--huge=%s: give reserved or transparent", text);
    return OKV_REGION_TRANSPARENT;
}

/* NULL: the option has no argument. */
static void parse_announce(struct okv_config *config, const char *text, struct argp_state *state)
{
    const char *group = text ? text : OKV_DISCOVERY_GROUP;

    if (!okv_group_is_valid(group))
        argp_error(state, "--announce=%s: give " OKV_GROUP_RULE, group);
    else
        memcpy(config->group, group, strlen(group) + 1);
}

static void parse_server_name(struct okv_config *config, const char *text, struct argp_state *state)
{
    if (!okv_name_is_valid(text))
        argp_error(state, "--name %s: give " OKV_NAME_RULE, text);
    else
        memcpy(config->name, text, strlen(text) + 1);
}

static void check_server_name(struct okv_config *config, struct argp_state *state)
{
    if (config->name[0] && !config->group[0])
        argp_error(state, "--name %s: it needs --announce, too", config->name);
    if (!config->name[0])
        memcpy(config->name, DEFAULT_NAME, sizeof DEFAULT_NAME);
}

static void check_restore(const struct okv_config *config, struct argp_state *state)
{
    if (config->restore && (!config->data || config->database_count > 1))
        argp_error(state, "--restore %s: give --data DIR, too, and one database", config->restore);
}

/* Options with a number. */
static const struct number_option {
    int key;
    const char *name;
    uint32_t least, most;
    size_t field;
} numbers[] = {
    {OPTION_EXTRA_READS, "extra-reads", 1, 1000, offsetof(struct okv_config, table.extra_reads)},
    {OPTION_INDEX_PERCENT, "index-percent", 10, 95,
     offsetof(struct okv_config, table.index_percent)},
    {OPTION_CREDITS, "credits", 1, OKV_CREDITS_MAX, offsetof(struct okv_config, credits)},
    {OPTION_WORKERS, "workers", 1, OKV_WORKERS_MAX, offsetof(struct okv_config, workers)},
    {OPTION_MAX_CLIENTS, "max-clients", 1, OKV_CLIENTS_MAX,
     offsetof(struct okv_config, max_clients)},
    {OPTION_MAX_CLIENTS_PER_USER, "max-clients-per-user", 0, OKV_CLIENTS_MAX,
     offsetof(struct okv_config, max_clients_per_user)},
    {OPTION_MAX_CLIENTS_PER_ADDRESS, "max-clients-per-address", 0, OKV_CLIENTS_MAX,
     offsetof(struct okv_config, max_clients_per_address)},
    {OPTION_MAX_SILENT, "max-silent", 1, SILENT_MAX, offsetof(struct okv_config, max_silent)},
    {OPTION_HELLO_MS, "hello-ms", 100, 600000, offsetof(struct okv_config, hello_ms)},
    {OPTION_KEEPALIVE_MS, "keepalive-ms", 200, 600000, offsetof(struct okv_config, keepalive_ms)},
    {OPTION_IDLE_S, "idle-s", 0, 365 * DAY_S, offsetof(struct okv_config, idle_s)},
    {OPTION_REMEMBER_S, "remember-s", 0, DAY_S, offsetof(struct okv_config, remember_s)},
    {OPTION_DRAIN_MS, "drain-ms", 0, 600000, offsetof(struct okv_config, drain_ms)},
    {OPTION_SPIN_US, "spin-us", 0, 1000000, offsetof(struct okv_config, spin_us)},
};

static error_t parse_number_option(struct okv_config *config, int key, const char *text,
                                   struct argp_state *state)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        const struct number_option *option = &numbers[i];
        if (option->key != key)
            continue;
        uint32_t number = parse_number(option->name, text, option->least, option->most, state);
        memcpy((char *)config + option->field, &number, sizeof number);
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static void parse_snapshot_ratio(struct okv_config *config, const char *text,
                                 struct argp_state *state)
{
    char *end;
    double ratio = strtod(text, &end);

    if (end == text || *end || !(ratio >= 0 && ratio <= RATIO_MAX))
        argp_error(state, "--snapshot-ratio %s: give a number from 0 to %d, such as 0.5", text,
                   RATIO_MAX);
    config->snapshot_ratio = ratio;
}

static void parse_worker_cpus(struct okv_config *config, const char *text, struct argp_state *state)
{
    struct okv_diag diag;

    if (okv_processors_parse(text, &config->worker_cpus, &diag))
        argp_error(state, "--worker-cpus %s", diag.text);
}

static void check_worker_cpus(const struct okv_config *config, struct argp_state *state)
{
    int count = CPU_COUNT(&config->worker_cpus);

    if (count > 0 && (uint32_t)count != config->workers)
        argp_error(state,
                   "--worker-cpus names %d processors, and there are %u workers: name one for "
                   "each, or give --workers %d",
                   count, config->workers, count);
}

static void check_offline(const struct okv_config *config, struct argp_state *state)
{
    if (config->check && config->salvage)
        argp_error(state, "--check and --salvage: give one of them");
    if (config->salvage && !config->to)
        argp_error(state, "--salvage %s: say where to write with --to DIR", config->salvage);
    if (config->to && !config->salvage)
        argp_error(state, "--to %s: it needs --salvage DIR, too", config->to);
}

static void check_sync(const struct parsing *parsing, struct argp_state *state)
{
    const struct okv_config *config = parsing->config;
    bool has_sync = parsing->has_sync;

    for (unsigned i = 0; i < config->database_count; i++)
        has_sync |= config->databases[i].sync_within_ns != 0;
    if (has_sync && !config->data)
        argp_error(state, "--sync: it is about a log: give --data DIR, too");
}

static void set_flag(struct okv_config *config, int key)
{
    config->prefault |= key == OPTION_PREFAULT;
    config->wipe |= key == OPTION_WIPE;
    config->is_open |= key == OPTION_OPEN;
}

/* Options of the server as a whole. */
static error_t parse_server_option(struct okv_config *config, int key, const char *text,
                                   struct argp_state *state)
{
    switch (key) {
    case OPTION_USERS:
        config->users = text;
        break;
    case OPTION_METRICS:
        config->metrics = text;
        break;
    case OPTION_DATA:
        config->data = text;
        break;
    case OPTION_RESTORE:
        config->restore = text;
        break;
    case OPTION_CHECK:
        config->check = text;
        break;
    case OPTION_SALVAGE:
        config->salvage = text;
        break;
    case OPTION_TO:
        config->to = text;
        break;
    case OPTION_SNAPSHOT_RATIO:
        parse_snapshot_ratio(config, text, state);
        break;
    case OPTION_ANNOUNCE:
        parse_announce(config, text, state);
        break;
    case OPTION_NAME:
        parse_server_name(config, text, state);
        break;
    case OPTION_WORKER_CPUS:
        parse_worker_cpus(config, text, state);
        break;
    default:
        return parse_number_option(config, key, text, state);
    }
    return 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct parsing *parsing = state->input;
    struct okv_config *config = parsing->config;
    struct okv_database_config *table = &config->table;

    switch (key) {
    case 'l':
        parse_listen(parsing, text, state);
        break;
    case 'm':
        table->memory = okv_config_memory("memory", text, state);
        break;
    case OPTION_BUCKET_SIZE:
        table->bucket_size = (uint32_t)okv_config_size("bucket-size", text, OKV_BUCKET_SIZE_MIN,
                                                       OKV_BUCKET_SIZE_MAX, state);
        if (!okv_bucket_size_valid(table->bucket_size))
            argp_error(state, "--bucket-size %s: give a power of two, like 512 or 1K", text);
        break;
    case OPTION_INLINE_MAX:
        table->inline_max =
            (uint32_t)okv_config_size("inline-max", text, 1, OKV_BUCKET_SIZE_MAX, state);
        break;
    case OPTION_MAX_VALUE:
        table->max_value = (uint32_t)okv_config_size("max-value", text, 1, OKV_VALUE_MAX, state);
        break;
    case OPTION_SYNC:
        table->sync_within_ns = okv_config_sync("sync", text, text, state);
        parsing->has_sync = true;
        break;
    case OPTION_DATABASE:
        okv_config_database(&parsing->databases, text, state);
        break;
    case OPTION_HUGE:
        config->pages = parse_pages(text, state);
        break;
    case OPTION_PREFAULT:
    case OPTION_WIPE:
    case OPTION_OPEN:
        set_flag(config, key);
        break;
    case ARGP_KEY_END:
        check_reach(parsing, state);
        check_server_name(config, state);
        check_worker_cpus(config, state);
        check_offline(config, state);
        okv_config_add_databases(config, &parsing->databases, state);
        check_sync(parsing, state);
        check_restore(config, state);
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", text);
        break;
    default:
        return parse_server_option(config, key, text, state);
    }
    return 0;
}

/* Leaves half of the CPUs to clients of this host and to the kernel. */
static uint32_t default_workers(void)
{
    cpu_set_t cpus;
    int half = sched_getaffinity(0, sizeof cpus, &cpus) ? 1 : CPU_COUNT(&cpus) / 2;

    return half < 1 ? 1 : half > DEFAULT_WORKERS_MAX ? DEFAULT_WORKERS_MAX : (uint32_t)half;
}

static void default_listen(struct okv_config *config)
{
    char text[OKV_DEFAULT_URI_TEXT];

    okv_default_uri(text, sizeof text);
    if (okv_uri_parse(text, &config->listen[0], NULL) == 0)
        config->listen_count = 1;
}

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "okv-server %s\ntransports: %s\n", OKV_VERSION, okv_transport_names());
}

void okv_config_parse(int argc, char **argv, struct okv_config *config)
{
    static const struct argp parser = {.options = options, .parser = parse_option, .doc = about};

    struct parsing parsing = {.config = config};

    *config = (struct okv_config){
        .table = {.memory = UINT64_C(256) << 20,
                  .bucket_size = OKV_BUCKET_SIZE_DEFAULT,
                  .index_percent = OKV_INDEX_PERCENT_DEFAULT},
        .credits = 16,
        .workers = default_workers(),
        .max_clients = 1024,
        .max_clients_per_user = OKV_CLIENTS_HALF,
        .max_clients_per_address = OKV_CLIENTS_HALF,
        .max_silent = OKV_PENDING_MAX,
        .keepalive_ms = 3000,
        .remember_s = 60,
        .snapshot_ratio = 1.5,
        .drain_ms = 5000,
        .spin_us = 50,
    };
    argp_program_version_hook = print_version;
    argp_err_exit_status = EXIT_USAGE;
    argp_parse(&parser, argc, argv, 0, NULL, &parsing);
    if (config->listen_count == 0)
        default_listen(config);
}
