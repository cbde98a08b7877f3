#include "tests/chaos/crowd.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool crowd_start(struct crowd_process *process, const char *kind, const char *uri, unsigned count,
                 double seconds)
{
    char number[16], time[32];
    char *argv[] = {OKV_CROWD_BIN, (char *)kind, (char *)uri, number, time, NULL};
    posix_spawn_file_actions_t actions;
    int out[2];

    snprintf(number, sizeof number, "%u", count);
    snprintf(time, sizeof time, "%.3f", seconds);
    if (pipe2(out, O_CLOEXEC))
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    int rc = posix_spawn(&process->pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    process->out = out[0];
    return rc == 0;
}

bool crowd_read(struct crowd_process *process, struct crowd_result *result)
{
    char line[200];
    FILE *file = fdopen(dup(process->out), "r");
    bool right =
        file && fgets(line, sizeof line, file) &&
        sscanf(line, "asked %u answered %u refused %u failed %u in %lf s", &result->asked,
               &result->answered, &result->refused, &result->failed, &result->seconds) == 5;

    if (file)
        fclose(file);
    return right;
}

void crowd_end(struct crowd_process *process)
{
    if (process->pid == 0)
        return;
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    close(process->out);
    process->pid = 0;
}
