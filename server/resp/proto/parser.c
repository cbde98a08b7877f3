#include "server/resp/proto/parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/resp/proto/buffer.h"
#include "shared/base/error.h"
#include "shared/base/number.h"

#define ARGS_FIRST 16u
/* More than any number has. */
#define NUMBER_LINE_MAX 32u

void okv_resp_parser_fini(struct okv_resp_parser *parser)
{
    okv_resp_memory_free(parser->args, parser->capacity * sizeof *parser->args);
    *parser = (struct okv_resp_parser){0};
}

void okv_resp_parser_reset(struct okv_resp_parser *parser)
{
    parser->count = parser->set = parser->wanted = parser->skipped = 0;
    parser->has_bulk = parser->is_kept = parser->is_skipping = parser->has_skipped = false;
    parser->position = parser->needed = 0;
}

static int refuse(struct okv_resp_parser *parser, const char *problem)
{
    parser->problem = problem;
    return OKV_EPROTO;
}

static int add_arg(struct okv_resp_parser *parser, size_t offset, uint32_t length)
{
    if (parser->count == parser->capacity) {
        uint32_t capacity = parser->capacity ? 2 * parser->capacity : ARGS_FIRST;
        void *args = okv_resp_memory_grow(parser->args, parser->capacity * sizeof *parser->args,
                                          capacity * sizeof *parser->args);
        if (!args)
            return OKV_ENOMEM;
        parser->args = args;
        parser->capacity = capacity;
    }
    /* An offset until the request is complete: the bytes may move before. */
    parser->args[parser->count++] = (struct okv_resp_arg){(const uint8_t *)offset, length};
    return 0;
}

static int complete(struct okv_resp_parser *parser, const uint8_t *bytes)
{
    uint32_t last = parser->set + OKV_RESP_ARGS_PER_CALL;

    for (; parser->set < parser->count; parser->set++) {
        if (parser->set == last) {
            parser->has_more = true;
            return 0;
        }
        parser->args[parser->set].text = bytes + (uintptr_t)parser->args[parser->set].text;
    }
    if (parser->skipped)
        parser->args[parser->skipped - 1].text = parser->elsewhere;
    return 1;
}

void okv_resp_parser_skip(struct okv_resp_parser *parser)
{
    parser->is_skipping = true;
    parser->needed = 0;
}

void okv_resp_parser_skipped(struct okv_resp_parser *parser, const uint8_t *bytes)
{
    parser->is_skipping = false;
    parser->has_skipped = true;
    parser->elsewhere = bytes;
}

bool okv_resp_parser_is_fixed(const struct okv_resp_parser *parser)
{
    return parser->set > 0 && parser->count > OKV_RESP_ARGS_PER_CALL;
}

/* The pointer of an argument that was skipped stays valid. */
void okv_resp_parser_keep(struct okv_resp_parser *parser, const uint8_t *bytes)
{
    parser->is_kept = true;
    if (okv_resp_parser_is_fixed(parser))
        return;
    for (; parser->set > 0; parser->set--) {
        struct okv_resp_arg *arg = &parser->args[parser->set - 1];
        arg->text = (const uint8_t *)(arg->text - bytes);
    }
}

/* ---- arrays ---- */

/* Reads the number behind a byte of type, up to CR LF. Returns 1; 0: the line is incomplete;
 * OKV_EVALUESIZE: it has no end; OKV_ENUMBER: it is no number. */
static int read_number(struct okv_resp_parser *parser, const uint8_t *bytes, size_t length,
                       int64_t *number)
{
    const uint8_t *text = bytes + parser->position + 1;
    size_t room = length - parser->position - 1;
    const uint8_t *end = memchr(text, '\r', room > NUMBER_LINE_MAX ? NUMBER_LINE_MAX + 1 : room);

    if (!end)
        return room > NUMBER_LINE_MAX ? OKV_EVALUESIZE : 0;
    if (end + 1 == text + room)
        return 0;
    if (!okv_number_parse(text, (size_t)(end - text), number))
        return OKV_ENUMBER;
    parser->position = (size_t)(end - bytes) + 2;
    return 1;
}

static int read_head(struct okv_resp_parser *parser, const uint8_t *bytes, size_t length)
{
    int64_t number;
    int rc = read_number(parser, bytes, length, &number);

    if (rc == 0)
        return 0;
    if (rc == OKV_EVALUESIZE)
        return refuse(parser, "too big mbulk count string");
    if (rc < 0 || number > OKV_RESP_ARGS_MAX)
        return refuse(parser, "invalid multibulk length");
    if (parser->is_unauthenticated && number > OKV_RESP_UNAUTHENTICATED_ARGS_MAX)
        return refuse(parser, "unauthenticated multibulk length");
    if (number <= 0)
        return 1;
    parser->wanted = (uint32_t)number;
    return 0;
}

static int read_length(struct okv_resp_parser *parser, const uint8_t *bytes, size_t length)
{
    int64_t number;

    if (parser->position == length)
        return 0;
    if (bytes[parser->position] != '$') {
        snprintf(parser->text, sizeof parser->text, "expected '$', got '%c'",
                 bytes[parser->position]);
        return refuse(parser, parser->text);
    }
    int rc = read_number(parser, bytes, length, &number);
    if (rc == 0)
        return 0;
    if (rc == OKV_EVALUESIZE)
        return refuse(parser, "too big bulk count string");
    if (rc < 0 || number < 0 || number > OKV_RESP_BULK_MAX)
        return refuse(parser, "invalid bulk length");
    if (parser->is_unauthenticated && number > OKV_RESP_UNAUTHENTICATED_BULK_MAX)
        return refuse(parser, "unauthenticated bulk length");
    if (parser->position + (uint64_t)number + 2 > OKV_RESP_REQUEST_MAX)
        return refuse(parser, "the request has more than 128 MiB");
    parser->bulk = (uint32_t)number;
    parser->has_bulk = true;
    return 1;
}

