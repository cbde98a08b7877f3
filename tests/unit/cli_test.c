/* What the programs read and write as text: sizes, times, items as lines, bytes of a peer. */
#include <pty.h>
#include <termios.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "client/cli/tsv.h"
#include "shared/base/duration.h"
#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/base/size.h"

/* ---- sizes -------------------------------------------------------------- */

TEST(sizes_have_binary_units)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } cases[] = {
        {"0", 0},
        {"1", 1},
        {"4096", 4096},
        {"512B", 512},
        {"512 B", 512},
        {"64K", 65536},
        {"64k", 65536},
        {"64KiB", 65536},
        {"64 KiB", 65536},
        {"64kib", 65536},
        {"1M", 1048576},
        {"1MiB", 1048576},
        {"2G", UINT64_C(2) << 30},
        {"2GiB", UINT64_C(2) << 30},
        {"1T", UINT64_C(1) << 40},
        {"15E", UINT64_C(15) << 60},
        {"18446744073709551615", UINT64_MAX},
        {"000000000000000000000000000007", 7},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 12345;
        if (okv_size_parse(cases[i].text, &bytes) != 0 || bytes != cases[i].bytes)
            fail_msg("'%s' became %llu", cases[i].text, (unsigned long long)bytes);
    }
}

TEST(wrong_sizes_are_refused)
{
    static const char *const cases[] = {
        "",
        " ",
        "K",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1  K",
        "1.5G",
        "0x1",
        "1KB",
        "1Ki",
        "1KiBs",
        "1X",
        "1 K ",
        "16E",
        "1,0",
        "1e3",
        "1BiB",
        "64KK",
        "99999999999999999999",
        "18446744073709551616",
        "18014398509481984K",
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint64_t bytes = 12345;
        if (okv_size_parse(cases[i], &bytes) != OKV_EINVAL || bytes != 12345)
            fail_msg("'%s' became %llu", cases[i], (unsigned long long)bytes);
    }
}

