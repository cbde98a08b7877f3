#include "tests/faults/runs.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/faults/program.h"
#include "tests/faults/serving.h"
#include "tests/support/pace.h"
#include "tests/support/sanitized.h"

/* A run takes a fraction of a second; longer waits end by deadlines of 1.5 s. */
#define HUNG_SECONDS 300
/* Runs that are wrong before the rest is left. */
#define WRONG_MAX 25

/* Shared with children. */
static struct left {
    unsigned descriptors; /* that clean runs left open */
    unsigned kept;
    bool accepted;
} * left;

void runs_init(void)
{
    left = mmap(NULL, sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (left == MAP_FAILED)
        complain("no memory");
}

unsigned runs_count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    if (!directory)
        complain("/proc/self/fd cannot be read");
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

void runs_check_descriptors(unsigned before)
{
    uint64_t end = pace_guard_end();
    unsigned more;

    /* A thread of its own may close some a moment later. */
    while ((more = runs_count_descriptors() - before) > left->kept && left->accepted &&
           okv_clock_ns() < end)
        usleep(1000);
    if (!left->accepted) {
        if (more > left->descriptors)
            left->descriptors = more;
    } else if (more > left->kept) {
        if (system("ls -l /proc/$PPID/fd >&2"))
            fputs("no list of them\n", stderr);
        complain("%u descriptors are left open, %u more than by a clean run", more,
                 more - left->kept);
    }
}

void runs_accept_descriptors(void)
{
    left->kept = left->descriptors;
    left->accepted = true;
}

static void child(FILE *out, const struct runs *runs)
{
    alarm(HUNG_SECONDS);
    dup2(fileno(out), STDERR_FILENO);
    dup2(fileno(out), STDOUT_FILENO);
    fclose(out);
    runs->run(runs->user);
    exit(1);
}

static void print_output(FILE *out)
{
    char line[512];

    rewind(out);
    while (fgets(line, sizeof line, out))
        printf("    %s", line);
}

static void report(const struct runs *runs, const struct inject_plan *plan, int status, uint64_t ms,
                   FILE *out)
{
    const struct inject_failure *failure = &inject->failure;

    if (status == 0)
        printf("ok");
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        printf("HUNG");
    else if (WIFSIGNALED(status))
        printf("KILLED by %s", strsignal(WTERMSIG(status)));
    else
        printf("EXIT %d", WEXITSTATUS(status));
    printf(" %s n=%" PRIu64 "%s, %" PRIu64 " ms", runs->name, plan->nth,
           plan->offset ? " of its site" : "", ms);
    if (!atomic_load(&failure->happened)) {
        printf(", nothing failed\n");
    } else {
        printf(", %s failed with %s\n", failure->function,
               failure->way == INJECT_SHORT     ? "half"
               : failure->way == INJECT_NOTHING ? "nothing"
                                                : strerror(failure->way));
        program_print_place(stdout, "  at", failure->function, failure->offset);
        for (unsigned i = 1; i < failure->frame_count && (status || runs->verbose); i++)
            program_print_place(stdout, "  under", "", failure->frames[i]);
    }
    if (status)
        print_output(out);
}

bool runs_are_enough(const struct runs *runs)
{
    return runs->wrong >= WRONG_MAX;
}

bool runs_do(struct runs *runs, const struct inject_plan *plan)
{
    FILE *out = tmpfile();
    int status = 0;

    if (!out)
        complain("no temporary file");
    if (runs_are_enough(runs)) {
        fclose(out);
        return false;
    }
    uint64_t began_ns = okv_clock_ns();
    pace_ms(0); /* measured here, and not again by every child */
    inject_plan(plan);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        child(out, runs);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        complain("no child");
    runs->count++;
    runs->wrong += status != 0;
    if (status || runs->verbose)
        report(runs, plan, status, (okv_clock_ns() - began_ns) / 1000000, out);
    fclose(out);
    return status == 0;
}
