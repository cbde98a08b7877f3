#include "server/resp/run/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
#include "shared/base/clock.h"

/* Characters of a number that Redis takes as a float. */
#define FLOAT_MAX_TEXT 256

void okv_resp_lower(const char *text, char *out, size_t size)
{
    size_t i = 0;

    for (; text[i] && i + 1 < size; i++)
        out[i] = (char)tolower((unsigned char)text[i]);
    out[i] = '\0';
}

bool okv_resp_is(const struct okv_resp_arg *arg, const char *word)
{
    return strlen(word) == arg->length &&
           strncasecmp((const char *)arg->text, word, arg->length) == 0;
}

bool okv_resp_integer_parse(const uint8_t *text, size_t length, int64_t *number)
{
    bool is_negative = length > 0 && text[0] == '-';
    const uint8_t *digits = text + is_negative;
    size_t count = length - is_negative;
    uint64_t sum = 0;

    if (count == 0 || count > 19 || (digits[0] == '0' && length > 1))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return false;
        sum = sum * 10 + (unsigned)(digits[i] - '0'); /* 19 digits fit */
    }
    if (sum > (uint64_t)INT64_MAX + is_negative)
        return false;
    *number = is_negative ? (int64_t)(0 - sum) : (int64_t)sum;
    return true;
}

bool okv_resp_integer_of(const struct okv_resp_arg *arg, int64_t *number)
{
    return okv_resp_integer_parse(arg->text, arg->length, number);
}

bool okv_resp_float_of(const uint8_t *text, size_t length, long double *number)
{
    char copy[FLOAT_MAX_TEXT];
    char *end;

    if (length == 0 || length >= sizeof copy || isspace(text[0]) || memchr(text, '\0', length))
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    errno = 0;
    *number = strtold(copy, &end);
    return *end == '\0' && !isnan(*number) && !(errno == ERANGE && fabsl(*number) > 1);
}

bool okv_resp_need_integer(struct okv_resp_call *call, uint32_t index, int64_t *number)
{
    if (okv_resp_integer_of(&call->args[index], number))
        return true;
    okv_resp_error(&call->reply, "ERR value is not an integer or out of range");
    return false;
}

int okv_resp_syntax_error(struct okv_resp_call *call)
{
    okv_resp_error(&call->reply, "ERR syntax error");
    return 0;
}

/* ---- times ---- */

static bool refuse_time(struct okv_resp_call *call)
{
    char name[32];

    okv_resp_lower(call->command->name, name, sizeof name);
    okv_resp_error(&call->reply, "ERR invalid expire time in '%s' command", name);
    return false;
}

bool okv_resp_need_time(struct okv_resp_call *call, uint32_t index, enum okv_resp_unit unit,
                        bool is_moment, bool must_be_positive, int64_t *wall_ms)
{
    int64_t number;

    if (!okv_resp_need_integer(call, index, &number))
        return false;
    if (must_be_positive && number <= 0)
        return refuse_time(call);
    if (unit == OKV_RESP_S && __builtin_mul_overflow(number, 1000, &number))
        return refuse_time(call);
    if (!is_moment && __builtin_add_overflow(number, (int64_t)okv_clock_wall_ms(), &number))
        return refuse_time(call);
    /* What is before 1970 is past, too, and sums stay in range. */
    *wall_ms = number < 0 ? 0 : number > OKV_RESP_EXPIRY_MAX ? OKV_RESP_EXPIRY_MAX : number;
    return true;
}

int okv_resp_read_expiry(struct okv_resp_call *call, uint32_t *index, int64_t *wall_ms)
{
    static const struct {
        const char *name;
        enum okv_resp_unit unit;
        bool is_moment;
    } options[] = {{"EX", OKV_RESP_S, false},
                   {"PX", OKV_RESP_MS, false},
                   {"EXAT", OKV_RESP_S, true},
                   {"PXAT", OKV_RESP_MS, true}};

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (!okv_resp_is(&call->args[*index], options[i].name))
            continue;
        if (++*index == call->count) {
            okv_resp_syntax_error(call);
            return -1;
        }
        return okv_resp_need_time(call, *index, options[i].unit, options[i].is_moment, true,
                                  wall_ms)
                   ? 1
                   : -1;
    }
    return 0;
}

/* ---- patterns ---- */

/* Whether a set, whose '[' is at *at, has the byte. *at is then behind it. */
static bool set_has(const uint8_t *pattern, size_t length, size_t *at, uint8_t byte)
{
    size_t i = *at + 1;
    bool is_inverted = i < length && pattern[i] == '^';
    bool has = false;

    for (i += is_inverted; i < length && pattern[i] != ']'; i++) {
        if (pattern[i] == '\\' && i + 1 < length) {
            has = has || pattern[++i] == byte;
        } else if (i + 2 < length && pattern[i + 1] == '-') {
            uint8_t a = pattern[i], b = pattern[i + 2];
            has = has || (a <= b ? byte >= a && byte <= b : byte >= b && byte <= a);
            i += 2;
        } else {
            has = has || pattern[i] == byte;
        }
    }
    *at = i < length ? i + 1 : length;
    return has != is_inverted;
}

/* Whether what is at *at, which is no '*', matches the byte. *at is then behind it. */
static bool one_matches(const uint8_t *pattern, size_t length, size_t *at, uint8_t byte)
{
    switch (pattern[*at]) {
    case '?':
        ++*at;
        return true;
    case '[':
        return set_has(pattern, length, at, byte);
    case '\\':
        *at += *at + 1 < length;
        break;
    }
    return pattern[(*at)++] == byte;
}

/* Only the last '*' is ever tried again, so the time is that of both lengths multiplied, however
 * many there are. */
bool okv_resp_matches(const uint8_t *pattern, size_t pattern_length, const uint8_t *text,
                      size_t length)
{
    size_t at = 0, star = SIZE_MAX, from = 0, i = 0;

    while (i < length) {
        size_t next = at;
        if (at < pattern_length && pattern[at] == '*') {
            star = ++at;
            from = i;
        } else if (at < pattern_length && one_matches(pattern, pattern_length, &next, text[i])) {
            at = next;
            i++;
        } else if (star != SIZE_MAX) {
            at = star;
            i = ++from;
        } else {
            return false;
        }
    }
    while (at < pattern_length && pattern[at] == '*')
        at++;
    return at == pattern_length;
}
