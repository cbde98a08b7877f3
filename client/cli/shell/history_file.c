#include "client/cli/shell/history_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/tsv.h"

/* A longer file is cut to HISTORY_ENTRIES, so not at each start. */
#define ENTRIES_MAX (2 * HISTORY_ENTRIES)

/* Creates the directories of a path, for this user alone. */
static int make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int failed = mkdir(path, S_IRWXU) && errno != EEXIST;
        *slash = '/';
        if (failed)
            return -1;
    }
    return 0;
}

static int name_file(struct history_file *history)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int length = -1;

    if (state && state[0] == '/') /* a relative one is to be ignored */
        length = snprintf(history->path, sizeof history->path, "%s/okv/history", state);
    else if (home && home[0] == '/')
        length = snprintf(history->path, sizeof history->path, "%s/.local/state/okv/history", home);
    return length < 0 || length >= (int)sizeof history->path ? -1 : 0;
}

/* Creates it for this user alone, as entries may have values. -1: not a regular file. */
static int open_file(const char *path, int flags)
{
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, S_IRUSR | S_IWUSR);
    struct stat found;

    if (fd < 0)
        return -1;
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode))
        return fd;
    close(fd);
    return -1;
}

/* True when it is a history; writes the head of an empty one. */
static bool take_head(FILE *file)
{
    char head[sizeof HISTORY_HEAD];

    if (fgets(head, sizeof head, file))
        return strcmp(head, HISTORY_HEAD) == 0;
    return feof(file) && fputs(HISTORY_HEAD, file) >= 0 && fflush(file) == 0;
}

/* Shows the entries after the head. Returns their number. */
static size_t show_entries(FILE *file, history_visit *visit, void *user)
{
    char *line = NULL;
    size_t size = 0, count = 0;
    ssize_t got;

    for (; (got = getline(&line, &size, file)) > 0; count++) {
        size_t length = (size_t)got - 1;
        if (line[length] != '\n' || !tsv_decode(line, &length))
            continue;
        line[length] = '\n';
        line[length + 1] = '\0';
        visit(user, line);
    }
    free(line);
    return count;
}

/* Copies the head and all entries after the first `left_out`. */
static bool copy_rest(FILE *file, size_t left_out, FILE *out)
{
    char *line = NULL;
    size_t size = 0, number = 0;
    ssize_t got;

    rewind(file);
    for (; (got = getline(&line, &size, file)) > 0; number++)
        if (number == 0 || number > left_out)
            fwrite(line, 1, (size_t)got, out);
    free(line);
    return !ferror(file) && !ferror(out);
}

/* Replaces the file by a shorter one. If that fails it stays. */
static void cut_file(const struct history_file *history, FILE *file, size_t left_out)
{
    char path[PATH_MAX + 16];

    snprintf(path, sizeof path, "%s.%ld", history->path, (long)getpid());
    int fd = open_file(path, O_WRONLY | O_CREAT | O_EXCL);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        if (fd >= 0)
            close(fd);
        return;
    }
    bool done = copy_rest(file, left_out, out);
    if (fclose(out) || !done || rename(path, history->path))
        unlink(path);
}

void history_file_init(struct history_file *history, history_visit *visit, void *user)
{
    FILE *file = NULL;
    int fd = -1;

    if (name_file(history) == 0 && make_directories(history->path) == 0)
        fd = open_file(history->path, O_RDWR | O_APPEND | O_CREAT);
    if (fd >= 0 && !(file = fdopen(fd, "r+")))
        close(fd);
    if (!file || !take_head(file) || fchmod(fd, S_IRUSR | S_IWUSR)) {
        history->path[0] = '\0';
    } else {
        size_t count = show_entries(file, visit, user);
        if (count > ENTRIES_MAX)
            cut_file(history, file, count - HISTORY_ENTRIES);
    }
    if (file)
        fclose(file);
}

void history_file_add(const struct history_file *history, const char *entry)
{
    char *line = NULL;
    size_t size = 0;
    int fd = history->path[0] ? open_file(history->path, O_WRONLY | O_APPEND) : -1;
    FILE *text = fd < 0 ? NULL : open_memstream(&line, &size);

    if (text) {
        tsv_write_field(text, entry, strlen(entry) - 1); /* without its newline */
        putc('\n', text);
        /* By one write, as another shell may append too. On a full disk none is kept. */
        ssize_t written = fclose(text) == 0 ? write(fd, line, size) : 0;
        (void)written;
        free(line);
    }
    if (fd >= 0)
        close(fd);
}
