#include "bench/interrupt.h"

#include <signal.h>
#include <stdio.h>

static volatile sig_atomic_t caught;

static void catch (int number)
{
    caught = number;
}

/* One that is ignored stays so, as in the background of a script. */
static void catch_unless_ignored(int number)
{
    struct sigaction action = {.sa_handler = catch, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    struct sigaction present;

    if (sigaction(number, NULL, &present) == 0 && present.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void interrupt_catch(void)
{
    catch_unless_ignored(SIGINT);
    catch_unless_ignored(SIGTERM);
}

bool interrupted(void)
{
    return caught != 0;
}

void interrupt_end(void)
{
    if (!caught)
        return;
    fflush(stdout); /* the report of the rounds before */
    signal(caught, SIG_DFL);
    raise(caught);
}
