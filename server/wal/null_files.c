#include "server/wal/null_files.h"

#include <errno.h>

struct okv_file {
    char unused;
};

static int make(struct okv_files *files, const char *name, struct okv_file **out,
                struct okv_diag *why)
{
    static struct okv_file nothing;

    (void)files, (void)name, (void)why;
    *out = &nothing;
    return 0;
}

static int refuse(struct okv_files *files, const char *name, struct okv_file **out,
                  struct okv_diag *why)
{
    (void)files, (void)name, (void)out;
    return okv_file_failed(ENOENT, why);
}

static void close_file(struct okv_file *file)
{
    (void)file;
}

static int write_file(struct okv_file *file, struct iovec *vectors, unsigned count, uint64_t offset,
                      struct okv_diag *why)
{
    (void)file, (void)vectors, (void)count, (void)offset, (void)why;
    return 0;
}

/* Of reserve and write_out. */
static int accept_range(struct okv_file *file, uint64_t offset, uint64_t length,
                        struct okv_diag *why)
{
    (void)file, (void)offset, (void)length, (void)why;
    return 0;
}

static int trim(struct okv_files *files, const char *name, uint64_t end, struct okv_diag *why)
{
    (void)files, (void)name, (void)end, (void)why;
    return 0;
}

static int sync_file(struct okv_file *file, struct okv_diag *why)
{
    (void)file, (void)why;
    return 0;
}

static int read_file(struct okv_file *file, void *buffer, size_t length, uint64_t offset,
                     size_t *got, struct okv_diag *why)
{
    (void)file, (void)buffer, (void)length, (void)offset, (void)why;
    *got = 0;
    return 0;
}

static int size(struct okv_file *file, uint64_t *out, struct okv_diag *why)
{
    (void)file, (void)why;
    *out = 0;
    return 0;
}

static int rename_file(struct okv_files *files, const char *from, const char *to,
                       struct okv_diag *why)
{
    (void)files, (void)from, (void)to, (void)why;
    return 0;
}

static int remove_file(struct okv_files *files, const char *name, struct okv_diag *why)
{
    (void)files, (void)name, (void)why;
    return 0;
}

static int sync_names(struct okv_files *files, struct okv_diag *why)
{
    (void)files, (void)why;
    return 0;
}

static int list(struct okv_files *files, int (*each)(const char *name, void *user), void *user,
                struct okv_diag *why)
{
    (void)files, (void)each, (void)user, (void)why;
    return 0;
}

struct okv_files *okv_null_files(void)
{
    static const struct okv_file_ops ops = {
        .create = make,
        .reopen = make,
        .open = refuse,
        .close = close_file,
        .write = write_file,
        .reserve = accept_range,
        .trim = trim,
        .sync = sync_file,
        .write_out = accept_range,
        .read = read_file,
        .size = size,
        .rename = rename_file,
        .remove = remove_file,
        .sync_names = sync_names,
        .list = list,
    };
    static struct okv_files files = {.ops = &ops};

    return &files;
}

bool okv_files_keep(const struct okv_files *files)
{
    return files != okv_null_files();
}
