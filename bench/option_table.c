#include "bench/option_table.h"

#include <math.h>
#include <okv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/options.h"

#define THREADS_MAX 256
#define CONNECTIONS_MAX 1024
#define ROUNDS_MAX 1000
#define SECONDS_MAX 86400.0
#define RECORDS_MAX (UINT64_C(1) << 40)
#define RATE_MAX UINT64_C(1000000000)
#define GET_MANY_MAX 65536u
#define TIMEOUT_MS_MAX 86400000u

#define VALUE_MAX (UINT64_C(1) << 30) /* the server reports its own, lower limit */
#define TRACE_MAX 65536               /* one value in half a million is longer */
/* Percentages are rounded to their decimals. */
#define MIX_SLACK 1e-6

const char bench_about[] =
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
    "  kv-bench --records 1M --value-size trace --no-load --workload c --json c\n"
    "  kv-bench --records 1M --value-size trace --no-load --mix get=90,cas=8,incr=2\n"
    "What share of the requests in a file, one key a line, does a cache answer?\n"
    "  kv-bench --make-trace zipf,theta=0.9 >trace\n"
    "  kv-bench -s redis:///run/redis.sock --replay trace --connections 16\n"
    "Batches of gets, and large values without a copy:\n"
    "  kv-bench -s rdma://10.0.0.1 --get-many 64\n"
    "  kv-bench --records 100 --value-size 1M --registered --floor\n"
    "\n"
    "Exit status: 0 done and every value right, 2 usage, 3 could not reach the server or finish, "
    "or a value was wrong.";

/* ---- options that are read in a way of their own ---- */

/* Reads a part of the option's text as the option's kind, into *number. */
static int read_part(const struct okv_option *option, const char *text, size_t length,
                     uint32_t *number, struct okv_diag *why)
{
    struct okv_option part = *option;
    struct okv_diag wrong;
    char copy[64];

    part.read = NULL;
    part.offset = 0;
    part.size = sizeof *number;
    snprintf(copy, sizeof copy, "%.*s", (int)length, text);
    if (okv_option_read(&part, copy, number, &wrong))
        return okv_diag_set(why, OKV_EINVAL, " '%s': %s", copy, wrong.text);
    return 0;
}

/* "1,2": all different. */
static int read_threads(const struct okv_option *option, const char *text, void *fields,
                        struct okv_diag *why)
{
    struct options *options = fields;
    uint32_t *counts = options->threads, count = 0;

    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (count == OPTIONS_TARGETS_MAX)
            return okv_diag_set(why, OKV_EINVAL, "give at most %u numbers", OPTIONS_TARGETS_MAX);
        int rc = read_part(option, at, length, &counts[count], why);
        if (rc)
            return rc;
        for (uint32_t i = 0; i < count; i++)
            if (counts[i] == counts[count])
                return okv_diag_set(why, OKV_EINVAL, "give each number once");
        options->threads_count = ++count;
        at += length;
        if (*at == '\0')
            return 0;
    }
}

/* "32", "16-4K", "trace" or "trace:64K". */
static int read_values(const struct okv_option *option, const char *text, void *fields,
                       struct okv_diag *why)
{
    struct workload_values *values = &((struct options *)fields)->values;
    const char *dash = strchr(text, '-');
    int rc = 0;

    if (strncmp(text, "trace", 5) == 0 && (text[5] == '\0' || text[5] == ':')) {
        *values = (struct workload_values){WORKLOAD_SIZES_TRACE, WORKLOAD_VALUE_MIN, TRACE_MAX};
        return text[5] ? read_part(option, text + 6, strlen(text + 6), &values->high, why) : 0;
    }
    if (dash && dash > text) {
        values->sizes = WORKLOAD_SIZES_UNIFORM;
        rc = read_part(option, text, (size_t)(dash - text), &values->low, why);
        rc = rc ? rc : read_part(option, dash + 1, strlen(dash + 1), &values->high, why);
        if (rc == 0 && values->low > values->high)
            rc = okv_diag_set(why, OKV_EINVAL, "give the smaller size first, such as 16-4K");
        return rc;
    }
    values->sizes = WORKLOAD_SIZES_FIXED;
    rc = read_part(option, text, strlen(text), &values->high, why);
    values->low = values->high;
    return rc;
}

static int read_workload(const struct okv_option *option, const char *text, void *fields,
                         struct okv_diag *why)
{
    struct options *options = fields;

    (void)option;
    if (strcmp(text, "e") == 0)
        return okv_diag_set(why, OKV_EINVAL,
                            " e: it scans in the order of keys, which okv does not offer: give a, "
                            "b, c, d or f");
    if (strlen(text) != 1 || !strchr("abcdf", text[0]))
        return okv_diag_set(why, OKV_EINVAL, "give a, b, c, d or f");
    options->workload = text[0];
    return 0;
}

