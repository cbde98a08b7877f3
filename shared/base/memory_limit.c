#include "shared/base/memory_limit.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Version 1 has a number near 2^63 where there is no limit, version 2 the word max. */
#define NO_LIMIT (UINT64_C(1) << 62)

/* Lowers *lowest to the number in the file, if it has one. */
static void take(const char *path, uint64_t *lowest)
{
    unsigned long long bytes;
    FILE *file = fopen(path, "re");

    if (!file)
        return;
    if (fscanf(file, "%llu", &bytes) == 1 && bytes < *lowest)
        *lowest = bytes;
    fclose(file);
}

/* In a container the path may be that of the host, and its own group lies at the top. */
static void take_each(const char *root, const char *mount, char *group, const char *file,
                      uint64_t *lowest)
{
    char path[PATH_MAX];

    for (;;) {
        if ((size_t)snprintf(path, sizeof path, "%s%s%s/%s", root, mount, group, file) <
            sizeof path)
            take(path, lowest);
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* A line is NUMBER:CONTROLLERS:GROUP; of version 2, 0::GROUP. */
static void take_line(const char *root, char *line, uint64_t *lowest)
{
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;

    if (!group)
        return;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (strcmp(controllers + 1, "") == 0)
        take_each(root, "/sys/fs/cgroup", group, "memory.max", lowest);
    else if (strcmp(controllers + 1, "memory") == 0)
        take_each(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", lowest);
}

bool okv_memory_limit(const char *root, uint64_t *bytes)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t lowest = NO_LIMIT;

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *groups = fopen(path, "re");
    while (groups && fgets(line, sizeof line, groups))
        take_line(root, line, &lowest);
    if (groups)
        fclose(groups);
    *bytes = lowest;
    return lowest < NO_LIMIT;
}
