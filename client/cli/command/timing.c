/* okv ping and okv probe: round-trip times to the server. */
#include <stdio.h>
#include <stdlib.h>

#include "client/cli/args.h"
#include "client/cli/item_json.h"
#include "client/cli/output.h"
#include "client/cli/stats.h"
#include "shared/base/clock.h"

#define PING_COUNT 5
#define PING_COUNT_MAX 1000000
/* Of more pings only the summary is printed. */
#define PING_LINES_MAX 10
#define PROBE_COUNT 10000
#define PROBE_COUNT_MAX 10000000
/* Of an argument. A server allows less: 64 of its buckets. */
#define PROBE_SIZE_MAX (UINT64_C(1) << 30)
/* READs between two looks at whether to end. */
#define PROBE_SLICE 100000

struct timing_arguments {
    struct cli *cli;
    uint64_t count;
    uint64_t depth;
    uint64_t size; /* 0: the bucket's */
    bool json;     /* ping */
};

static double microseconds(uint64_t ns)
{
    return (double)ns / 1000.0;
}

/* ---- ping --------------------------------------------------------------- */

static const struct okv_option ping_options[] = {
    {"count", 'c', "N", .help = "Send N requests, each after the answer to the one before (5)",
     CLI_NUMBER(struct timing_arguments, count, 1, PING_COUNT_MAX)},
    {"json", 0, NULL,
     .help = "A JSON object instead, with uri, server, count, min_us, p50_us, p99_us and max_us",
     CLI_FLAG(struct timing_arguments, json)},
    {0},
};

/* Of samples that are sorted. */
static int print_pings(const struct cli *cli, uint32_t count, const uint64_t *samples)
{
    struct okv_info info;

    okv_info(cli->handle, &info);
    printf("%u pings over %s: min %.1f us, median %.1f us, p99 %.1f us, max %.1f us\n", count,
           info.uri, microseconds(samples[0]), microseconds(cli_percentile(samples, count, 50)),
           microseconds(cli_percentile(samples, count, 99)), microseconds(samples[count - 1]));
    return CLI_DONE;
}

static int print_pings_json(const struct cli *cli, uint32_t count, const uint64_t *samples)
{
    char *uri = cli_json_text(cli->server);
    struct okv_info info;

    okv_info(cli->handle, &info);
    json_t *object =
        uri ? json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:f}", "uri", uri, "server", info.uri,
                        "count", (json_int_t)count, "min_us", microseconds(samples[0]), "p50_us",
                        microseconds(cli_percentile(samples, count, 50)), "p99_us",
                        microseconds(cli_percentile(samples, count, 99)), "max_us",
                        microseconds(samples[count - 1]))
            : NULL;

    free(uri);
    return cli_print_json_line("ping", object);
}

static int ping_all(const struct timing_arguments *arguments, uint64_t *samples)
{
    struct cli *cli = arguments->cli;
    uint32_t wanted = (uint32_t)arguments->count, count = 0;

    cli_interrupt_catch(true);
    for (; count < wanted && !cli_interrupted(); count++) {
        uint64_t start = okv_clock_ns();
        int rc = okv_ping(cli->handle);
        samples[count] = okv_clock_ns() - start;
        if (rc != OKV_OK)
            return cli_fail(cli, "ping", NULL, 0, rc);
        if (wanted <= PING_LINES_MAX && !arguments->json)
            printf("ping %u: %.1f us\n", count + 1, microseconds(samples[count]));
    }
    if (count == 0)
        return CLI_FAILED;
    cli_samples_sort(samples, count);
    int status =
        arguments->json ? print_pings_json(cli, count, samples) : print_pings(cli, count, samples);
    return cli_worse(status, cli_output_end("ping"));
}

int cli_ping(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = ping_options,
        .unexpected = "unexpected argument '%s': name the server with -s",
        .doc = "Send requests that do nothing to the server's CPU and time their answers.\v"
               "Examples:\n  okv ping\n  okv ping -c 1000\n  okv ping --json | jq .p50_us"};
    struct timing_arguments arguments = {.cli = cli, .count = PING_COUNT};

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    uint64_t *samples = calloc(arguments.count, sizeof *samples);
    if (!samples)
        return cli_fail(cli, "ping", NULL, 0, OKV_ENOMEM);
    status = ping_all(&arguments, samples);
    free(samples);
    return status;
}

/* ---- probe -------------------------------------------------------------- */

static const struct okv_option probe_options[] = {
    {"count", 'n', "N", .help = "Post N READs (10000)",
     CLI_NUMBER(struct timing_arguments, count, 1, PROBE_COUNT_MAX)},
    {"size", 0, "SIZE",
     .help = "Bytes of each READ, such as 512 or 4K; up to 64 buckets (one bucket)",
     CLI_SIZE(struct timing_arguments, size, 1, PROBE_SIZE_MAX)},
    {"depth", 0, "D", .help = "Keep D READs in flight (1)",
     CLI_NUMBER(struct timing_arguments, depth, 1, OKV_DEPTH_MAX_OPERATIONS)},
    {0},
};

static int probe_all(const struct timing_arguments *arguments, uint32_t length, uint64_t *samples)
{
    struct cli *cli = arguments->cli;
    uint32_t count = 0, depth = (uint32_t)arguments->depth;
    int rc = OKV_OK;

    cli_interrupt_catch(true);
    while (rc == OKV_OK && count < arguments->count && !cli_interrupted()) {
        uint64_t left = arguments->count - count;
        uint32_t some = left < PROBE_SLICE ? (uint32_t)left : PROBE_SLICE;
        rc = okv_bench_read(cli->handle, length, some, depth, samples + count, NULL);
        count += some;
    }
    if (rc == OKV_EINVAL) {
        fprintf(stderr, "okv: probe: %s: give another --size\n", okv_why(cli->handle));
        return CLI_USAGE;
    }
    if (rc != OKV_OK)
        return cli_fail(cli, "probe", NULL, 0, rc);
    if (count == 0)
        return CLI_FAILED;
    cli_samples_sort(samples, count);
    printf("%u READs of %u bytes, %u at a time: min %.2f us, p50 %.2f us, p99 %.2f us, "
           "max %.2f us\n",
           count, length, depth, microseconds(samples[0]),
           microseconds(cli_percentile(samples, count, 50)),
           microseconds(cli_percentile(samples, count, 99)), microseconds(samples[count - 1]));
    return cli_output_end("probe");
}

int cli_probe(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = probe_options,
        .unexpected = "unexpected argument '%s': name the server with -s",
        .doc = "Time raw READs at random places of the table: the floor under every get.\v"
               "Nothing is looked up or checked. Where the device serves READs the server's CPU "
               "has no "
               "part in it.\n\n"
               "Examples:\n  okv probe\n  okv probe -n 100000 --size 4K --depth 8"};
    struct timing_arguments arguments = {.cli = cli, .count = PROBE_COUNT, .depth = 1};
    struct okv_info info;

    int status = cli_read(&parser, argc, argv, &arguments);
    if (status == CLI_DONE)
        status = cli_connect(cli, (uint32_t)arguments.depth);
    if (status != CLI_DONE)
        return status;
    okv_info(cli->handle, &info);
    uint64_t *samples = calloc(arguments.count, sizeof *samples);
    if (!samples)
        return cli_fail(cli, "probe", NULL, 0, OKV_ENOMEM);
    uint32_t length = arguments.size ? (uint32_t)arguments.size : info.bucket_bytes;
    status = probe_all(&arguments, length, samples);
    free(samples);
    return status;
}
