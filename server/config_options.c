/* The options: one table for the command line, --help, the environment and files. */
#include "server/config_options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/config.h"
#include "shared/discovery/discovery.h"
#include "shared/format/wire.h"
#include "shared/transport/common/pending.h"

#define DAY_S 86400u
#define SILENT_MAX 1024u

const char okv_config_about[] =
    "Serves a key-value table that clients read with one-sided RDMA READs."
    "\v"
    "URI is rdma://ADDRESS[:PORT] for an address of an RDMA device (InfiniBand, RoCE, soft-RoCE), "
    "rdma://*[?device=NAME][&port=N][&gid=INDEX] for all devices, or for this one, "
    "ofi://ADDRESS[:PORT][?provider=NAME] for another fabric by libfabric, TCP among them, "
    "or local:///PATH for clients of this user and root on this host over shared memory, and "
    "local:///PATH?uids=any&mode=0666 for those of all users. resp://ADDRESS[:PORT] and "
    "resp:///PATH serve clients of Redis, resps:// with TLS. Prints one line `ready URI...` when "
    "it serves. "
    "SIGTERM and SIGINT end it; it tells its clients.\n"
    "\n"
    "Examples:\n"
    "  okv-server --listen local:///run/okv.sock --memory 16G --huge\n"
    "  okv-server --listen rdma://10.0.0.1:7471 --listen local:///run/okv.sock --open\n"
    "  okv-server --config /etc/okv/okv-server.conf\n"
    "\n"
    "Exit status: 0 after a signal, 2 for a wrong option on the command line, in FILE or the "
    "environment, 3 if it cannot serve, 4 if --check "
    "or "
    "--salvage found damage.";

