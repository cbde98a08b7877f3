#include "server/config/option_table.h"

#include <stdlib.h>
#include <string.h>

#include "server/config/cluster.h"
#include "server/config/config.h"
#include "server/config/databases.h"
#include "server/config/listen.h"
#include "server/core/processors.h"
#include "shared/base/error.h"
#include "shared/discovery/discovery.h"
#include "shared/format/bucket.h"
#include "shared/format/wire.h"

#define DAY_S 86400u
#define SILENT_MAX 1024u

const char okv_config_about[] =
    "Serves a key-value table that clients read with one-sided RDMA READs."
    "\v"
    "URI is rdma://ADDRESS[:PORT] for an address of an RDMA device (InfiniBand, RoCE, soft-RoCE), "
    "rdma://*[?device=NAME][&port=N][&gid=INDEX] for all devices, or for this one, "
    "tcp://ADDRESS[:PORT] for TCP, tcps://ADDRESS[:PORT] the same with TLS, "
    "ofi://ADDRESS[:PORT][?provider=NAME] for another fabric by "
    "libfabric, "
    "or local:///PATH for clients of this user and root on this host over shared memory, and "
    "local:///PATH?uids=any&mode=0666 for those of all users. resp://ADDRESS[:PORT] and "
    "resp:///PATH serve clients of Redis, resps:// with TLS. Prints one line `ready URI...` when "
    "it serves. "
    "SIGTERM and SIGINT end it; it tells its clients.\n"
    "\n"
    "Examples:\n"
    "  okv-server --listen local:///run/okv.sock --memory 16G --huge\n"
    "  okv-server --listen rdma://10.0.0.1 --listen local:///run/okv.sock --open\n"
    "  okv-server --config /etc/okv/okv-server.conf\n"
    "\n"
    "Exit status: 0 after a signal, 2 for a wrong option on the command line, in FILE or the "
    "environment, 3 if it cannot serve, 4 if --check "
    "or "
    "--salvage found damage.";

/* ---- options that are read in a way of their own ---- */

static int read_announce(const struct okv_option *option, const char *text, void *fields,
                         struct okv_diag *why)
{
    struct okv_config *config = fields;
    const char *group = text ? text : OKV_DISCOVERY_GROUP;

    (void)option;
    if (!okv_group_is_valid(group))
        return okv_diag_set(why, OKV_EINVAL, "give " OKV_GROUP_RULE);
    memcpy(config->group, group, strlen(group) + 1);
    return 0;
}

static int read_name(const struct okv_option *option, const char *text, void *fields,
                     struct okv_diag *why)
{
    if (!okv_name_is_valid(text))
        return okv_diag_set(why, OKV_EINVAL, "give " OKV_NAME_RULE);
    memcpy((char *)fields + option->offset, text, strlen(text) + 1);
    return 0;
}

static int read_sync(const struct okv_option *option, const char *text, void *fields,
                     struct okv_diag *why)
{
    struct okv_config *config = fields;

    (void)option;
    config->has_sync = true;
    return okv_config_sync(text, &config->table.sync_within_ns, why);
}

static int read_bucket_size(const struct okv_option *option, const char *text, void *fields,
                            struct okv_diag *why)
{
    struct okv_option size = *option;
    struct okv_config *config = fields;

    size.read = NULL;
    int rc = okv_option_read(&size, text, fields, why);
    if (rc == 0 && !okv_bucket_size_valid(config->table.bucket_size))
        rc = okv_diag_set(why, OKV_EINVAL, "give a power of two, like 512 or 1K");
    return rc;
}

static bool is_port(const char *text)
{
    size_t digits = strspn(text, "0123456789");

    return digits >= 1 && digits <= 5 && !text[digits] && strtoul(text, NULL, 10) <= UINT16_MAX;
}

/* Of "HOST:PORT" or "[HOST]:PORT"; false: it is something else. */
static bool parse_address(const char *text, struct okv_config_address *out)
{
    const char *colon = strrchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : 0;

    if (length == 0 || !is_port(colon + 1))
        return false;
    if (text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return false;
    }
    snprintf(out->port, sizeof out->port, "%s", colon + 1);
    return (size_t)snprintf(out->host, sizeof out->host, "%.*s", (int)length, text) <
               sizeof out->host &&
           length > 0;
}

static int read_metrics(const struct okv_option *option, const char *text, void *fields,
                        struct okv_diag *why)
{
    struct okv_config *config = fields;

