/* okv(1). */
#include "client/cli/cli.h"
#include "client/cli/commands.h"

int main(int argc, char **argv)
{
    struct cli cli = {0};

    cli_server_default(&cli);
    int status = command_line_run(&cli, argc, argv);
    cli_interrupt_end();
    return status;
}
