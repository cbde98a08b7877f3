/* okv doctor: what of this host and of a server works, what does not, and what to do about it. */
#include <stdio.h>

#include "client/cli/cli.h"
#include "client/cli/doctor/checks.h"

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

int cli_doctor(struct cli *cli, int argc, char **argv)
{
    static const struct argp parser = {
        .options = doctor_options,
        .parser = parse_doctor,
        .doc = "Look at the limits, RDMA devices and fabrics of this host, and at a server, of -s, "
               "$OKV_SERVER or a well-known socket that is there: connect, put, get and delete an "
               "item, with the time of each.\v"
               "Each finding is ok, a note or a problem, with what to do about it. Exit status: 0 "
               "without problems, 1 with some, 3 if it could not look.\n\n"
               "Examples:\n  okv doctor\n  okv doctor -s rdma://10.0.0.1 --json",
        .children = cli_common_options};
    struct doctor_arguments arguments = {.cli = cli};
    struct doctor_report report;

    int status = cli_parse(&parser, 0, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    doctor_report_init(&report);
    doctor_check_fabrics(&report);
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
