/* The files of a directory: writes that the kernel takes in parts, space that is reserved, and a
 * file that somebody removed. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/wal/file.h"
#include "shared/base/error.h"

#define MIB (UINT64_C(1) << 20)

struct fixture {
    char path[64];
    struct okv_directory directory;
    const struct okv_file_ops *ops;
    struct okv_file *file;
};

static size_t most;       /* bytes that a call writes; 0: as many as there are */
static unsigned calls;    /* of pwritev() */
static int reserve_error; /* errno of the next call of fallocate(); 0: none */

ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int count, off_t offset);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);
int __real_fallocate(int fd, int mode, off_t offset, off_t length);

/* Every other call is interrupted. */
ssize_t __wrap_pwritev(int fd, const struct iovec *vectors, int count, off_t offset)
{
    size_t length = vectors[0].iov_len;

    assert_true(count > 0 && length > 0);
    if (calls++ % 2) {
        errno = EINTR;
        return -1;
    }
    return pwrite(fd, vectors[0].iov_base, most && most < length ? most : length, offset);
}

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
    int error = reserve_error;

    reserve_error = 0;
    if (!error)
        return __real_fallocate(fd, mode, offset, length);
    errno = error;
    return -1;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    snprintf(fixture->path, sizeof fixture->path, "/tmp/okv-file-XXXXXX");
    assert_non_null(mkdtemp(fixture->path));
    assert_int_equal(okv_directory_open(&fixture->directory, fixture->path, NULL), 0);
    fixture->ops = fixture->directory.files.ops;
    assert_int_equal(fixture->ops->create(&fixture->directory.files, "file", &fixture->file, NULL),
                     0);
    most = calls = 0;
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[128];

    fixture->ops->close(fixture->file);
    okv_directory_close(&fixture->directory);
    snprintf(command, sizeof command, "rm -r %s", fixture->path);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static struct stat status_of(const struct fixture *fixture)
{
    char path[80];
    struct stat status;

    snprintf(path, sizeof path, "%s/file", fixture->path);
    assert_int_equal(stat(path, &status), 0);
    return status;
}

#define FILE_TEST(name) TEST_WITH(name, set_up, tear_down)

FILE_TEST(a_write_goes_on_where_the_kernel_stopped)
{
    static const char expected[] = "\0\0\0one, two and three";
    struct fixture *fixture = *state;
    char one[] = "one, ", two[] = "two ", three[] = "and three";

    for (most = 1; most < 8; most++) {
        struct iovec vectors[] = {{one, 5}, {two, 0}, {two, 4}, {three, 9}};
        char found[32];
        size_t got;
        struct okv_file *file;
        assert_int_equal(fixture->ops->write(fixture->file, vectors, 4, 3, NULL), 0);
        assert_int_equal(fixture->ops->open(&fixture->directory.files, "file", &file, NULL), 0);
        assert_int_equal(fixture->ops->read(file, found, sizeof found, 0, &got, NULL), 0);
        fixture->ops->close(file);
        assert_int_equal(got, sizeof expected - 1);
        assert_memory_equal(found, expected, got);
        assert_int_equal(fixture->ops->remove(&fixture->directory.files, "file", NULL), 0);
        fixture->ops->close(fixture->file);
        assert_int_equal(
            fixture->ops->create(&fixture->directory.files, "file", &fixture->file, NULL), 0);
    }
}

FILE_TEST(what_is_reserved_is_no_part_of_the_file)
{
    struct fixture *fixture = *state;
    char byte = 1;
    struct iovec vector = {&byte, 1};

    assert_int_equal(fixture->ops->write(fixture->file, &vector, 1, 0, NULL), 0);
    reserve_error = EINTR;
    assert_int_equal(fixture->ops->reserve(fixture->file, 0, 4 * MIB, NULL), 0);
    assert_true((uint64_t)status_of(fixture).st_blocks * 512 >= 4 * MIB);
    assert_int_equal(status_of(fixture).st_size, 1);
    assert_int_equal(fixture->ops->trim(&fixture->directory.files, "file", MIB, NULL), 0);
    assert_true((uint64_t)status_of(fixture).st_blocks * 512 < MIB);
    assert_int_equal(status_of(fixture).st_size, 1);
}

