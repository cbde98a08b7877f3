/* okv(1). */
#include "client/cli/args.h"
#include "client/cli/commands.h"
#include "client/cli/shell/shell.h"

int main(int argc, char **argv)
{
    struct cli cli = {.shell = shell_run};

    cli_server_default(&cli);
    int status = command_line_run(&cli, argc, argv);
    cli_interrupt_end();
    return status;
}
