#include "client/cli/doctor/files.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool doctor_file_exists(const char *root, const char *file)
{
    char path[DOCTOR_PATH_SIZE];

    snprintf(path, sizeof path, "%s%s", root, file);
    return access(path, F_OK) == 0;
}

bool doctor_file_line(const char *root, const char *file, char *out, size_t size)
{
    char path[DOCTOR_PATH_SIZE];

    snprintf(path, sizeof path, "%s%s", root, file);
    FILE *stream = fopen(path, "re");
    if (!stream)
        return false;
    bool is_read = fgets(out, (int)size, stream) != NULL;
    fclose(stream);
    if (is_read)
        out[strcspn(out, "\n")] = '\0';
    return is_read;
}

bool doctor_file_number(const char *root, const char *file, unsigned long long *out)
{
    char line[32];

    return doctor_file_line(root, file, line, sizeof line) && sscanf(line, "%llu", out) == 1;
}
