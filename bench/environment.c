#include "bench/environment.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void read_cpu_model(char *out, size_t size)
{
    char line[512];
    FILE *file = fopen("/proc/cpuinfo", "r");

    snprintf(out, size, "unknown");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon || colon[1] == '\0')
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(out, size, "%s", colon + 2);
        break;
    }
    fclose(file);
}

/* The command line as it could be typed again, unless it has quotes itself. */
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
    read_cpu_model(environment->cpu, sizeof environment->cpu);
    environment->cpus = sysconf(_SC_NPROCESSORS_ONLN);
    join_command(environment->command, sizeof environment->command, argc, argv);
}
