#include "tests/support/users_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

void users_file_open(struct users_file *file)
{
    strcpy(file->directory, "/tmp/okv-users-XXXXXX");
    assert_non_null(mkdtemp(file->directory));
    snprintf(file->users, sizeof file->users, "%s/users", file->directory);
}

void users_file_close(struct users_file *file)
{
    char command[128];

    snprintf(command, sizeof command, "rm -rf '%s'", file->directory);
    assert_int_equal(system(command), 0);
}

/* By a name of its own first: a reader finds the old file or the new one, whole. */
static void place(const char *path, const char *text)
{
    char fresh[112];

    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *out = fopen(fresh, "w");
    assert_non_null(out);
    assert_int_equal(chmod(fresh, 0600), 0);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(rename(fresh, path), 0);
}

void users_file_write(const struct users_file *file, const char *text)
{
    place(file->users, text);
}

const char *users_file_key(const struct users_file *file, const char *name, const char *key)
{
    static char path[96];
    char line[64];

    snprintf(path, sizeof path, "%.60s/%.24s.key", file->directory, name);
    snprintf(line, sizeof line, "%s\n", key);
    place(path, line);
    return path;
}
