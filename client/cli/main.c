/* okv(1). */
#include <signal.h>
#include <stdio.h>

#include "client/cli/args.h"
#include "client/cli/commands.h"
#include "client/cli/shell/shell.h"
#include "shared/base/printable.h"
#include "shared/base/standard_files.h"
#include "shared/base/standard_output.h"

int main(int argc, char **argv)
{
    static struct okv_printable out, err;
    struct cli cli = {.shell = shell_run};

    if (okv_standard_files_open()) {
        perror("okv: /dev/null for a descriptor that is closed");
        return CLI_FAILED;
    }
    okv_standard_output_check_at_exit("okv");
    signal(SIGXFSZ, SIG_IGN); /* output beyond the limit on files fails by its write */
    if (!okv_printable_stream(&out, &stdout) || !okv_printable_stream(&err, &stderr)) {
        fputs("okv: out of memory\n", stderr);
        return CLI_FAILED;
    }
    cli_server_default(&cli);
    int status = command_line_run(&cli, argc, argv);
    cli_interrupt_end();
    return status;
}