    (void)option;
    if (text[0] == ':' && is_port(text + 1))
        return okv_diag_set(why, OKV_EINVAL,
                            "there is no host in front of the port: give 127.0.0.1%s for programs "
                            "of this host, or 0.0.0.0%s for all hosts",
                            text, text);
    if (!parse_address(text, &config->metrics))
        return okv_diag_set(why, OKV_EINVAL, "give HOST:PORT, such as 127.0.0.1:9469");
    return 0;
}

static int read_worker_cpus(const struct okv_option *option, const char *text, void *fields,
                            struct okv_diag *why)
{
    struct okv_config *config = fields;

    (void)option;
    return okv_processors_parse(text, &config->usable_cpus, &config->worker_cpus, why);
}

/* ---- the table ---- */

/* The kind of an option, and its field of struct okv_config. */
#define FIELD(member) \
    .offset = offsetof(struct okv_config, member), .size = sizeof((struct okv_config *)0)->member
#define FLAG(member) OKV_OPTION_FLAG, FIELD(member)
#define TEXT(member) OKV_OPTION_TEXT, FIELD(member)
#define NUMBER(member, ...) OKV_OPTION_NUMBER, FIELD(member), LIMITS(__VA_ARGS__)
#define SIZE(member, ...) OKV_OPTION_SIZE, FIELD(member), LIMITS(__VA_ARGS__)
#define LIMITS(from, to) .least = (from), .most = (to)
#define MS .unit_ms = 1
#define SECONDS .unit_ms = 1000
#define NAME(member) OTHER(read_name), FIELD(member)
#define OTHER(function) OKV_OPTION_OTHER, .read = (function)

/* In the order of enum okv_log_format, and of enum okv_region_pages from the second on. */
static const char *const log_formats[] = {"auto", "text", "logfmt", "json", NULL};
static const char *const full_modes[] = {"refuse", "evict", "evict-expiring", NULL};
static const char *const huge_pages[] = {"reserved", "transparent", "auto", "off", NULL};