FILE_TEST(a_file_is_written_over)
{
    struct fixture *fixture = *state;
    const struct okv_file_ops *ops = fixture->ops;
    struct okv_files *files = &fixture->directory.files;
    char bytes[] = "abcdef", seen[8];
    struct iovec vector = {bytes, 6};
    struct okv_file *file;
    size_t got;

    assert_int_equal(ops->write(fixture->file, &vector, 1, 0, NULL), 0);
    assert_int_equal(ops->reopen(files, "none", &file, NULL), OKV_ENOTFOUND);
    assert_int_equal(ops->reopen(files, "file", &file, NULL), 0);
    vector = (struct iovec){"XY", 2};
    assert_int_equal(ops->write(file, &vector, 1, 1, NULL), 0);
    ops->close(file);
    assert_int_equal(ops->trim(files, "file", 5, NULL), 0);
    assert_int_equal(ops->open(files, "file", &file, NULL), 0);
    assert_int_equal(ops->read(file, seen, sizeof seen, 0, &got, NULL), 0);
    assert_int_equal(got, 5);
    assert_memory_equal(seen, "aXYde", 5);
    ops->close(file);
}

FILE_TEST(a_file_system_that_reserves_nothing_will_do)
{
    struct fixture *fixture = *state;

    reserve_error = EOPNOTSUPP;
    assert_int_equal(fixture->ops->reserve(fixture->file, 0, MIB, NULL), 0);
    reserve_error = ENOSPC;
    assert_int_equal(fixture->ops->reserve(fixture->file, 0, MIB, NULL), OKV_EDISKFULL);
}

/* What was written to it goes with the process. */
FILE_TEST(a_removed_file_is_not_durable)
{
    struct fixture *fixture = *state;

    assert_int_equal(fixture->ops->sync(fixture->file, NULL), 0);
    assert_int_equal(fixture->ops->remove(&fixture->directory.files, "file", NULL), 0);
    assert_int_equal(fixture->ops->sync(fixture->file, NULL), OKV_ENOTFOUND);
}

static void make_fifo(const struct fixture *fixture, const char *name, char path[80])
{
    snprintf(path, 80, "%s/%s", fixture->path, name);
    assert_int_equal(mkfifo(path, 0600), 0);
}

/* To open a FIFO may wait for its other end, for ever. */
FILE_TEST(only_regular_files_are_opened)
{
    struct fixture *fixture = *state;
    const struct okv_file_ops *ops = fixture->ops;
    struct okv_files *files = &fixture->directory.files;
    static const char why_not[] = "it is not a regular file";
    struct okv_file *file;
    struct okv_diag why;
    char path[80];

    make_fifo(fixture, "fifo", path);
    assert_int_equal(ops->open(files, "fifo", &file, &why), OKV_EIO);
    assert_string_equal(why.text, why_not);
    assert_int_equal(ops->reopen(files, "fifo", &file, &why), OKV_EIO);
    assert_string_equal(why.text, why_not);
    assert_int_equal(ops->trim(files, "fifo", 0, &why), OKV_EIO);
    assert_string_equal(why.text, why_not);
    assert_int_equal(okv_source_open(path, &why), OKV_EIO);
    assert_string_equal(why.text, why_not);
    assert_int_equal(okv_source_open(fixture->path, &why), OKV_EIO);
    assert_string_equal(why.text, why_not);
}

FILE_TEST(the_lock_is_a_regular_file)
{
    struct fixture *fixture = *state;
    struct okv_directory other;
    struct okv_diag why;
    char path[80];

    assert_int_equal(fixture->ops->remove(&fixture->directory.files, "lock", NULL), 0);
    make_fifo(fixture, "lock", path);
    assert_int_equal(okv_directory_open(&other, fixture->path, &why), OKV_EIO);
    assert_string_equal(why.text, "it is not a regular file");
    assert_int_equal(okv_directory_open_shared(&other, fixture->path, &why), OKV_EIO);
}
