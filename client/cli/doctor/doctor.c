/* okv doctor: checks this host and a server, and says how to fix what does not work. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/doctor/checks.h"
#include "client/cli/output.h"
#include "shared/transport/ofi_missing.h"

struct doctor_arguments {
    struct cli *cli;
    bool as_json;
    bool has_peer;
};

static const struct okv_option doctor_options[] = {
    {"peer", 0, NULL,
     .help = "Compare the RDMA ports of both ends, and time gets beside what such NICs should do",
     CLI_FLAG(struct doctor_arguments, has_peer)},
    {"json", 0, NULL, .help = "Write one JSON object", CLI_FLAG(struct doctor_arguments, as_json)},
    {0},
};

#define FABRIC "libfabric"

static void tell_providers(struct doctor_report *report, void (*providers)(char *, size_t),
                           enum doctor_level if_none)
{
    const char *filter = getenv("FI_PROVIDER");
    bool is_filtered = filter != NULL; /* an empty one hides all */
    char names[128];

    providers(names, sizeof names);
    bool is_none = strcmp(names, "none") == 0;
    enum doctor_level level = is_none ? if_none : is_filtered ? DOCTOR_NOTE : DOCTOR_OK;
    doctor_add(report, level, FABRIC,
               is_filtered ? "unset FI_PROVIDER"
               : is_none   ? "install libfabric1, or give the host an IP address"
                           : NULL,
               "providers for ofi://, best first: %s%s%.60s%s", names,
               is_filtered ? "; FI_PROVIDER=" : "", is_filtered ? filter : "",
               is_filtered ? " is set, and hides others" : "");
}

/* The transport is loaded and stays so; this takes its function. */
static void check_providers(struct doctor_report *report, enum doctor_level if_none)
{
    void *module = dlopen(OKV_OFI_MODULE, RTLD_NOW | RTLD_LOCAL);
    void (*providers)(char *, size_t) = module ? dlsym(module, "okv_ofi_providers") : NULL;
    struct okv_diag what, fix;

    if (providers) {
        tell_providers(report, providers, if_none);
        return;
    }
    okv_ofi_explain_missing(dlerror(), &what, &fix);
    doctor_add(report, if_none, FABRIC, fix.text, "%s", what.text);
}

/* Without a provider there is a problem if the server's URI needs one. */
static void check_fabrics(struct doctor_report *report, const char *server)
{
    bool is_needed = strncmp(server, "ofi://", 6) == 0;

    doctor_add(report, DOCTOR_OK, "transports", NULL, "%s", okv_transports());
    check_providers(report, is_needed ? DOCTOR_PROBLEM : DOCTOR_NOTE);
}

int cli_doctor(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = doctor_options,
        .unexpected = "unexpected argument '%s': name the server with -s",
        .doc =
            "Check the limits, RDMA devices and fabrics of this host, and a server (-s, "
            "$OKV_SERVER or an existing well-known socket): connect, put, get and delete an "
            "item, with the time of each. Of a cluster also etcd, the copies and the clocks of its "
            "servers.\v"
            "Each finding is ok, a note or a problem, with what to do about it. Exit status: 0 "
            "without problems, 1 with some, 3 if it could not check.\n"
            "\nExamples:\n  okv doctor\n  okv doctor -s rdma://10.0.0.1 --json\n"
            "  okv doctor -s rdma://10.0.0.1 --peer"};
    struct doctor_arguments arguments = {.cli = cli};
    struct doctor_report report;

    int status = cli_read(&parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    doctor_report_init(&report);
    check_fabrics(&report, cli->server);
    doctor_check_host(&report, "", cli->server);
    doctor_check_devices(&report, "");
    if (cli->server_named || cli->server_found) {
        doctor_check_route(&report, "", cli->server);
        if (!doctor_check_cluster(&report, cli))
            doctor_check_server(&report, cli);
        if (arguments.has_peer && cli->handle)
            doctor_check_peer(&report, "", cli);
    } else {
        doctor_add(&report, DOCTOR_NOTE, "server",
                   "start one with `okv-server &', or name another with -s URI or OKV_SERVER",
                   "none was named, and none listens at %s: none was checked", cli->server);
    }
    bool is_printed = doctor_report_print(&report, arguments.as_json, stdout);
    status = report.problems > 0 ? CLI_MISS : CLI_DONE;
    doctor_report_fini(&report);
    if (!is_printed)
        return cli_fail(cli, "doctor", NULL, 0, OKV_ENOMEM);
    return cli_worse(status, cli_output_end("doctor"));
}
