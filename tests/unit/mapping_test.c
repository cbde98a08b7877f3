/* Mappings of a file that others have mapped: where they begin, and that they are of the file. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/mapping.h"

#define PAGE 4096u

static int file_of(size_t length)
{
    int fd = memfd_create("okv-test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)length), 0);
    return fd;
}

/* Two of a length that is no multiple, so that the second would lie anywhere behind the first. */
TEST(long_mappings_begin_at_a_huge_page)
{
    size_t length = 3 * OKV_HUGE_PAGE + PAGE;
    int fd = file_of(length);
    uint8_t *maps[2];

    for (int i = 0; i < 2; i++) {
        maps[i] = okv_map_shared(fd, length, PROT_READ | PROT_WRITE);
        assert_ptr_not_equal(maps[i], MAP_FAILED);
        assert_int_equal((uintptr_t)maps[i] % OKV_HUGE_PAGE, 0);
    }
    assert_ptr_not_equal(maps[0], maps[1]);
    maps[0][length - 1] = 7;
    assert_int_equal(maps[1][length - 1], 7);
    for (int i = 0; i < 2; i++)
        assert_int_equal(munmap(maps[i], length), 0);
    close(fd);
}

TEST(short_mappings_show_the_file)
{
    int fd = file_of(PAGE);

    assert_int_equal(pwrite(fd, "text", 4, 0), 4);
    uint8_t *map = okv_map_shared(fd, PAGE, PROT_READ);
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_memory_equal(map, "text", 4);
    assert_int_equal(munmap(map, PAGE), 0);
    close(fd);
}

TEST(what_cannot_be_mapped_says_why)
{
    errno = 0;
    assert_ptr_equal(okv_map_shared(-1, OKV_HUGE_PAGE, PROT_READ), MAP_FAILED);
    assert_int_equal(errno, EBADF);
    int fd = file_of(PAGE);
    errno = 0;
    assert_ptr_equal(okv_map_shared(fd, SIZE_MAX - PAGE, PROT_READ), MAP_FAILED);
    assert_int_equal(errno, ENOMEM);
    close(fd);
}
