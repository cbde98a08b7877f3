#include "bench/report/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* The build defines it if git is there. */
#ifndef OKV_GIT
#define OKV_GIT ""
#endif

/* The value of `name` for the first processor in /proc/cpuinfo, or "". */
static void read_cpu_line(const char *name, char *out, size_t size)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen("/proc/cpuinfo", "r");

    out[0] = '\0';
    if (!file)
        return;
    while (out[0] == '\0' && getline(&line, &room, file) > 0) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, name, strlen(name)) != 0 || !colon || colon[1] != ' ')
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, size, "%s", colon + 2);
    }
    free(line);
    fclose(file);
}

static void read_cpu(struct environment *environment)
{
    char flags[8192];

    read_cpu_line("model name", environment->cpu, sizeof environment->cpu);
    read_cpu_line("flags", flags, sizeof flags);
    environment->emulated = strstr(environment->cpu, "TCG") != NULL;
    environment->is_virtual = strstr(flags, " hypervisor") != NULL;
    if (environment->cpu[0] == '\0')
        snprintf(environment->cpu, sizeof environment->cpu, "unknown");
    environment->cpus = sysconf(_SC_NPROCESSORS_ONLN);
}

/* The command line, quoted for a shell, except for single quotes within an argument. */
static void join_command(char *out, size_t size, int argc, char **argv)
{
    size_t used = 0;

    out[0] = '\0';
    for (int i = 0; i < argc && used < size; i++) {
        const char *quote = argv[i][strcspn(argv[i], " \t*?$&;|<>()\"\\")] != '\0' ? "'" : "";
        int length =
            snprintf(out + used, size - used, "%s%s%s%s", i > 0 ? " " : "", quote, argv[i], quote);
        used += (size_t)length;
    }
}

void environment_read(struct environment *environment, int argc, char **argv)
{
    struct utsname system;
    struct tm utc;
    time_t now = time(NULL);

    memset(environment, 0, sizeof *environment);
    gmtime_r(&now, &utc);
    strftime(environment->date, sizeof environment->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (uname(&system) == 0) {
        snprintf(environment->kernel, sizeof environment->kernel, "%s %s", system.sysname,
                 system.release);
        snprintf(environment->machine, sizeof environment->machine, "%s", system.machine);
    }
    read_cpu(environment);
    environment->git = OKV_GIT;
    join_command(environment->command, sizeof environment->command, argc, argv);
}