TEST(sizes_are_written_in_their_largest_unit)
{
    static const struct {
        uint64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1 KiB"},
        {1025, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {UINT64_C(256) << 20, "256 MiB"},
        {(UINT64_C(1) << 30) - 1, "1023.9 MiB"},
        {UINT64_C(3) << 29, "1.5 GiB"},
        {UINT64_C(1) << 60, "1 EiB"},
        {UINT64_MAX, "15.9 EiB"},
    };
    char text[OKV_SIZE_TEXT];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        okv_size_format(cases[i].bytes, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
    okv_size_format(UINT64_C(256) << 20, text, 4);
    assert_string_equal(text, "256");
}

TEST(whole_sizes_are_read_as_written)
{
    for (unsigned shift = 0; shift < 64; shift++) {
        char text[OKV_SIZE_TEXT];
        uint64_t bytes = 0;
        okv_size_format(UINT64_C(1) << shift, text, sizeof text);
        assert_int_equal(okv_size_parse(text, &bytes), 0);
        assert_true(bytes == UINT64_C(1) << shift);
    }
}

/* Whether the reason that okv_size_read() gives for `text` has `expected`. */
static void expect_reason(const char *text, uint64_t low, uint64_t high, const char *expected)
{
    uint64_t bytes = 12345;
    char why[OKV_SIZE_WHY_TEXT] = "";

    assert_int_equal(okv_size_read(text, low, high, &bytes, why), OKV_EINVAL);
    assert_int_equal(bytes, 12345);
    assert_true(strlen(why) < sizeof why - 1);
    if (!strstr(why, expected) || !strstr(why, "not 512MB or 0.5G"))
        fail_msg("'%s': %s", text, why);
}

TEST(a_size_that_is_refused_has_a_reason)
{
    char why[OKV_SIZE_WHY_TEXT] = "";
    uint64_t bytes = 0;

    expect_reason("512MB", 1, 4096, "from 1 B to 4 KiB: a whole number");
    expect_reason("1.5G", 0, UINT64_MAX, "from 0 B on: a whole number");
    expect_reason("0", 1, UINT64_MAX, "from 1 B on:");
    expect_reason("4097", 16, 4096, "from 16 B to 4 KiB:");
    expect_reason("15", 16, UINT64_MAX - 1, "from 16 B to 15.9 EiB:");
    assert_int_equal(okv_size_read("4K", 4096, 4096, &bytes, why), OKV_OK);
    assert_int_equal(bytes, 4096);
    assert_int_equal(okv_size_read("18446744073709551615", 0, UINT64_MAX, &bytes, why), OKV_OK);
    assert_true(bytes == UINT64_MAX);
    assert_string_equal(why, "");
}

/* ---- items as lines ----------------------------------------------------- */

/* A copy on the heap of exactly its size, so that a sanitizer sees what goes
 * beyond; cmocka's own allocator would hide that behind its guards. */
static char *copy(const char *line, size_t length)
{
    char *bytes = malloc(length);
    assert_non_null(bytes);
    memcpy(bytes, line, length);
    return bytes;
}

TEST(lines_are_taken_apart)
{
    static const struct {
        const char *line, *key, *value;
    } cases[] = {
        {"k\tv\n", "k", "v"},
        {"k\tv", "k", "v"},
        {"k\tv\r\n", "k", "v"},
        {"k\t\n", "k", ""},
        {"k\t", "k", ""},
        {"two words\t and more \n", "two words", " and more "},
        {"a\\tb\\nc\\rd\\\\e\tx\\ty\n", "a\tb\nc\rd\\e", "x\ty"},
        {"k\t\\\\n\n", "k", "\\n"},
        {"k\tv\\r\n", "k", "v\r"},
        {"k\ta\rb\n", "k", "a\rb"},
        {"\\t\t\\t\n", "\t", "\t"},
        {"\\x41b\tc\\xfF\\\\x41\n", "Ab", "c\xff\\x41"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tsv_item item;
        size_t length = strlen(cases[i].line);
        char *line = copy(cases[i].line, length);
        const char *wrong = tsv_parse(line, length, &item);
        if (wrong)
            fail_msg("case %zu: %s", i, wrong);
        assert_int_equal(item.key_length, strlen(cases[i].key));
        assert_memory_equal(item.key, cases[i].key, item.key_length);
        assert_int_equal(item.value_length, strlen(cases[i].value));
        assert_memory_equal(item.value, cases[i].value, item.value_length);
        free(line);
    }
}

TEST(bad_lines_are_explained)
{
    static const struct {
        const char *line, *part;
    } cases[] = {
        {"", "no tab"},
        {"\n", "no tab"},
        {"\r\n", "no tab"},
        {"key value\n", "no tab"},
        {"key\\tvalue\n", "no tab"},
        {"\tvalue\n", "1 to 1024"},
        {"k\tv\tw\n", "second tab"},
        {"k\tv\t", "second tab"},
        {"k\tv\t\n", "second tab"},
        {"k\tv\t0\n", "second tab"},
        {"k\tv\t-1\n", "second tab"},
        {"k\tv\t 1\n", "second tab"},
        {"k\tv\t1 \n", "second tab"},
        {"k\tv\t1\t\n", "second tab"},
        {"k\tv\t1\t2\n", "second tab"},
        {"k\tv\t1000000000000000000\n", "second tab"},
        {"k\tv\\\t1\n", "escape"},
        {"k\tv\\\n", "escape"},
        {"k\tv\\", "escape"},
        {"k\\\tv\n", "escape"},
        {"k\t\\q\n", "escape"},
        {"k\t\\x\n", "escape"},
        {"k\t\\x4\n", "escape"},
        {"k\t\\x4g\n", "escape"},
        {"k\t\\X41\n", "escape"},
        {"k\\x4\tv\n", "escape"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tsv_item item;
        size_t length = strlen(cases[i].line);
        char *line = copy(cases[i].line, length);
        const char *wrong = tsv_parse(line, length, &item);
        if (!wrong || !strstr(wrong, cases[i].part))
            fail_msg("case %zu: %s", i, wrong ? wrong : "accepted");
        free(line);
    }
}

TEST(a_third_field_is_a_time)
{
    static const struct {
        const char *line;
        size_t value_length;
        int64_t expires_at_ms;
    } cases[] = {
        {"k\tv\n", 1, 0},
        {"k\tv\t1\n", 1, 1},
        {"k\tv\t0017\r\n", 1, 17},
        {"k\t\t1700000000123", 0, 1700000000123},
        {"k\tv\\t\t999999999999999999\n", 2, 999999999999999999},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tsv_item item;
        size_t length = strlen(cases[i].line);
        char *line = copy(cases[i].line, length);
        const char *wrong = tsv_parse(line, length, &item);
        if (wrong)
            fail_msg("case %zu: %s", i, wrong);
        assert_int_equal(item.value_length, cases[i].value_length);
        assert_true(item.expires_at_ms == cases[i].expires_at_ms);
        free(line);
    }
}

TEST(keys_have_their_greatest_length)
{
    char line[1100];
    struct tsv_item item;

    for (size_t length = 1023; length <= 1025; length++) {
        memset(line, 'k', length);
        line[length] = '\t';
        assert_int_equal(tsv_parse(line, length + 1, &item) == NULL, length <= 1024);
    }
    /* What counts is what the escapes stand for. */
    for (size_t i = 0; i < 8; i++)
        memcpy(line + 2 * i, "\\\\", 2);
    memset(line + 16, 'k', 1016);
    line[16 + 1016] = '\t';
    assert_null(tsv_parse(line, 16 + 1016 + 1, &item));
    assert_int_equal(item.key_length, 1024);
}

/* Writes the item, reads the line back and compares. */
static void round_trip(const struct tsv_item *item)
{
    char *line = NULL;
    size_t length = 0;
    struct tsv_item back;
    FILE *out = open_memstream(&line, &length);

    assert_non_null(out);
    assert_int_equal(tsv_write(out, item), 0);
    assert_int_equal(fclose(out), 0);
    assert_ptr_equal(memchr(line, '\n', length), line + length - 1);
    assert_null(tsv_parse(line, length, &back));
    assert_int_equal(back.key_length, item->key_length);
    assert_memory_equal(back.key, item->key, item->key_length);
    assert_int_equal(back.value_length, item->value_length);
    assert_memory_equal(back.value, item->value, item->value_length);
    assert_true(back.expires_at_ms == item->expires_at_ms);
    free(line);
}

TEST(every_byte_survives)
{
    char bytes[256];

    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    round_trip(&(struct tsv_item){bytes, bytes, sizeof bytes, sizeof bytes, 0});
    for (int i = 0; i < 256; i++) {
        round_trip(&(struct tsv_item){&bytes[i], &bytes[i], 1, 1, 0});
        round_trip(&(struct tsv_item){&bytes[i], "", 1, 0, 1 + i});
    }
}

TEST(random_items_survive)
{
    /* Mostly what needs escapes. */
    static const char alphabet[] = "\t\n\r\\tnra\0";
    uint64_t random = 88172645463325252u;
    char key[20];
    char value[40];

    for (int round = 0; round < 20000; round++) {
        char *all[] = {key, value};
        size_t sizes[] = {sizeof key, sizeof value};
        size_t lengths[2];
        for (int f = 0; f < 2; f++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            lengths[f] = random % sizes[f] + (f == 0 && random % sizes[f] == 0);
            for (size_t i = 0; i < lengths[f]; i++)
                all[f][i] = alphabet[(random >> (i % 50)) % (sizeof alphabet - 1)];
        }
        round_trip(&(struct tsv_item){key, value, lengths[0], lengths[1], (int64_t)(random % 3)});
    }
}

/* Keys alone, as `okv scan` writes them and `okv mget -` reads them. */
TEST(single_fields_survive)
{
    char bytes[256];

    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    for (size_t length = 1; length <= sizeof bytes; length++) {
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        tsv_write_field(out, bytes, length);
        assert_int_equal(fclose(out), 0);
        assert_null(memchr(text, '\n', size));
        assert_null(memchr(text, '\t', size));
        char *field = copy(text, size);
        assert_true(tsv_decode(field, &size));
        assert_int_equal(size, length);
        assert_memory_equal(field, bytes, length);
        free(field);
        free(text);
    }
}

#define MARK "\xef\xbb\xbf"

TEST(byte_order_marks_are_found)
{
    assert_int_equal(tsv_mark_length(MARK, 3), 3);
    assert_int_equal(tsv_mark_length(MARK MARK "k", 7), 3);
    assert_int_equal(tsv_mark_length(MARK, 2), 0);
    assert_int_equal(tsv_mark_length("k" MARK, 4), 0);
    assert_int_equal(tsv_mark_length("\xef\xbb\xbe", 3), 0);
    assert_int_equal(tsv_mark_length("", 0), 0);
}

/* As the first of a text they would lose it. */
TEST(keys_that_begin_with_a_mark_do_not_look_so)
{
    static const char *const keys[] = {MARK, MARK "key", MARK MARK, MARK "\t"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const struct tsv_item item = {keys[i], MARK, strlen(keys[i]), 3, 0};
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        assert_int_equal(tsv_write(out, &item), 0);
        assert_int_equal(fclose(out), 0);
        assert_int_equal(tsv_mark_length(text, size), 0);
        assert_non_null(strstr(text, "\t" MARK "\n")); /* a value stays as it is */
        free(text);
        round_trip(&item);
    }
}

TEST(unknown_escapes_in_a_field_are_refused)
{
    static const char *const cases[] = {"\\",    "a\\",   "\\q",   "\\\\\\", "\\x",
                                        "a\\x4", "\\x:1", "\\x1g", "\\xx1"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length = strlen(cases[i]);
        char *field = copy(cases[i], length);
        if (tsv_decode(field, &length))
            fail_msg("'%s' was accepted", cases[i]);
        free(field);
    }
}

TEST(a_full_disk_is_noticed)
{
    FILE *full = fopen("/dev/full", "w");

    if (!full)
        skip();
    setvbuf(full, NULL, _IONBF, 0);
    assert_int_equal(tsv_write(full, &(struct tsv_item){"k", "v", 1, 1, 0}), -1);
    fclose(full);
}

TEST(times_have_units)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } cases[] = {
        {"1ms", 1},      {"500ms", 500},    {"60s", 60000}, {"5m", 300000},
        {"2h", 7200000}, {"7d", 604800000}, {"0s", 0},      {"18446744073709551615ms", UINT64_MAX},
        {"60", 60000},   {"0", 0}};
    static const char *const wrong[] = {"",
                                        "s",
                                        "1.5s",
                                        "-1s",
                                        " 1s",
                                        "1 s",
                                        "1sec",
                                        "1S",
                                        "1y",
                                        "18446744073709551616ms",
                                        "18446744073709552s",
                                        "18446744073709552"};
    uint64_t ms;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(okv_duration_parse(cases[i].text, &ms), 0);
        assert_int_equal(ms, cases[i].ms);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ms = 12345;
        if (okv_duration_parse(wrong[i], &ms) != OKV_EINVAL || ms != 12345)
            fail_msg("'%s' was taken", wrong[i]);
    }
}

/* ---- bytes of a peer ---------------------------------------------------- */

static const struct {
    const char *bytes, *shown;
} shown_cases[] = {
    {"plain ~ text", "plain ~ text"},
    {"\x1b[31mred\a\b\r\x7f", "\\x1b[31mred\\x07\\x08\\x0d\\x7f"},
    {"\x01\x1f", "\\x01\\x1f"},
    {"\x80\x9b\x9f", "\\x80\\x9b\\x9f"},                            /* C1 as single bytes */
    {"\xc2\x80\xc2\x9b\xc2\x9f", "\\xc2\\x80\\xc2\\x9b\\xc2\\x9f"}, /* and in UTF-8 */
    {"\xc2\xa0\xc4\x9b\xe2\x82\xac\xf0\x9f\x98\x80",
     "\xc2\xa0\xc4\x9b\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"\xc0\x9b \xe0\x80\x9b \xf0\x80\x80\x9b", "\\xc0\\x9b \\xe0\\x80\\x9b \\xf0\\x80\\x80\\x9b"},
    {"\xed\xa0\x80 \xf4\x90\x80\x80 \xff", "\\xed\\xa0\\x80 \\xf4\\x90\\x80\\x80 \\xff"},
    {"\xc4 \xe2\x82 \xf0\x9f\x98", "\\xc4 \\xe2\\x82 \\xf0\\x9f\\x98"},
    {"\xe2\x9b[\xc2\x1b", "\\xe2\\x9b[\\xc2\\x1b"},
    /* Marks of the direction of text, and their neighbours. */
    {"\xd8\x9b\xd8\x9c\xd8\x9d", "\xd8\x9b\\xd8\\x9c\xd8\x9d"},
    {"\xe2\x80\x8d\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\x90",
     "\xe2\x80\x8d\\xe2\\x80\\x8e\\xe2\\x80\\x8f\xe2\x80\x90"},
    {"\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf",
     "\xe2\x80\xa9\\xe2\\x80\\xaa\\xe2\\x80\\xae\xe2\x80\xaf"},
    {"\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9\xe2\x81\xaa",
     "\xe2\x81\xa5\\xe2\\x81\\xa6\\xe2\\x81\\xa9\xe2\x81\xaa"},
};

TEST(control_characters_are_shown)
{
    char shown[256];

    for (size_t i = 0; i < sizeof shown_cases / sizeof *shown_cases; i++) {
        const char *bytes = shown_cases[i].bytes;
        for (int keeps = 0; keeps < 2; keeps++) {
            shown[okv_printable_copy(bytes, strlen(bytes), keeps, shown)] = '\0';
            assert_string_equal(shown, shown_cases[i].shown);
        }
    }
    assert_int_equal(okv_printable_copy("a\0b\n\t", 5, false, shown), 14);
    assert_memory_equal(shown, "a\\x00b\\x0a\\x09", 14);
    assert_int_equal(okv_printable_copy("a\0b\n\t", 5, true, shown), 8);
    assert_memory_equal(shown, "a\\x00b\n\t", 8);
}

/* Waits for the whole line, and cuts its newline off. */
static void read_line(int fd, char *line, size_t size)
{
    size_t length = 0;

    do {
        assert_in_range(length, 0, size - 1);
        assert_int_equal(read(fd, line + length, 1), 1);
    } while (line[length++] != '\n');
    line[length - 1] = '\0';
}

/* Each case as it is, and in pieces of any length. */
TEST(a_stream_on_a_terminal_shows_them)
{
    struct okv_printable printable;
    struct termios raw;
    int ends[2];
    char shown[256];

    cfmakeraw(&raw);
    assert_int_equal(openpty(&ends[0], &ends[1], NULL, &raw, NULL), 0);
    FILE *terminal = fdopen(ends[1], "w"), *stream = terminal;
    assert_true(okv_printable_stream(&printable, &stream));
    assert_ptr_not_equal(stream, terminal);
    for (size_t i = 0; i < sizeof shown_cases / sizeof *shown_cases; i++) {
        const char *bytes = shown_cases[i].bytes;
        for (size_t piece = 1; piece <= strlen(bytes); piece++) {
            for (size_t at = 0; at < strlen(bytes); at += piece) {
                fprintf(stream, "%.*s", (int)piece, bytes + at);
                fflush(stream);
            }
            fputs("\n", stream);
            read_line(ends[0], shown, sizeof shown);
            assert_string_equal(shown, shown_cases[i].shown);
        }
    }
    fclose(stream);
    fclose(terminal);
    close(ends[0]);
}

TEST(a_stream_into_a_file_is_left_alone)
{
    FILE *file = tmpfile(), *stream = file;
    struct okv_printable printable;

    assert_non_null(file);
    assert_true(okv_printable_stream(&printable, &stream));
    assert_ptr_equal(stream, file);
    fclose(file);
}
