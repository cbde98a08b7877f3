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

/* The value in the first line of a file in /proc that begins with `name`, or "". */
static void read_line(const char *path, const char *name, char *out, size_t size)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(path, "r");

    out[0] = '\0';
    if (!file)
        return;
    while (out[0] == '\0' && getline(&line, &room, file) > 0) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, name, strlen(name)) != 0 || !colon ||
            (colon[1] != ' ' && colon[1] != '\t'))
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

    read_line("/proc/cpuinfo", "model name", environment->cpu, sizeof environment->cpu);
    read_line("/proc/cpuinfo", "flags", flags, sizeof flags);
    read_line("/proc/self/status", "Cpus_allowed_list", environment->allowed_cpus,
              sizeof environment->allowed_cpus);
    environment->emulated = strstr(environment->cpu, "TCG") != NULL;
    environment->is_virtual = strstr(flags, " hypervisor") != NULL;
    if (environment->cpu[0] == '\0')
        snprintf(environment->cpu, sizeof environment->cpu, "unknown");
    environment->cpus = sysconf(_SC_NPROCESSORS_ONLN);
}

/* proc(5): time of all processors since the start, in ticks. False: it is not there. */
static bool read_ticks(unsigned long long *busy, unsigned long long *all)
{
    unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;
    FILE *file = fopen("/proc/stat", "r");
    bool is_there = file && fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user,
                                   &nice, &system, &idle, &iowait, &irq, &softirq, &steal) == 8;

    if (file)
        fclose(file);
    if (!is_there)
        return false;
    *busy = user + nice + system + irq + softirq + steal;
    *all = *busy + idle + iowait;
    return true;
}

static double read_busy_cpus(long cpus)
{
    const struct timespec while_watching = {.tv_nsec = 100000000};
    unsigned long long busy[2], all[2];

    if (!read_ticks(&busy[0], &all[0]))
        return 0;
    nanosleep(&while_watching, NULL);
    if (!read_ticks(&busy[1], &all[1]) || all[1] == all[0])
        return 0;
    return (double)cpus * (double)(busy[1] - busy[0]) / (double)(all[1] - all[0]);
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
    environment->busy_cpus = read_busy_cpus(environment->cpus);
    environment->git = OKV_GIT;
    join_command(environment->command, sizeof environment->command, argc, argv);
}