const struct argp_option okv_config_options[] = {
    {"listen", 'l', "URI", 0,
     "Where to serve; may be repeated; resp://HOST[:PORT] or resp:///PATH for clients of Redis. "
     "Default: local:///run/okv.sock as root, else a socket in "
     "$XDG_RUNTIME_DIR or /tmp",
     1},
    {"open", OKV_OPTION_OPEN, NULL, 0,
     "Serve whoever reaches the server. Without it and --users a URI that other hosts reach is "
     "refused: every rdma://, and ofi:// and resp:// but for the loopback addresses 127.0.0.0/8 "
     "and [::1]",
     1},
    {"announce", OKV_OPTION_ANNOUNCE, "GROUP", OPTION_ARG_OPTIONAL,
     "Answer clients that look for servers in the multicast group GROUP (" OKV_DISCOVERY_GROUP
     "): okv discover, rdma://discover/NAME",
     1},
    {"name", OKV_OPTION_NAME, "NAME", 0,
     "What --announce calls this server (" OKV_SERVER_NAME_DEFAULT "): " OKV_NAME_RULE, 1},
    {"database", OKV_OPTION_DATABASE, "NAME[:SIZE][,sync=MODE]", 0,
     "A database of this name and size; may be repeated. A client reaches the one that it names "
     "(?database=NAME) and no other. Default: one called " OKV_DATABASE_DEFAULT
     ", of --memory and with --sync. NAME: " OKV_NAME_RULE,
     2},
    {"data", OKV_OPTION_DATA, "DIR", 0,
     "Keep each database in a log below DIR, which is created if it is not there: a write is "
     "answered, and seen by readers, once it is on the disk. A start reads the log. Default: in "
     "memory only",
     2},
    {"sync", OKV_OPTION_SYNC, "MODE", 0,
     "With --data, when a change is on the disk: always: before it is answered or seen; a time "
     "such "
     "as 100ms: so much later at most; never: when the kernel likes, and at a stop. A crash of the "
     "host loses what is not; see okv-server(1) (always)",
     2},
    {"restore", OKV_OPTION_RESTORE, "FILE", 0,
     "Begin a database, of which DIR has nothing, with this copy of a snapshot: okv-server(1)", 2},
    {"snapshot-ratio", OKV_OPTION_SNAPSHOT_RATIO, "R", 0,
     "Replace a log by a snapshot when it is R times as long as the data, and at a stop (1.5). "
     "0: only by okv admin snapshot",
     2},
    {"check", OKV_OPTION_CHECK, "DIR", 0,
     "Do not serve: verify all that a start with --data DIR would read, or the directory of one "
     "database, and list what is damaged. Changes nothing",
     2},
    {"salvage", OKV_OPTION_SALVAGE, "DIR", 0,
     "Do not serve: write what is whole in DIR to the directory of --to, for a start with --data, "
     "and list what is not. See okv-server(1) for what it may bring back",
     2},
    {"to", OKV_OPTION_TO, "DIR", 0, "Where --salvage writes: not there, or empty", 2},
    {"users", OKV_OPTION_USERS, "FILE", 0,
     "Serve only users that FILE names, each with a key and rights in databases: see USERS in "
     "okv-server(1). SIGHUP has it read again",
     2},
    {"tls-cert", OKV_OPTION_TLS_CERT, "FILE", 0,
     "For resps://, the server's certificate as PEM, with those that signed it", 2},
    {"tls-key", OKV_OPTION_TLS_KEY, "FILE", 0, "The key of --tls-cert, as PEM", 2},
    {"tls-ca", OKV_OPTION_TLS_CA, "FILE", 0,
     "Serve over resps:// only clients that show a certificate that one of these signed", 2},
    {"log-format", OKV_OPTION_LOG_FORMAT, "FORMAT", 0,
     "Lines on standard error: text, or with time, level and part of the server as logfmt or json; "
     "auto is text for a terminal or the journal, else logfmt (auto)",
     2},
    {"metrics", OKV_OPTION_METRICS, "HOST:PORT", 0,
     "Figures for Prometheus over HTTP, such as 127.0.0.1:9469: /metrics, /healthz and /readyz", 2},
    {"memory", 'm', "SIZE", 0, "Size of a database without one, from 1M (256M)", 2},
    {"huge", OKV_OPTION_HUGE, "KIND", OPTION_ARG_OPTIONAL,
     "Put the region on 2 MiB pages, or fail: gets over shared memory and registration are faster. "
     "KIND: `reserved' ones (sysctl vm.nr_hugepages; also what --huge alone asks for) or "
     "`transparent' ones, which the kernel makes as the server starts, in up to 4 seconds per GiB",
     2},
    {"prefault", OKV_OPTION_PREFAULT, NULL, 0,
     "Take all memory of the region at the start, in a second or two per GiB: no put waits for a "
     "page later",
     2},
    {"wipe", OKV_OPTION_WIPE, NULL, 0,
     "Zero the memory of a value that is deleted, replaced or expired. Otherwise clients can read "
     "it there until it is used again",
     2},
    {"max-value", OKV_OPTION_MAX_VALUE, "SIZE", 0,
     "Largest value, to 64M and a quarter of the smallest database (the smaller of the two)", 2},
    {"bucket-size", OKV_OPTION_BUCKET_SIZE, "SIZE", 0,
     "Bytes that one READ fetches: 256, 512, 1K, 2K or 4K (512). A larger bucket keeps larger "
     "items inline and wastes less of the table, and every get moves more bytes",
     2},
    {"inline-max", OKV_OPTION_INLINE_MAX, "SIZE", 0,
     "Largest entry that is kept in its bucket, where a get finds it with one READ: key, value "
     "and 4 bytes or more (a third of a bucket's room: 162 of 512 bytes). More saves READs of "
     "large items and lets fewer items share a bucket",
     2},
    {"extra-reads", OKV_OPTION_EXTRA_READS, "N", 0,
     "READs beyond one per get, in 1000 gets of small items, that make the index grow: 1 to 1000 "
     "(5 while the region is empty, to 40 when it is full). Less makes gets quicker on average "
     "and takes more memory for the index",
     2},
    {"index-percent", OKV_OPTION_INDEX_PERCENT, "P", 0,
     "Largest share of the region that the index may take, in percent: 10 to 95 (75). More lets a "
     "fuller table of small items keep to one READ for each; less keeps room for large values",
     2},
    {"workers", OKV_OPTION_WORKERS, "N", 0,
     "Worker threads; each serves a share of the clients: 1 to 64 (half of the CPUs, up to 4)", 3},
    {"worker-cpus", OKV_OPTION_WORKER_CPUS, "LIST", 0,
     "Give each worker a processor of its own, such as 2-5,8, and keep all other threads of the "
     "server off them. Needs as many as there are workers, and one that is left (any processor)",
     3},
    {"max-clients", OKV_OPTION_MAX_CLIENTS, "N", 0, "Clients at once: 1 to 10000 (1024)", 3},
    {"max-clients-per-user", OKV_OPTION_MAX_CLIENTS_PER_USER, "N", 0,
     "With --users: clients at once of one user; 0: as many as in all (half of --max-clients)", 3},
    {"max-clients-per-address", OKV_OPTION_MAX_CLIENTS_PER_ADDRESS, "N", 0,
     "Clients at once from one address, over local:// of one uid; 0: as many as in all (half of "
     "--max-clients; with --users 0)",
     3},
    {"max-silent", OKV_OPTION_MAX_SILENT, "N", 0,
     "Connections to one local:// or ofi:// listener that have not said hello: 1 to 1024 (128). "
     "One more drops one of the uid or host that has most",
     3},
    {"hello-ms", OKV_OPTION_HELLO_MS, "MS", 0,
     "How long a client may take to say hello, over rdma:// to confirm its connection: 100 to "
     "600000 (3000 over local://, 5000 over rdma://, 10000 over ofi://). With users, how long a "
     "client of Redis may take to say who it is (10000)",
     3},
    {"credits", OKV_OPTION_CREDITS, "N", 0, "Requests that a client may have outstanding (16)", 3},
    {"keepalive-ms", OKV_OPTION_KEEPALIVE_MS, "MS", 0,
     "A dead client is found within this time: 200 to 600000 (3000)", 3},
    {"idle-s", OKV_OPTION_IDLE_S, "S", 0,
     "Disconnect a client that sends no request for this long; gets do not count. 0: never (0)", 3},
    {"remember-s", OKV_OPTION_REMEMBER_S, "S", 0,
     "How long the server keeps the reply cache of a client that is gone: 0 to 86400 (60)", 3},
    {"drain-ms", OKV_OPTION_DRAIN_MS, "MS", 0,
     "How long clients may take to leave when the server ends (5000)", 3},
    {"spin-us", OKV_OPTION_SPIN_US, "US", 0, "How long an idle worker polls before it sleeps (50)",
     3},
    {"config", OKV_OPTION_CONFIG, "FILE", 0,
     "Take options from FILE, too: lines NAME = VALUE. The command line goes before the "
     "environment, where --memory is OKV_MEMORY, and that before FILE. SIGHUP has it read "
     "again, for options with [SIGHUP]. See okv-server.conf(5)",
     4},
    {"print-config", OKV_OPTION_PRINT_CONFIG, NULL, 0,
     "Do not serve: check all options, and print them as a FILE for --config, with where each is "
     "from",
     4},
    {NULL, 'h', NULL, OPTION_HIDDEN, NULL, -1}, /* the end for who looks for names */
    {0},
};