static int parse_array(struct okv_resp_parser *parser, const uint8_t *bytes, size_t length)
{
    uint32_t last = parser->count + OKV_RESP_ARGS_PER_CALL;
    int rc;

    if (parser->wanted == 0 && (rc = read_head(parser, bytes, length)) != 0)
        return rc;
    if (parser->wanted == 0)
        return 0;
    while (parser->count < parser->wanted) {
        if (parser->count == last) {
            parser->has_more = true;
            return 0;
        }
        if (!parser->has_bulk && (rc = read_length(parser, bytes, length)) != 1)
            return rc;
        if (parser->is_skipping)
            return 0;
        parser->needed = parser->position + (parser->has_skipped ? 0 : parser->bulk) + 2;
        if (length < parser->needed)
            return 0;
        rc = add_arg(parser, parser->position, parser->bulk);
        if (rc)
            return rc;
        if (parser->has_skipped)
            parser->skipped = parser->count;
        parser->has_skipped = false;
        parser->position = parser->needed;
        parser->has_bulk = false;
    }
    return complete(parser, bytes);
}

/* ---- lines ---- */

static int digit_of(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* What a backslash in double quotes makes of the bytes behind it. Returns how many it took. */
static size_t unescape(const uint8_t *text, size_t room, uint8_t *out)
{
    static const char names[] = "nrtba", bytes[] = "\n\r\t\b\a";
    const char *name;

    if (room >= 3 && text[0] == 'x' && digit_of(text[1]) >= 0 && digit_of(text[2]) >= 0) {
        *out = (uint8_t)(digit_of(text[1]) * 16 + digit_of(text[2]));
        return 3;
    }
    name = text[0] ? strchr(names, text[0]) : NULL;
    *out = name ? (uint8_t)bytes[name - names] : text[0];
    return 1;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

/* Reads a word in quotes at *from, which is behind the first quote, to *to. False: it does not end,
 * or something other than a space follows it. */
static bool read_quoted(const uint8_t *line, size_t end, uint8_t quote, size_t *from, uint8_t **to)
{
    while (*from < end && line[*from] != quote) {
        bool is_escape = line[*from] == '\\' && *from + 1 < end;
        if (is_escape && quote == '"') {
            *from += 1 + unescape(line + *from + 1, end - *from - 1, (*to)++);
        } else {
            *from += is_escape && line[*from + 1] == '\'';
            *(*to)++ = line[(*from)++];
        }
    }
    if (*from == end)
        return false;
    ++*from;
    return *from == end || is_space(line[*from]);
}

static bool has_too_many_words(const struct okv_resp_parser *parser)
{
    return parser->count >= (parser->is_unauthenticated ? OKV_RESP_UNAUTHENTICATED_ARGS_MAX
                                                        : OKV_RESP_INLINE_ARGS_MAX);
}

/* A word is written where it was read: it never gets longer. */
static int read_words(struct okv_resp_parser *parser, uint8_t *line, size_t end)
{
    size_t at = 0;

    while (at < end) {
        while (at < end && is_space(line[at]))
            at++;
        if (at == end)
            break;
        if (has_too_many_words(parser))
            return refuse(parser, "too many words in an inline request");
        uint8_t *to = line + at;
        size_t first = at;
        while (at < end && !is_space(line[at])) {
            uint8_t quote = line[at];
            if (quote != '"' && quote != '\'') {
                *to++ = line[at++];
                continue;
            }
            at++;
            if (!read_quoted(line, end, quote, &at, &to))
                return refuse(parser, "unbalanced quotes in request");
        }
        int rc = add_arg(parser, first, (uint32_t)(to - (line + first)));
        if (rc)
            return rc;
    }
    return 0;
}

static int parse_line(struct okv_resp_parser *parser, uint8_t *bytes, size_t length)
{
    const uint8_t *end = memchr(bytes + parser->position, '\n', length - parser->position);
    size_t line = end ? (size_t)(end - bytes) : length;

    if (line >
        (parser->is_unauthenticated ? OKV_RESP_UNAUTHENTICATED_BULK_MAX : OKV_RESP_INLINE_MAX))
        return refuse(parser, "too big inline request");
    if (!end) {
        parser->position = length;
        return 0;
    }
    parser->position = line + 1;
    if (line > 0 && bytes[line - 1] == '\r')
        line--;
    int rc = read_words(parser, bytes, line);
    return rc ? rc : complete(parser, bytes);
}

int okv_resp_parse(struct okv_resp_parser *parser, uint8_t *bytes, size_t length)
{
    parser->has_more = false;
    if (parser->is_kept || parser->set > 0) {
        parser->is_kept = false;
        return complete(parser, bytes);
    }
    if (length == 0)
        return 0;
    return bytes[0] == '*' ? parse_array(parser, bytes, length) : parse_line(parser, bytes, length);
}
