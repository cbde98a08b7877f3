#include "client/cli/tsv.h"

#include <inttypes.h>
#include <okv.h>
#include <string.h>

/* As many fit an int64_t, whatever they are. */
#define TIME_DIGITS_MAX 18

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* of UTF-8 */

/* Of lower or upper case; or -1. */
static int hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit = (char)(digit | 0x20);
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* "xHH": the byte, or -1. */
static int unescape_hex(const char *text, size_t length)
{
    int high = length > 2 ? hex_digit(text[1]) : -1;
    int low = length > 2 ? hex_digit(text[2]) : -1;

    return high < 0 || low < 0 ? -1 : high << 4 | low;
}

/* The byte that the text after a backslash stands for, or -1; *used: how much of it does. */
static int unescape(const char *text, size_t length, size_t *used)
{
    *used = length > 0 && text[0] == 'x' ? 3 : 1;
    switch (length > 0 ? text[0] : '\0') {
    case 'x':
        return unescape_hex(text, length);
    case 't':
        return '\t';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case '\\':
        return '\\';
    default:
        return -1;
    }
}

bool tsv_decode(char *field, size_t *length)
{
    char *from = memchr(field, '\\', *length);
    if (!from)
        return true;

    char *to = from;
    const char *end = field + *length;
    while (from < end) {
        if (*from != '\\') {
            *to++ = *from++;
            continue;
        }
        size_t used;
        int byte = unescape(from + 1, (size_t)(end - from - 1), &used);
        if (byte < 0)
            return false;
        *to++ = (char)byte;
        from += 1 + used;
    }
    *length = (size_t)(to - field);
    return true;
}

size_t tsv_mark_length(const char *text, size_t length)
{
    const size_t mark = sizeof BYTE_ORDER_MARK - 1;

    return length >= mark && memcmp(text, BYTE_ORDER_MARK, mark) == 0 ? mark : 0;
}

/* The time of `length` digits, or 0. */
static int64_t parse_time(const char *digits, size_t length)
{
    int64_t time = 0;

    if (length > TIME_DIGITS_MAX)
        return 0;
    for (size_t i = 0; i < length; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return 0;
        time = 10 * time + (digits[i] - '0');
    }
    return time;
}

const char *tsv_parse(char *line, size_t length, struct tsv_item *item)
{
    if (length > 0 && line[length - 1] == '\n')
        length--;
    if (length > 0 && line[length - 1] == '\r')
        length--;

    char *tab = memchr(line, '\t', length);
    if (!tab)
        return "no tab between key and value: write KEY, a tab, VALUE";
    char *value = tab + 1;
    size_t key_length = (size_t)(tab - line);
    size_t value_length = length - key_length - 1;
    int64_t expires_at_ms = 0;
    const char *second = memchr(value, '\t', value_length);
    if (second) {
        expires_at_ms = parse_time(second + 1, value_length - (size_t)(second - value) - 1);
        value_length = (size_t)(second - value);
        if (expires_at_ms == 0)
            return "no time behind the second tab: write when the item expires in ms since 1970, "
                   "or a tab that is data as \\t";
    }
    if (!tsv_decode(line, &key_length) || !tsv_decode(value, &value_length))
        return "an unknown escape: write a backslash that is data as \\\\";
    if (key_length < 1 || key_length > OKV_KEY_MAX_BYTES)
        return "the key is not 1 to 1024 bytes long";

    *item = (struct tsv_item){.key = line,
                              .key_length = key_length,
                              .value = value,
                              .value_length = value_length,
                              .expires_at_ms = expires_at_ms};
    return NULL;
}

static const char *escape(char byte)
{
    switch (byte) {
    case '\t':
        return "\\t";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    default:
        return "\\\\";
    }
}

static bool is_special(char byte)
{
    return byte == '\t' || byte == '\n' || byte == '\r' || byte == '\\';
}

void tsv_write_field(FILE *out, const char *field, size_t length)
{
    size_t start = 0;
    for (size_t i = 0; i < length; i++) {
        if (!is_special(field[i]))
            continue;
        fwrite(field + start, 1, i - start, out);
        fputs(escape(field[i]), out);
        start = i + 1;
    }
    fwrite(field + start, 1, length - start, out);
}

void tsv_write_key(FILE *out, const char *key, size_t length)
{
    size_t escaped = tsv_mark_length(key, length) ? 1 : 0;

    if (escaped)
        fputs("\\xef", out);
    tsv_write_field(out, key + escaped, length - escaped);
}

int tsv_write(FILE *out, const struct tsv_item *item)
{
    tsv_write_key(out, item->key, item->key_length);
    putc('\t', out);
    tsv_write_field(out, item->value, item->value_length);
    if (item->expires_at_ms)
        fprintf(out, "\t%" PRId64, item->expires_at_ms);
    putc('\n', out);
    return ferror(out) ? -1 : 0;
}