static const struct okv_number_option numbers[] = {
    {OKV_OPTION_EXTRA_READS, "extra-reads", 1, 1000, offsetof(struct okv_config, table.extra_reads),
     0},
    {OKV_OPTION_INDEX_PERCENT, "index-percent", 10, 95,
     offsetof(struct okv_config, table.index_percent), 0},
    {OKV_OPTION_CREDITS, "credits", 1, OKV_CREDITS_MAX, offsetof(struct okv_config, credits), 0},
    {OKV_OPTION_WORKERS, "workers", 1, OKV_WORKERS_MAX, offsetof(struct okv_config, workers), 0},
    {OKV_OPTION_MAX_CLIENTS, "max-clients", 1, OKV_CLIENTS_MAX,
     offsetof(struct okv_config, max_clients), 0},
    {OKV_OPTION_MAX_CLIENTS_PER_USER, "max-clients-per-user", 0, OKV_CLIENTS_MAX,
     offsetof(struct okv_config, max_clients_per_user), 0},
    {OKV_OPTION_MAX_CLIENTS_PER_ADDRESS, "max-clients-per-address", 0, OKV_CLIENTS_MAX,
     offsetof(struct okv_config, max_clients_per_address), 0},
    {OKV_OPTION_MAX_SILENT, "max-silent", 1, SILENT_MAX, offsetof(struct okv_config, max_silent),
     0},
    {OKV_OPTION_HELLO_MS, "hello-ms", 100, 600000, offsetof(struct okv_config, hello_ms), 1},
    {OKV_OPTION_KEEPALIVE_MS, "keepalive-ms", 200, 600000,
     offsetof(struct okv_config, keepalive_ms), 1},
    {OKV_OPTION_IDLE_S, "idle-s", 0, 365 * DAY_S, offsetof(struct okv_config, idle_s), 1000},
    {OKV_OPTION_REMEMBER_S, "remember-s", 0, DAY_S, offsetof(struct okv_config, remember_s), 1000},
    {OKV_OPTION_DRAIN_MS, "drain-ms", 0, 600000, offsetof(struct okv_config, drain_ms), 1},
    {OKV_OPTION_SPIN_US, "spin-us", 0, 1000000, offsetof(struct okv_config, spin_us), 0},
};

const struct okv_number_option *okv_number_option_find(int key)
{
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].key == key)
            return &numbers[i];
    return NULL;
}

static const int reloadable[] = {
    OKV_OPTION_LOG_FORMAT,
    OKV_OPTION_MAX_CLIENTS,
    OKV_OPTION_MAX_CLIENTS_PER_USER,
    OKV_OPTION_MAX_CLIENTS_PER_ADDRESS,
    OKV_OPTION_MAX_SILENT,
    OKV_OPTION_HELLO_MS,
    OKV_OPTION_IDLE_S,
    OKV_OPTION_DRAIN_MS,
    OKV_OPTION_SPIN_US,
};

bool okv_option_is_reloadable(int key)
{
    for (size_t i = 0; i < sizeof reloadable / sizeof *reloadable; i++)
        if (reloadable[i] == key)
            return true;
    return false;
}

char *okv_config_help(int key, const char *text, void *input)
{
    char *whole;

    (void)input;
    if (text && okv_option_is_reloadable(key) && asprintf(&whole, "%s [SIGHUP]", text) > 0)
        return whole;
    return (char *)(uintptr_t)text; /* argp takes it as one that need not be freed */
}
