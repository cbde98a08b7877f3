/* okv doctor: checks this host and a server, and says how to fix what does not work. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/doctor/checks.h"
#include "client/cli/output.h"

#define OPTION_JSON 0x300

struct doctor_arguments {
    struct cli *cli;
    bool as_json;
};

static const struct argp_option doctor_options[] = {
    {"json", OPTION_JSON, NULL, 0, "Write one JSON object", 0},
    {0},
};

static error_t parse_doctor(int key, char *text, struct argp_state *state)
{
    struct doctor_arguments *arguments = state->input;

    cli_parse_child(key, state, arguments->cli);
    switch (key) {
    case OPTION_JSON:
        arguments->as_json = true;
        return 0;
    case ARGP_KEY_ARG:
        return cli_usage(state, "unexpected argument '%s': name the server with -s", text);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The transport is loaded and stays so; this takes its function. */
static void check_providers(struct doctor_report *report)
{
    char names[128];
    void *module = dlopen(OKV_OFI_MODULE, RTLD_NOW | RTLD_LOCAL);
    void (*providers)(char *, size_t) = module ? dlsym(module, "okv_ofi_providers") : NULL;

    if (!providers)
        return;
    providers(names, sizeof names);
    bool is_none = strcmp(names, "none") == 0;
    doctor_add(report, is_none ? DOCTOR_NOTE : DOCTOR_OK, "libfabric",
               is_none ? "install libfabric1, or give the host an IP address" : NULL,
               "providers for ofi://, best first: %s", names);
}

static void check_fabrics(struct doctor_report *report)
{
    doctor_add(report, DOCTOR_OK, "transports", NULL, "%s", okv_transports());
    check_providers(report);
}

int cli_doctor(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = doctor_options,
        .parser = parse_doctor,
        .doc = "Check the limits, RDMA devices and fabrics of this host, and a server (-s, "
               "$OKV_SERVER or an existing well-known socket): connect, put, get and delete an "
               "item, with the time of each.\v"
               "Each finding is ok, a note or a problem, with what to do about it. Exit status: 0 "
               "without problems, 1 with some, 3 if it could not check.\n"
               "\nExamples:\n  okv doctor\n  okv doctor -s rdma://10.0.0.1 --json",
        .children = cli_common_options};
    struct doctor_arguments arguments = {.cli = cli};
    struct doctor_report report;

    int status = cli_parse(&parser, 0, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    doctor_report_init(&report);
    check_fabrics(&report);
    doctor_check_host(&report, "", cli->server);
    doctor_check_devices(&report, "");
    if (cli->server_named || cli->server_found) {
        doctor_check_route(&report, "", cli->server);
        doctor_check_server(&report, cli);
    }
    bool is_printed = doctor_report_print(&report, arguments.as_json, stdout);
    status = report.problems > 0 ? CLI_MISS : CLI_DONE;
    doctor_report_fini(&report);
    if (!is_printed)
        return cli_fail(cli, "doctor", NULL, 0, OKV_ENOMEM);
    return cli_worse(status, cli_output_end("doctor"));
}