/* The operation with this name, or OPERATION_COUNT. */
static enum operation find_operation(const char *name, size_t length)
{
    for (int i = 0; i < OPERATION_MIXED_COUNT; i++) {
        const char *known = operation_name((enum operation)i);
        if (strlen(known) == length && strncmp(known, name, length) == 0)
            return (enum operation)i;
    }
    return OPERATION_COUNT;
}

/* Parses "NAME=PERCENT" at *at and moves past it. Returns the operation; OPERATION_COUNT: wrong,
 * or named before. */
static enum operation read_share(const char **at, double mix[OPERATION_MIXED_COUNT])
{
    size_t length = strcspn(*at, "=,");
    enum operation operation = find_operation(*at, length);
    char *end = NULL;

    if (operation == OPERATION_COUNT || (*at)[length] != '=' || !isnan(mix[operation]))
        return OPERATION_COUNT;
    const char *number = *at + length + 1;
    mix[operation] = strtod(number, &end);
    *at = end;
    return end > number && mix[operation] >= 0 && mix[operation] <= 100 ? operation
                                                                        : OPERATION_COUNT;
}

/* Adds the missing percentage to gets, else to puts. Returns whether the sum is 100 then. */
static bool complete_mix(double mix[OPERATION_MIXED_COUNT])
{
    double sum = 0;

    for (int i = 0; i < OPERATION_MIXED_COUNT; i++)
        sum += isnan(mix[i]) ? 0 : mix[i];
    if (sum < 100 && isnan(mix[OPERATION_GET]))
        mix[OPERATION_GET] = 100 - sum;
    else if (sum < 100 && isnan(mix[OPERATION_PUT]))
        mix[OPERATION_PUT] = 100 - sum;
    sum = 0;
    for (int i = 0; i < OPERATION_MIXED_COUNT; i++) {
        mix[i] = isnan(mix[i]) ? 0 : mix[i];
        sum += mix[i];
    }
    return fabs(sum - 100) < MIX_SLACK;
}

/* "get=95,put=5", in any order: percentages. The rest to 100 goes to gets if they are not
 * named, else to puts if those are not. */
static int read_mix(const struct okv_option *option, const char *text, void *fields,
                    struct okv_diag *why)
{
    double *mix = ((struct options *)fields)->mix;
    const char *at = text;
    bool good = true;

    (void)option;
    for (int i = 0; i < OPERATION_MIXED_COUNT; i++)
        mix[i] = NAN;
    while (good) {
        good = read_share(&at, mix) != OPERATION_COUNT;
        if (!good || *at == '\0')
            break;
        good = *at++ == ',';
    }
    if (good && complete_mix(mix))
        return 0;
    return okv_diag_set(why, OKV_EINVAL,
                        "give percentages of get, put, insert, delete, rmw, cas and incr that add "
                        "up to 100, such as get=95,put=5");
}

/* "0.2,0.8": shares of the records and of the operations. */
static int read_hotspot(const struct okv_option *option, const char *text, void *fields,
                        struct okv_diag *why)
{
    struct workload_choice *choice = &((struct options *)fields)->choice;
    char *end = NULL;

    (void)option;
    choice->hot_records = strtod(text, &end);
    bool good = end > text && *end == ',';
    if (good) {
        const char *second = end + 1;
        choice->hot_operations = strtod(second, &end);
        good = end > second && *end == '\0';
    }
    if (good && choice->hot_records > 0 && choice->hot_records < 1 && choice->hot_operations > 0 &&
        choice->hot_operations < 1)
        return 0;
    return okv_diag_set(why, OKV_EINVAL,
                        "give the hot records' share of all and of the operations, both between 0 "
                        "and 1, such as 0.2,0.8");
}

static int read_make(const struct okv_option *option, const char *text, void *fields,
                     struct okv_diag *why)
{
    (void)option;
    return make_parse(text, &((struct options *)fields)->make, why);
}

static int read_database(const struct okv_option *option, const char *text, void *fields,
                         struct okv_diag *why)
{
    struct okv_options *options = &((struct options *)fields)->okv;

    (void)option;
    if (strlen(text) >= sizeof options->database)
        return okv_diag_set(why, OKV_EINVAL, " %s: a name has at most 31 characters", text);
    snprintf(options->database, sizeof options->database, "%s", text);
    return 0;
}

/* ---- the table ---- */

/* The kind of an option, its field of struct options, and its limits. */
#define FIELD(member) \
    .offset = offsetof(struct options, member), .size = sizeof((struct options *)0)->member
