#include "client/cli/command/cluster_recovery.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/command/cluster_report.h"

/* How far a log reaches. The one with the later epoch has more, whatever its length: an epoch
 * begins with all that was answered before. */
struct reach {
    int64_t epoch, position;
};

static struct reach reach_of(const json_t *report, const char *database)
{
    const json_t *object = cli_cluster_database(report, database);

    return (struct reach){.epoch = cli_cluster_number(object, "log_epoch"),
                          .position = cli_cluster_number(object, "position")};
}

static bool is_more(struct reach a, struct reach b)
{
    return a.epoch > b.epoch || (a.epoch == b.epoch && a.position > b.position);
}

static void print_reach(const char *uri, struct reach reach, const char *remark)
{
    fprintf(stderr, "  %s: its log ends in epoch %" PRId64 ", at position %" PRId64 "%s\n", uri,
            reach.epoch, reach.position, remark);
}

/* False: it does not say. */
static bool ask(const struct cli *cli, const json_t *server, const char *database, const char **uri,
                struct reach *out)
{
    struct cli other = *cli;
    char why[CLI_WHY_TEXT];
    json_t *report = NULL;

    other.handle = cli_cluster_open(cli, server, uri, why);
    int rc = other.handle ? cli_cluster_read(&other, &report) : OKV_EDISCONNECTED;
    if (rc == OKV_OK)
        *out = reach_of(report, database);
    else
        fprintf(stderr, "  %s: no answer: %s\n", *uri, other.handle ? okv_strerror(rc) : why);
    json_decref(report);
    okv_close(&other.handle);
    return rc == OKV_OK;
}

bool cli_cluster_plan_recovery(const struct cli *cli, const json_t *report, const char *database)
{
    const char *self = cli_cluster_text(report, "server"), *uri, *more = NULL;
    struct reach own = reach_of(report, database), most = own, reach;
    json_t *server;
    size_t i;

    fprintf(stderr, "Of %s these servers that run have:\n", database);
    print_reach(cli_cluster_place(report, self), own, " (the one that is asked)");
    json_array_foreach(json_object_get(report, "servers"), i, server)
    {
        if (strcmp(cli_cluster_text(server, "id"), self) == 0 ||
            !ask(cli, server, database, &uri, &reach))
            continue;
        print_reach(uri, reach, "");
        if (!is_more(reach, most))
            continue;
        most = reach;
        more = cli_cluster_place(report, cli_cluster_text(server, "id"));
    }
    if (more)
        fprintf(stderr,
                "okv: cluster recover: %s has more: give it this command (-s), or stop it if what "
                "it has is not to count\n",
                more);
    return !more;
}
