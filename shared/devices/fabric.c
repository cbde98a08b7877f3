#include "shared/devices/fabric.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 512

/* Whether a device of /sys/class/infiniband is driven by this driver. */
static bool has_driver(const char *directory, const char *device, const char *driver)
{
    char path[PATH_SIZE], link[PATH_SIZE];

    snprintf(path, sizeof path, "%.200s/%.64s/device/driver", directory, device);
    ssize_t length = readlink(path, link, sizeof link - 1);
    if (length <= 0)
        return false;
    link[length] = '\0';
    const char *name = strrchr(link, '/');
    return strcmp(name ? name + 1 : link, driver) == 0;
}

/* The first device in a class; with `driver` not NULL the first of that driver. */
static bool find(const char *root, const char *class, const char *driver, const char *fabric,
                 char *out, size_t size)
{
    char directory[PATH_SIZE];
    const struct dirent *entry;
    bool is_found = false;

    snprintf(directory, sizeof directory, "%.120s/sys/class/%s", root, class);
    DIR *devices = opendir(directory);
    if (!devices)
        return false;
    while (!is_found && (entry = readdir(devices))) {
        is_found =
            entry->d_name[0] != '.' && (!driver || has_driver(directory, entry->d_name, driver));
        if (is_found)
            snprintf(out, size, "%s (%.64s)", fabric, entry->d_name);
    }
    closedir(devices);
    return is_found;
}

bool okv_unused_fabric(const char *root, char *out, size_t size)
{
    return find(root, "infiniband", "efa", "EFA", out, size) ||
           find(root, "cxi", NULL, "Slingshot", out, size);
}
