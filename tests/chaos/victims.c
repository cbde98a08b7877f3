#include "tests/chaos/victim.h"

#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool victims_init(struct victims *victims, const char *uri, uint64_t seed)
{
    const size_t size = VICTIMS_MAX * sizeof(struct victim_state);

    *victims = (struct victims){.uri = uri, .seed = seed, .fd = memfd_create("victims", 0)};
    if (victims->fd < 0 || ftruncate(victims->fd, (off_t)size))
        return false;
    victims->states = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, victims->fd, 0);
    return victims->states != MAP_FAILED;
}

void victims_fini(struct victims *victims)
{
    for (unsigned i = 0; i < VICTIMS_MAX; i++)
        victim_kill(victims, i);
    munmap(victims->states, VICTIMS_MAX * sizeof(struct victim_state));
    close(victims->fd);
}

bool victim_start(struct victims *victims, unsigned index, const char *role)
{
    char number[16], life[24], fd[16];
    char *argv[] = {OKV_VICTIM_BIN, (char *)role, (char *)victims->uri, number, life, fd, NULL};
    struct victim_state *state = &victims->states[index];

    atomic_store(&state->under_way, 0);
    atomic_store(&state->long_under_way, 0);
    atomic_store(&state->failure, 0);
    snprintf(number, sizeof number, "%u", index);
    snprintf(life, sizeof life, "%" PRIu64, victims->seed + ++victims->started);
    snprintf(fd, sizeof fd, "%d", victims->fd);
    return posix_spawn(&victims->pids[index], argv[0], NULL, NULL, argv, environ) == 0;
}

void victim_kill(struct victims *victims, unsigned index)
{
    if (victims->pids[index] == 0)
        return;
    kill(victims->pids[index], SIGKILL);
    waitpid(victims->pids[index], NULL, 0);
    victims->pids[index] = 0;
}

bool victim_has_ended(struct victims *victims, unsigned index)
{
    siginfo_t info = {.si_pid = 0};

    return victims->pids[index] &&
           waitid(P_PID, (id_t)victims->pids[index], &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}
