#include "bench/report/output.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_stdout(const char *name)
{
    return strcmp(name, "-") == 0;
}

/* Returns 0 or an errno. */
static int directory_check(const char *path)
{
    char directory[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;

    if (length >= sizeof directory)
        return ENAMETOOLONG;
    memcpy(directory, path, length);
    directory[length] = '\0';
    return access(slash ? directory : ".", W_OK | X_OK) == 0 ? 0 : errno;
}

int output_check(const char *name)
{
    struct stat there;

    if (is_stdout(name))
        return 0;
    if (name[0] == '\0')
        return ENOENT;
    if (stat(name, &there) != 0)
        return errno == ENOENT ? directory_check(name) : errno;
    if (S_ISDIR(there.st_mode))
        return EISDIR;
    return access(name, W_OK) == 0 ? 0 : errno;
}

/* Sets *path to the resolved name if it is a regular file or does not exist, else to NULL. Returns
 * 0 or an errno. */
static int resolve(const char *name, char **path)
{
    struct stat there;
    bool exists = stat(name, &there) == 0;

    *path = NULL;
    if (exists ? !S_ISREG(there.st_mode) : lstat(name, &there) == 0)
        return 0;
    /* Replaces the target of a symbolic link, not the link. */
    *path = exists ? realpath(name, NULL) : strdup(name);
    if (!*path)
        return errno;
    if (directory_check(*path) == 0)
        return 0;
    free(*path);
    *path = NULL;
    return 0;
}

static void output_fini(struct output *output)
{
    free(output->path);
    free(output->part);
    *output = (struct output){.file = NULL};
}

/* Creates the temporary file, with the mode of the file that it will replace. Returns 0 or an
 * errno. */
static int part_open(struct output *output)
{
    struct stat there;

    unlink(output->part); /* left by a killed run with this pid */
    output->file = fopen(output->part, "wx");
    if (!output->file)
        return errno;
    if (stat(output->path, &there) == 0 && fchmod(fileno(output->file), there.st_mode) != 0) {
        int error = errno;
        fclose(output->file);
        unlink(output->part);
        return error;
    }
    return 0;
}

int output_begin(struct output *output, const char *name)
{
    *output = (struct output){.file = NULL};
    if (is_stdout(name)) {
        output->file = stdout;
        return 0;
    }
    int error = resolve(name, &output->path);
    if (error)
        return error;
    if (output->path && asprintf(&output->part, "%s.%d.part", output->path, (int)getpid()) < 0) {
        output->part = NULL;
        error = ENOMEM;
        goto fini;
    }
    if (output->part)
        error = part_open(output);
    else
        error = (output->file = fopen(name, "w")) ? 0 : errno;
    if (!error)
        return 0;
fini:
    output_fini(output);
    return error;
}

int output_end(struct output *output, bool whole, char **kept)
{
    int error = 0;

    *kept = NULL;
    if (output->file == stdout)
        error = fflush(stdout) == 0 ? (ferror(stdout) ? EIO : 0) : errno;
    else if (fclose(output->file) != 0)
        error = errno;
    if (output->part && (!whole || error)) {
        unlink(output->part);
    } else if (output->part && rename(output->part, output->path) != 0) {
        error = errno;
        *kept = output->part;
        output->part = NULL;
    }
    output_fini(output);
    return error;
}
