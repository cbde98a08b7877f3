#include "shared/base/printable.h"

#include <string.h>
#include <unistd.h>

/* Bytes of the character that begins here; more than `left`: its rest may follow; 0: none does. */
static size_t character_length(const unsigned char *at, size_t left)
{
    unsigned char lead = at[0], low = 0x80, high = 0xbf;
    size_t length = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;

    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4)
        return 0;
    /* Of two ways to write a character only the shorter one is valid; surrogates are none. */
    if (lead == 0xe0)
        low = 0xa0;
    else if (lead == 0xed)
        high = 0x9f;
    else if (lead == 0xf0)
        low = 0x90;
    else if (lead == 0xf4)
        high = 0x8f;
    for (size_t i = 1; i < length && i < left; i++) {
        if (at[i] < low || at[i] > high)
            return 0;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

static bool is_control(const unsigned char *at, size_t length)
{
    if (length == 1)
        return at[0] < 0x20 || at[0] == 0x7f;
    return length == 2 && at[0] == 0xc2 && at[1] < 0xa0;
}

/* Whether it changes the direction in which text is shown: U+061C, U+200E, U+200F, U+202A to U+202E
 * and U+2066 to U+2069. */
static bool is_direction(const unsigned char *at, size_t length)
{
    if (length == 2)
        return at[0] == 0xd8 && at[1] == 0x9c;
    if (length != 3 || at[0] != 0xe2)
        return false;
    return (at[1] == 0x80 && (at[2] == 0x8e || at[2] == 0x8f)) ||
           (at[1] == 0x80 && at[2] >= 0xaa && at[2] <= 0xae) ||
           (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9);
}

static char *escape(const unsigned char *at, size_t length, char *to)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < length; i++) {
        *to++ = '\\';
        *to++ = 'x';
        *to++ = digits[at[i] >> 4];
        *to++ = digits[at[i] & 15];
    }
    return to;
}

size_t okv_printable_copy(const void *bytes, size_t length, bool keeps_lines, char *out)
{
    const unsigned char *at = bytes, *end = at + length;
    char *to = out;

    while (at < end) {
        size_t left = (size_t)(end - at), taken = character_length(at, left);
        bool is_character = taken > 0 && taken <= left;
        bool stays = keeps_lines && (*at == '\n' || *at == '\t');
        if (!is_character)
            taken = 1;
        if (!stays && (!is_character || is_control(at, taken) || is_direction(at, taken)))
            to = escape(at, taken, to);
        else
            to = mempcpy(to, at, taken);
        at += taken;
    }
    return (size_t)(to - out);
}

/* ---- a stream ---- */

#define PIECE 1024
#define REST_MAX (sizeof((struct okv_printable *)0)->rest)

/* Bytes at the end that may begin a character. */
static size_t open_length(const unsigned char *bytes, size_t length)
{
    for (size_t back = 1; back <= REST_MAX && back <= length; back++)
        if (character_length(bytes + length - back, back) > back)
            return back;
    return 0;
}

/* An interrupted write is not repeated: ^C ends the command. */
static bool write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);
        if (n < 0)
            return false;
        bytes += n;
        length -= (size_t)n;
    }
    return true;
}

/* At most PIECE bytes. */
static bool write_piece(struct okv_printable *stream, const char *bytes, size_t length)
{
    unsigned char piece[REST_MAX + PIECE];
    char shown[OKV_PRINTABLE_MAX * sizeof piece];

    memcpy(piece, stream->rest, stream->rest_length);
    memcpy(piece + stream->rest_length, bytes, length);
    length += stream->rest_length;
    stream->rest_length = open_length(piece, length);
    length -= stream->rest_length;
    memcpy(stream->rest, piece + length, stream->rest_length);
    return write_all(stream->fd, shown, okv_printable_copy(piece, length, true, shown));
}

static ssize_t stream_write(void *cookie, const char *bytes, size_t length)
{
    size_t done = 0;

    while (done < length) {
        size_t piece = length - done < PIECE ? length - done : PIECE;
        if (!write_piece(cookie, bytes + done, piece))
            break;
        done += piece;
    }
    return (ssize_t)done;
}

bool okv_printable_stream(struct okv_printable *state, FILE **stream)
{
    const cookie_io_functions_t functions = {.write = stream_write};
    int fd = fileno(*stream);

    if (fd < 0 || !isatty(fd))
        return true;
    FILE *file = fopencookie(state, "w", functions);
    if (!file)
        return false;
    *state = (struct okv_printable){.fd = fd};
    setvbuf(file, NULL, fd == STDERR_FILENO ? _IONBF : _IOLBF, BUFSIZ);
    *stream = file;
    return true;
}

void okv_printable_clear_line(void)
{
    static const char clear[] = "\r\033[K";

    write_all(STDERR_FILENO, clear, sizeof clear - 1);
}
