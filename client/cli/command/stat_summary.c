#include "client/cli/command/stat_summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/output.h"
#include "client/cli/stats.h"
#include "shared/base/size.h"

/* 0: there is none. */
static uint64_t figure(const char *text, const char *name)
{
    uint64_t number = 0;

    cli_stat_number(text, name, 10, &number);
    return number;
}

/* The figures of the server are there only for the right admin. */
static bool has_server(const char *text)
{
    uint64_t unused;

    return cli_stat_number(text, "max_clients", 10, &unused);
}

static double percent_of(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_memory(const char *text)
{
    uint64_t region = figure(text, "region_bytes"), items = figure(text, "items");
    char size[32];

    okv_size_format(region, size, sizeof size);
    printf("# memory: %.1f %% of %s in use, by %" PRIu64 " item%s\n",
           percent_of(figure(text, "used_bytes"), region), size, items, cli_s(items));
}

static void print_hits(const char *text)
{
    uint64_t hits = figure(text, "client_hits"), gets = hits + figure(text, "client_misses");
    uint64_t redis_hits = figure(text, "resp_hits");
    uint64_t redis_gets = redis_hits + figure(text, "resp_misses");

    if (gets + redis_gets == 0)
        printf("# hits: no gets yet");
    else if (gets > 0)
        printf("# hits: %.1f %% of %" PRIu64 " gets that clients reported", percent_of(hits, gets),
               gets);
    else
        printf("# hits: no gets reported yet");
    if (redis_gets > 0)
        printf(", %.1f %% of %" PRIu64 " gets of Redis clients in all databases",
               percent_of(redis_hits, redis_gets), redis_gets);
    putchar('\n');
}

static void print_clients(const char *text)
{
    if (has_server(text))
        printf("# clients: %" PRIu64 " of %" PRIu64 " connected\n",
               figure(text, "sessions") + figure(text, "resp_clients"),
               figure(text, "max_clients"));
    else
        printf("# clients: shown to users with the right admin\n");
}

/* The sum of those whose names begin so. */
static uint64_t sum_of(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    uint64_t sum = 0;

    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, prefix, length) == 0)
            sum += strtoull(line + strcspn(line, " \n"), NULL, 10);
    return sum;
}

static void print_refused(const char *text)
{
    printf("# refused: %" PRIu64 " puts without room, %" PRIu64 " requests without a right",
           figure(text, "puts_refused"), figure(text, "denied"));
    if (has_server(text))
        printf(", %" PRIu64 " connections", sum_of(text, "rejected_"));
    putchar('\n');
}

static void print_sync(const char *text)
{
    uint64_t syncs;

    if (!cli_stat_number(text, "log_syncs", 10, &syncs))
        printf("# sync: none, the items are in memory only\n");
    else if (figure(text, "log_failed"))
        printf("# sync: the log failed, and writes are refused\n");
    else if (figure(text, "disk_full"))
        printf("# sync: the disk is full, and writes are refused\n");
    else if (syncs == 0)
        printf("# sync: no syncs yet; %" PRIu64 " bytes wait for one\n",
               figure(text, "unsynced_bytes"));
    else
        printf("# sync: %" PRIu64 " syncs, 99 %% of them within %.1f ms; %" PRIu64
               " bytes wait for one\n",
               syncs, (double)figure(text, "sync_p99_us") / 1000, figure(text, "unsynced_bytes"));
}

void cli_stat_summarize(const char *text)
{
    print_memory(text);
    print_hits(text);
    print_clients(text);
    print_refused(text);
    print_sync(text);
}
