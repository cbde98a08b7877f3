/* ^C asks a command to end: it then closes its connection and reports how far it got. */
#include <signal.h>
#include <time.h>

#include "client/cli/run.h"

/* Global, as signals are. */
static volatile sig_atomic_t is_interrupted;

static void interrupt(int signal)
{
    (void)signal;
    is_interrupted = 1;
}

static void catch_it(int flags)
{
    const struct sigaction action = {.sa_handler = interrupt, .sa_flags = flags};
    struct sigaction present;

    if (is_interrupted) /* the next one ends the process */
        return;
    if (sigaction(SIGINT, NULL, &present) == 0 &&
        (present.sa_handler == SIG_DFL || present.sa_handler == interrupt))
        sigaction(SIGINT, &action, NULL);
}

/* Not restarted: reads and sleeps must end. */
void cli_interrupt_catch(bool once)
{
    catch_it(once ? (int)SA_RESETHAND : 0);
}

/* Restarted: stdio drops the rest of an interrupted write. */
void cli_interrupt_catch_in_output(void)
{
    catch_it(SA_RESETHAND | SA_RESTART);
}

void cli_interrupt_release(void)
{
    struct sigaction present;

    if (sigaction(SIGINT, NULL, &present) == 0 && present.sa_handler == interrupt)
        signal(SIGINT, SIG_DFL);
}

bool cli_interrupted(void)
{
    return is_interrupted;
}

void cli_interrupt_clear(void)
{
    is_interrupted = 0;
}

void cli_interrupt_end(void)
{
    if (!is_interrupted)
        return;
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
}

bool cli_pause(uint32_t ms)
{
    const struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&time, NULL);
    return !is_interrupted;
}
