#include "server/core/processors.h"

#include <stdlib.h>

#include "shared/base/error.h"

/* Reads a number; *text is behind it then. -1: there is none. */
static long read_number(const char **text)
{
    char *end;
    long number = **text >= '0' && **text <= '9' ? strtol(*text, &end, 10) : -1;

    if (number < 0 || number >= CPU_SETSIZE)
        return -1;
    *text = end;
    return number;
}

static int malformed(struct okv_diag *diag)
{
    return okv_diag_set(diag, OKV_EINVAL, "give processors, such as 2-5,8");
}

static int check_usable(const cpu_set_t *usable, const cpu_set_t *asked, struct okv_diag *diag)
{
    if (CPU_COUNT(usable) == 0)
        return okv_diag_set(diag, OKV_EINVAL, "the system does not tell its processors");
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, asked) && !CPU_ISSET(cpu, usable))
            return okv_diag_set(diag, OKV_EINVAL,
                                "processor %d is not there, or not for this process (see "
                                "taskset -p)",
                                cpu);
    if (CPU_EQUAL(asked, usable))
        return okv_diag_set(diag, OKV_EINVAL,
                            "these are all processors: leave one to the server's other threads");
    return 0;
}

int okv_processors_parse(const char *text, const cpu_set_t *usable, cpu_set_t *out,
                         struct okv_diag *diag)
{
    const char *at = text;

    CPU_ZERO(out);
    do {
        long first = read_number(&at), last = first;
        if (first >= 0 && *at == '-') {
            at++;
            last = read_number(&at);
        }
        if (first < 0 || last < first || (*at && *at != ','))
            return malformed(diag);
        for (long cpu = first; cpu <= last; cpu++)
            CPU_SET((size_t)cpu, out);
    } while (*at++);
    return check_usable(usable, out, diag);
}

void okv_processors_avoid(const cpu_set_t *of_workers)
{
    cpu_set_t others;

    if (CPU_COUNT(of_workers) == 0 || sched_getaffinity(0, sizeof others, &others))
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, of_workers))
            CPU_CLR(cpu, &others);
    sched_setaffinity(0, sizeof others, &others);
}

void okv_processors_take(const cpu_set_t *of_workers, unsigned index)
{
    cpu_set_t one;

    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, of_workers) && index-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof one, &one);
            return;
        }
}