/* Name, letter, argument, group, flags, default, help; kind, field and limits. */
const struct okv_option okv_config_options[] = {
    {"listen", 'l', "URI", 1, OKV_OPTION_LIST, NULL,
     "Where to serve; may be repeated; resp://HOST[:PORT] or resp:///PATH for clients of Redis. "
     "Default: local:///run/okv.sock as root, else a socket in $XDG_RUNTIME_DIR or /tmp",
     OTHER(okv_config_listen_add)},
    {"open", 0, NULL, 1, 0, NULL,
     "Serve anyone who can reach the server. Without it and --users a URI that other hosts reach "
     "is refused: every rdma://, and ofi://, tcp://, tcps:// and resp:// except at the loopback "
     "addresses "
     "127.0.0.0/8 and [::1]",
     FLAG(is_open)},
    {"announce", 0, "GROUP", 1, OKV_OPTION_MAY_BE_ALONE, NULL,
     "Answer clients that look for servers in the multicast group GROUP (" OKV_DISCOVERY_GROUP
     "): okv discover, and discover/NAME after rdma://, tcp:// or tcps://",
     OTHER(read_announce)},
    {"name", 0, "NAME", 1, 0, NULL,
     "What --announce calls this server (" OKV_SERVER_NAME_DEFAULT "): " OKV_NAME_RULE, NAME(name)},
    {"database", 0, "NAME[:SIZE][,sync=MODE][,full=MODE]", 2, OKV_OPTION_LIST, NULL,
     "A database of this name and size; may be repeated. A client reaches the one that it names "
     "(?database=NAME) and no other. Default: one called " OKV_DATABASE_DEFAULT
     ", of --memory and with --sync. NAME: " OKV_NAME_RULE,
     OTHER(okv_config_database)},
    {"data", 0, "DIR", 2, 0, NULL,
     "Keep each database in a log below DIR, which is created if it is not there: a write is "
     "answered, and seen by readers, once it is on the disk. A start reads the log. Default: in "
     "memory only",
     TEXT(data)},
    {"sync", 0, "MODE", 2, 0, NULL,
     "With --data, when a change is on the disk: always: before it is answered or seen; a time "
     "such as 100ms: so much later at most; never: when the kernel likes, and at a stop. A crash "
     "of the host loses what is not; see okv-server(1) (always)",
     OTHER(read_sync)},
    {"restore", 0, "FILE", 2, OKV_OPTION_COMMAND_LINE, NULL,
     "Create an empty database from this snapshot: okv-server(1)", TEXT(restore)},
    {"snapshot-ratio", 0, "R", 2, 0, "1.5",
     "Replace a log by a snapshot when it is R times as long as the data, and at a stop "
     "({default}). 0: only by okv admin snapshot",
     OKV_OPTION_REAL, FIELD(snapshot_ratio), .real_most = 1000, .example = "0.5"},
    {"check", 0, "DIR", 2, OKV_OPTION_COMMAND_LINE, NULL,
     "Do not serve: verify all that a start with --data DIR would read, or the directory of one "
     "database, and list what is damaged. Changes nothing",
     TEXT(check)},
    {"salvage", 0, "DIR", 2, OKV_OPTION_COMMAND_LINE, NULL,
     "Do not serve: copy intact data from DIR to --to, for a start with --data, and list the rest. "
     "See okv-server(1) for what it may bring back",
     TEXT(salvage)},
    {"to", 0, "DIR", 2, OKV_OPTION_COMMAND_LINE, NULL,
     "Where --salvage writes: not there, or empty", TEXT(to)},
    {"users", 0, "FILE", 2, 0, NULL,
     "Serve only users that FILE names, each with a key and rights in databases: see USERS in "
     "okv-server(1). SIGHUP has it read again",
     TEXT(users)},
    {"tls-cert", 0, "FILE", 2, 0, NULL,
     "For tcps:// and resps://, the server's certificate as PEM, with those that signed it. SIGHUP "
     "has it, its "
     "key and --tls-ca read again, for clients that connect then",
     TEXT(tls_cert)},
    {"tls-key", 0, "FILE", 2, 0, NULL, "The key of --tls-cert, as PEM", TEXT(tls_key)},
    {"tls-ca", 0, "FILE", 2, 0, NULL,
     "Serve over tcps:// and resps:// only clients that show a certificate that one of these "
     "signed",
     TEXT(tls_ca)},
    {"log-format", 0, "FORMAT", 2, OKV_OPTION_RELOADABLE, "auto",
     "Lines on standard error: text, or with time, level and part of the server as logfmt or "
     "json; auto is text for a terminal or the journal, else logfmt ({default})",
     OKV_OPTION_CHOICE, FIELD(log_format), .words = log_formats},
    {"metrics", 0, "HOST:PORT", 2, 0, NULL,
     "Figures for Prometheus over HTTP, such as 127.0.0.1:9469: /metrics, /healthz and /readyz",
     OTHER(read_metrics)},
    {"memory", 'm', "SIZE", 2, 0, "256M", "Size of a database without one, from 1M ({default})",
     SIZE(table.memory, OKV_MEMORY_MIN, OKV_MEMORY_MAX)},
    {"full", 0, "MODE", 2, 0, "refuse",
     "When a write finds no memory: `refuse' it, `evict' the items that are used least, as a "
     "cache, "
     "or `evict-expiring', of those with a time to live alone ({default}). Locks and counters "
     "belong in a database that refuses.",
     OKV_OPTION_CHOICE, FIELD(table.full), .words = full_modes},
    {"huge", 0, "KIND", 2, OKV_OPTION_MAY_BE_ALONE, "auto",
     "Put the region on 2 MiB pages: gets and registration are faster. KIND: `reserved' ones "
     "(sysctl vm.nr_hugepages; also what --huge alone asks for) or `transparent' ones, which the "
     "kernel makes in up to 4 seconds per GiB, or fail; `auto': with rdma:// reserved ones if "
     "there "
     "are enough, else none; or `off' ({default})",
     OKV_OPTION_CHOICE, FIELD(pages), .words = huge_pages, .least = OKV_REGION_RESERVED},
    {"prefault", 0, NULL, 2, 0, NULL,
     "Take all memory of the region at the start, in a second or two per GiB: no put waits for a "
     "page later",
     FLAG(prefault)},
    {"wipe", 0, NULL, 2, 0, NULL,
     "Zero the memory of a value that is deleted, replaced or expired. Otherwise clients can read "
     "it there until it is used again",
     FLAG(wipe)},
    {"max-value", 0, "SIZE", 2, 0, NULL,
     "Largest value, to 64M and a quarter of the smallest database, a sixteenth of one that evicts "
     "(the smallest of these)",
     SIZE(table.max_value, 1, OKV_VALUE_MAX)},
    {"bucket-size", 0, "SIZE", 2, 0, "512",
     "Bytes that one READ fetches: 256, 512, 1K, 2K or 4K ({default}). A larger bucket keeps "
     "larger items inline and wastes less of the table, and every get moves more bytes",
     SIZE(table.bucket_size, OKV_BUCKET_SIZE_MIN, OKV_BUCKET_SIZE_MAX), .read = read_bucket_size},
    {"inline-max", 0, "SIZE", 2, 0, NULL,
     "Largest entry that is kept in its bucket, where a get finds it with one READ: key, value "
     "and 4 bytes or more (a third of a bucket's room: 162 of 512 bytes). More saves READs of "
     "large items and lets fewer items share a bucket",
     SIZE(table.inline_max, 1, OKV_BUCKET_SIZE_MAX)},
    {"extra-reads", 0, "N", 2, 0, NULL,
     "READs beyond one per get, in 1000 gets of small items, that make the index grow: {limits} "
     "(5 while the region is empty, to 40 when it is full). Less makes gets quicker on average "
     "and takes more memory for the index",
     NUMBER(table.extra_reads, 1, 1000)},
    {"index-percent", 0, "P", 2, 0, "75",
     "Largest share of the region that the index may take, in percent: {limits} ({default}). More "
     "lets a fuller table of small items keep to one READ for each; less keeps room for large "
     "values",
     NUMBER(table.index_percent, 10, 95)},
    {"workers", 0, "N", 3, 0, NULL,
     "Worker threads; each serves a share of the clients: {limits} (half of the CPUs, up to 4)",
     NUMBER(workers, 1, OKV_WORKERS_MAX)},
    {"worker-cpus", 0, "LIST", 3, 0, NULL,
     "Give each worker a processor of its own, such as 2-5,8, and keep all other threads of the "
     "server off them. Needs as many as there are workers, and one that is left (any processor)",
     OTHER(read_worker_cpus)},
    {"max-clients", 0, "N", 3, OKV_OPTION_RELOADABLE, "1024",
     "Clients at once: {limits} ({default})", NUMBER(max_clients, 1, OKV_CLIENTS_MAX)},
    {"max-clients-per-user", 0, "N", 3, OKV_OPTION_RELOADABLE, NULL,
     "With --users: clients at once of one user; 0: as many as in all (half of --max-clients)",
     NUMBER(max_clients_per_user, 0, OKV_CLIENTS_MAX)},
    {"max-clients-per-address", 0, "N", 3, OKV_OPTION_RELOADABLE, NULL,
     "Clients at once from one address, over local:// of one uid; 0: as many as in all (half of "
     "--max-clients; with --users 0)",
     NUMBER(max_clients_per_address, 0, OKV_CLIENTS_MAX)},
    {"max-silent", 0, "N", 3, OKV_OPTION_RELOADABLE, "128",
     "Connections to one local://, ofi://, tcp:// or tcps:// listener that have not said hello, "
     "and those "
     "of clients of Redis that have not finished a TLS handshake or, with users, logged in: "
     "{limits} "
     "({default}). One more drops one of the uid or host that has most",
     NUMBER(max_silent, 1, SILENT_MAX)},
    {"hello-ms", 0, "MS", 3, OKV_OPTION_RELOADABLE, NULL,
     "How long a client may take to say hello, over rdma:// to confirm its connection: {limits} "
     "(3000 over local://, tcp:// and tcps://, 5000 over rdma://, 10000 over ofi://). For clients "
     "of Redis, "
     "how "
     "long a TLS handshake may take and, with users, the log-in (10000)",
     NUMBER(hello_ms, 100, 600000), MS},
    {"alone-ms", 0, "MS", 3, OKV_OPTION_RELOADABLE, "10",
     "How long a command of a client of Redis may run alone: {limits} ({default}). EXEC, MSET, "
     "RENAME, COPY and their like do; a longer one is refused",
     NUMBER(alone_ms, 1, 10000), MS},
    {"report-percent", 0, "P", 3, OKV_OPTION_RELOADABLE, "2",
     "Where --full evicts, the share of a processor that hits may take which clients of a database "
     "report, in percent: {limits} ({default}). More are ignored",
     NUMBER(report_percent, 1, 100)},
    {"credits", 0, "N", 3, 0, "16", "Requests that a client may have outstanding ({default})",
     NUMBER(credits, 1, OKV_CREDITS_MAX)},
    {"keepalive-ms", 0, "MS", 3, 0, "3000",
     "A dead client is found within this time: {limits} ({default})",
     NUMBER(keepalive_ms, 200, 600000), MS},
    {"idle-s", 0, "S", 3, OKV_OPTION_RELOADABLE, "0",
     "Disconnect a client that sends no request for this long; gets do not count. 0: never "
     "({default})",
     NUMBER(idle_s, 0, 365 * DAY_S), SECONDS},
    {"remember-s", 0, "S", 3, 0, "60",
     "How long the server keeps the reply cache of a client that is gone: {limits} ({default})",
     NUMBER(remember_s, 0, DAY_S), SECONDS},
    {"drain-ms", 0, "MS", 3, OKV_OPTION_RELOADABLE, "5000",
     "How long clients may take to leave when the server ends ({default})",
     NUMBER(drain_ms, 0, 600000), MS},
    {"spin-us", 0, "US", 3, OKV_OPTION_RELOADABLE, "50",
     "How long an idle worker polls before it sleeps, and in a cluster the threads that "
     "a put passes ({default})",
     NUMBER(spin_us, 0, 1000000)},
    {"cluster", 0, "NAME", OKV_OPTION_GROUP_CLUSTER, 0, NULL,
     "Belong to this cluster, which needs --etcd and --advertise, too: its databases have copies "
     "on "
     "other servers. NAME: " OKV_NAME_RULE,
     NAME(cluster.name)},
    {"etcd", 0, "URLS", OKV_OPTION_GROUP_CLUSTER, 0, NULL,
     "The members of etcd, https://HOST:PORT with commas between. http:// is for the loopback "
     "addresses, and with --open for all",
     OTHER(okv_config_etcd), FIELD(cluster.etcd)},
    {"etcd-ca", 0, "FILE", OKV_OPTION_GROUP_CLUSTER, 0, NULL,
     "Believe only members of etcd that show a certificate that one of these signed, as PEM (one "
     "that the system's authorities signed)",
     TEXT(cluster.etcd_ca)},
    {"etcd-cert", 0, "FILE", OKV_OPTION_GROUP_CLUSTER, 0, NULL,
     "The certificate to show to etcd, as PEM. Beside --etcd-user it has no CommonName, or etcd "
     "refuses it",
     TEXT(cluster.etcd_cert)},
    {"etcd-key", 0, "FILE", OKV_OPTION_GROUP_CLUSTER, 0, NULL, "The key of --etcd-cert, as PEM",
     TEXT(cluster.etcd_key)},
    {"etcd-user", 0, "USER", OKV_OPTION_GROUP_CLUSTER, 0, NULL,
     "The user of etcd that this server is", TEXT(cluster.etcd_user)},
    {"etcd-password-file", 0, "FILE", OKV_OPTION_GROUP_CLUSTER, 0, NULL,
     "The password of --etcd-user, as the only line", TEXT(cluster.etcd_password_file)},
    {"advertise", 0, "URI", OKV_OPTION_GROUP_CLUSTER, OKV_OPTION_LIST, NULL,
     "Where clients and the other servers reach this one, such as tcp://10.0.0.1; may be "
     "repeated, one at least for other clients than those of Redis",
     OTHER(okv_config_advertise)},
    {"peer-user", 0, "NAME", OKV_OPTION_GROUP_CLUSTER, 0, NULL,
     "The user that this server is at the others of its cluster. Their --users grant it "
     "`* = replicate'",
     NAME(cluster.peer_user)},
    {"peer-key", 0, "FILE", OKV_OPTION_GROUP_CLUSTER, 0, NULL,
     "The key of --peer-user: a file that okv keygen has made", TEXT(cluster.peer_key)},
    {"config", 0, "FILE", 5, OKV_OPTION_AT_ONCE, NULL,
     "Take options from FILE, too: lines NAME = VALUE. The command line goes before the "
     "environment, where --memory is OKV_MEMORY, and that before FILE. SIGHUP has it read again, "
     "for options with [SIGHUP]. See okv-server.conf(5)",
     TEXT(settings.file)},
    {"print-config", 0, NULL, 5, OKV_OPTION_AT_ONCE, NULL,
     "Do not serve: check all options, and print them as a FILE for --config, with where each is "
     "from",
     FLAG(has_to_print)},
    {.letter = 'h', .group = -1},
    {0},
};
