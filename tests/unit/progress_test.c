/* The line that says how far a start has come, into a pipe and on a clock of the test. */
#include <unistd.h>

#include "tests/support/test.h"

#include "server/core/progress.h"

#define MS UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)

struct screen {
    int ends[2];
    char text[512];
};

static void open_screen(struct screen *screen)
{
    assert_int_equal(pipe(screen->ends), 0);
}

/* What was written since the last call. */
static const char *read_screen(struct screen *screen)
{
    assert_int_equal(write(screen->ends[1], "\n", 1), 1); /* no read blocks */
    ssize_t got = read(screen->ends[0], screen->text, sizeof screen->text - 1);
    assert_true(got > 0);
    screen->text[got - 1] = '\0';
    return screen->text;
}

static void close_screen(struct screen *screen)
{
    close(screen->ends[0]);
    close(screen->ends[1]);
}

TEST(it_shows_items_share_and_time_left)
{
    struct okv_progress progress;
    struct screen screen;

    open_screen(&screen);
    okv_progress_begin(&progress, screen.ends[1], "database a", 8 * MIB, 5000 * MS);
    okv_progress_show(&progress, 2 * MIB, 70, 7000 * MS);
    assert_string_equal(read_screen(&screen),
                        "\r\033[Kdatabase a: 70 items, 2 of 8 MiB (25 %), 6 s left");
    okv_progress_end(&progress);
    assert_string_equal(read_screen(&screen), "\r\033[K");
    close_screen(&screen);
}

TEST(short_work_shows_nothing)
{
    struct okv_progress progress;
    struct screen screen;

    open_screen(&screen);
    okv_progress_begin(&progress, screen.ends[1], "database a", 8 * MIB, 5000 * MS);
    okv_progress_show(&progress, MIB, 1, 5999 * MS);
    okv_progress_end(&progress);
    assert_string_equal(read_screen(&screen), "");
    close_screen(&screen);
}

TEST(it_is_shown_five_times_a_second)
{
    struct okv_progress progress;
    struct screen screen;
    unsigned lines = 0;

    open_screen(&screen);
    okv_progress_begin(&progress, screen.ends[1], "database a", 8 * MIB, 0);
    for (uint64_t ms = 1000; ms < 2000; ms++) {
        okv_progress_show(&progress, MIB, 1, ms * MS);
        lines += read_screen(&screen)[0] != '\0';
    }
    assert_int_equal(lines, 5);
    close_screen(&screen);
}

/* Files may have become longer, or say nothing. */
TEST(odd_totals_are_no_harm)
{
    struct okv_progress progress;
    struct screen screen;

    open_screen(&screen);
    okv_progress_begin(&progress, screen.ends[1], "database a", 0, 0);
    okv_progress_show(&progress, MIB, 1, 2000 * MS);
    assert_string_equal(read_screen(&screen), "");
    okv_progress_begin(&progress, screen.ends[1], "database a", MIB, 0);
    okv_progress_show(&progress, 2 * MIB, 1, 2000 * MS);
    assert_non_null(strstr(read_screen(&screen), "(100 %), 0 s left"));
    okv_progress_begin(&progress, -1, "database a", MIB, 0);
    okv_progress_show(&progress, MIB, 1, 2000 * MS);
    okv_progress_end(&progress);
    close_screen(&screen);
}