#define FLAG(member) OKV_OPTION_FLAG, FIELD(member)
#define TEXT(member) OKV_OPTION_TEXT, FIELD(member)
#define COUNT(member, from, to) OKV_OPTION_COUNT, FIELD(member), .least = (from), .most = (to)
#define SIZE(from, to) OKV_OPTION_SIZE, .least = (from), .most = (to)
#define REAL(from, to) .real_least = (from), .real_most = (to)
#define OTHER(function) OKV_OPTION_OTHER, .read = (function)

/* Name, letter, argument, group, flags, default, help; kind, field and limits. */
const struct okv_option bench_options[] = {
    {.group = 1, .help = "Where:"},
    {"server", 's', "[NAME=]URI", 1, 0, NULL,
     "The server: rdma://HOST[:PORT][?source=ADDRESS], ofi://HOST[:PORT], tcp://HOST[:PORT], "
     "tcps://HOST[:PORT][?ca=FILE], "
     "local:///PATH, okv://HOST[:PORT],.../NAME of a cluster, or a peer: "
     "redis://HOST:PORT, redis:///SOCKET, valkey+rdma://HOST:PORT, "
     "memcached://HOST:PORT, "
     "memcached:///SOCKET, lmdb:///DIRECTORY, lmdb+sync:///DIRECTORY, lmdb+batch:///DIRECTORY. "
     "With several, rounds alternate between them; NAME is for the report",
     OKV_OPTION_OTHER, .read = NULL /* parse() does */},
    {"timeout", 't', "TIME", 1, 0, NULL,
     "Give up on an operation after TIME, as 500ms or 10s; a number alone is seconds (5s)",
     OKV_OPTION_DURATION, FIELD(timeout_ms), .least = 1, .most = TIMEOUT_MS_MAX, .example = "10s"},
    {"database", 0, "NAME", 1, 0, NULL,
     "okv: the database, for a URI without ?database=NAME, else $OKV_DATABASE", OKV_OPTION_OTHER,
     .read = read_database},
    {"user", 0, "NAME", 1, 0, NULL, "okv: who asks, for a server with users, else $OKV_USER",
     TEXT(okv.user)},
    {"key-file", 0, "FILE", 1, 0, NULL,
     "okv: the file with the user's key, which `okv keygen' made, else $OKV_KEY_FILE",
     TEXT(okv.key_file)},
    {"tls-ca", 0, "FILE", 1, 0, NULL,
     "tcps://: CA certificates to trust, as PEM, else those of $OKV_TLS_CA, else what the system "
     "trusts",
     TEXT(okv.tls_ca)},
    {"tls-cert", 0, "FILE", 1, 0, NULL, "tcps://: a certificate to show, with --tls-key",
     TEXT(okv.tls_cert)},
    {"tls-key", 0, "FILE", 1, 0, NULL, "tcps://: the key of that certificate", TEXT(okv.tls_key)},
    {.group = 2, .help = "What is stored:"},
    {"records", 0, "N", 2, 0, "100000", "Number of items ({default})",
     COUNT(choice.records, 1, RECORDS_MAX)},
    {"key-size", 0, "SIZE", 2, 0, "16", "Bytes of a key, up to 1024 ({default})",
     SIZE(1, OKV_KEY_MAX_BYTES), FIELD(key_size)},
    {"value-size", 0, "SIZES", 2, 0, "32",
     "Bytes of a value, from 16 to what the server accepts ({default}): SIZE, uniform LOW-HIGH, "
     "or trace[:MAX], as in Facebook's ETC pool",
     SIZE(WORKLOAD_VALUE_MIN, VALUE_MAX), .read = read_values},
    {"no-load", 0, NULL, 2, 0, NULL, "The items are there from an earlier run", FLAG(no_load)},
    {"load-only", 0, NULL, 2, 0, NULL, "Store the items, keep them and end", FLAG(load_only)},
    {"keep", 0, NULL, 2, 0, NULL, "Leave the items there; else those that were stored are deleted",
     FLAG(keep)},
    {.group = 3, .help = "What is asked for:"},
    {"workload", 0, "a|b|c|d|f", 3, 0, NULL,
     "YCSB's: a 50 % puts, b 5 % puts, c gets alone, d 5 % inserts and the latest the most "
     "popular, f 50 % read-modify-write; Zipfian except d; explicit options override it",
     OTHER(read_workload)},
    {"mix", 0, "get=G,put=P,...", 3, 0, "get=95,put=5",
     "Percentages of get, put, insert, delete, rmw, cas and incr ({default})", OTHER(read_mix)},
    {"distribution", 0, "NAME", 3, 0, "uniform", "uniform, zipfian, latest or hotspot ({default})",
     OKV_OPTION_CHOICE, FIELD(choice.distribution), .words = workload_distributions},
    {"theta", 0, "T", 3, 0, "0.99", "Skew of zipfian and latest, between 0 and 1 ({default})",
     OKV_OPTION_REAL, FIELD(choice.theta), REAL(0.001, 0.999)},
    {"hotspot", 0, "R,O", 3, 0, "0.2,0.8",
     "A share R of the records gets a share O of the operations ({default})", OTHER(read_hotspot)},
    {"seed", 0, "N", 3, 0, "1", "Start of the random numbers ({default})",
     COUNT(seed, 0, UINT64_MAX)},
    {.group = 4, .help = "How much of it:"},
    {"threads", 0, "T[,T...]", 4, 0, "1",
     "Threads ({default}). With several numbers rounds alternate between them: 1,2 compares two "
     "with one",
     COUNT(threads[0], 1, THREADS_MAX), .read = read_threads},
    {"connections", 0, "C", 4, 0, "1", "Connections of each thread ({default})",
     COUNT(connections, 1, CONNECTIONS_MAX)},
    {"depth", 0, "D", 4, 0, "1",
     "Operations that each connection keeps in flight ({default}), or may have in flight with "
     "--rate (32)",
     COUNT(depth, 1, OKV_DEPTH_MAX_OPERATIONS)},
    {"rate", 0, "R", 4, 0, NULL,
     "Open loop: R operations per second, of all threads, are due whether or not earlier ones "
     "have ended; a latency is from the moment an operation was due",
     COUNT(rate, 1, RATE_MAX)},
    {"even", 0, NULL, 4, 0, NULL, "--rate at even distances, not as a Poisson process", FLAG(even)},
    {"get-many", 0, "N", 4, 0, NULL,
     "Gets alone, in batches of N; --depth of them are in flight at once (as many as N)",
     COUNT(get_many, 1, GET_MANY_MAX)},
    {"registered", 0, NULL, 4, 0, NULL,
     "Read values into registered memory: large ones without a copy", FLAG(registered)},
    {"operations", 0, "N", 4, 0, NULL, "Operations per round, of all threads",
     COUNT(operations, 1, UINT64_MAX / 2)},
    {"seconds", 0, "S", 4, 0, NULL,
     "Seconds per round, or a time such as 2m (10, unless --operations)", OKV_OPTION_SECONDS,
     FIELD(seconds), REAL(0.01, SECONDS_MAX)},
    {"rounds", 0, "N", 4, 0, NULL, "Repeat and give each round's results (1; 5 with --floor)",
     COUNT(rounds, 1, ROUNDS_MAX)},
    {"warmup", 0, "S", 4, 0, "1", "Seconds before the first round, or a time ({default})",
     OKV_OPTION_SECONDS, FIELD(warmup), REAL(0, SECONDS_MAX)},
    {"floor", 0, NULL, 4, 0, NULL,
     "Compare gets with raw READs of as many bytes, puts with echoes, at the same depth",
     FLAG(floor)},
    {.group = 5, .help = "What a cache is good for:"},
    {"replay", 0, "FILE", 5, 0, NULL,
     "Replay a trace, once: for each of its lines, KEY or KEY SIZE, a get, and after a miss a put. "
     "Gives the hit ratio beside those of LRU, S3-FIFO and the best possible; - is stdin",
     TEXT(replay)},
    {"replay-items", 0, "N", 5, 0, NULL,
     "Items that those policies have room for (as many as the server held once it was full)",
     COUNT(replay_items, 1, UINT32_MAX)},
    {"make-trace", 0, "KIND[,NAME=N]...", 5, 0, NULL,
     "Write a trace to stdout and end: zipf, drift (popularity wanders), scan, loop, onehit (keys "
     "asked for once), mixed, or tw4, tw29, tw45, tw52, tw54 (as in clusters of Twitter's caches). "
     "NAME: requests, items, theta, drift, churn, once, scan, loop, key, value, seed",
     OTHER(read_make)},
    {.group = 6, .help = "Output:"},
    {"json", 0, "FILE", 6, 0, NULL, "Also write everything as JSON; - is stdout", TEXT(json)},
    {"csv", 0, "FILE", 6, 0, NULL, "Also write a line for each round and operation; - is stdout",
     TEXT(csv)},
    {"hdr", 0, "PREFIX", 6, 0, NULL,
     "Also write the histograms, as HdrHistogram's percentile text, to "
     "PREFIX.TARGET.OPERATION.hgrm",
     TEXT(hdr)},
    {"progress", 0, NULL, 6, 0, NULL, "Show progress even if stderr is no terminal",
     FLAG(progress)},
    {.letter = 'h', .group = -1},
    {0},
};
