#include "server/database/logs.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/wal/listing.h"
#include "shared/base/uri.h"

static bool is_of_log(const char *name)
{
    return okv_wal_number(OKV_WAL_SEGMENT, name) || okv_wal_number(OKV_WAL_SNAPSHOT, name);
}

static bool has_log(const char *data, const char *name)
{
    const struct dirent *entry = NULL;
    char path[PATH_MAX];

    if (!okv_name_is_valid(name) ||
        (size_t)snprintf(path, sizeof path, "%s/%s", data, name) >= sizeof path)
        return false;
    DIR *files = opendir(path);
    if (!files)
        return false;
    while ((entry = readdir(files)) && !is_of_log(entry->d_name))
        continue;
    closedir(files);
    return entry != NULL;
}

void okv_logs_each(const char *data, void (*each)(void *user, const char *name), void *user)
{
    struct dirent **entries;
    int count = scandir(data, &entries, NULL, alphasort);

    for (int i = 0; i < count; i++) {
        if (has_log(data, entries[i]->d_name))
            each(user, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}
