#include "server/resp/proto/reply.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERROR_MAX 512
/* A byte of type, 64 bits in decimal, a sign, CR LF. */
#define HEAD_MAX 24

static void add_head(const struct okv_resp_reply *to, char type, int64_t number)
{
    uint8_t text[HEAD_MAX], *at = text + sizeof text;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    *--at = '\n';
    *--at = '\r';
    do {
        *--at = (uint8_t)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (number < 0)
        *--at = '-';
    *--at = (uint8_t)type;
    okv_resp_buffer_add(to->out, at, (size_t)(text + sizeof text - at));
}

void okv_resp_simple(const struct okv_resp_reply *to, const char *text)
{
    okv_resp_buffer_add(to->out, "+", 1);
    okv_resp_buffer_add(to->out, text, strlen(text));
    okv_resp_buffer_add(to->out, "\r\n", 2);
}

void okv_resp_error(const struct okv_resp_reply *to, const char *format, ...)
{
    char text[ERROR_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *at = text; *at; at++)
        if (*at == '\r' || *at == '\n')
            *at = ' ';
    okv_resp_buffer_add(to->out, "-", 1);
    okv_resp_buffer_add(to->out, text, strlen(text));
    okv_resp_buffer_add(to->out, "\r\n", 2);
    explicit_bzero(text, sizeof text); /* it may repeat a word of a log-in */
}

void okv_resp_integer(const struct okv_resp_reply *to, int64_t number)
{
    add_head(to, ':', number);
}

void okv_resp_bulk(const struct okv_resp_reply *to, const void *bytes, size_t length)
{
    /* At once, so that the buffer grows once. */
    if (!okv_resp_buffer_room(to->out, HEAD_MAX + length + 2))
        return;
    add_head(to, '$', (int64_t)length);
    okv_resp_buffer_add(to->out, bytes, length);
    okv_resp_buffer_add(to->out, "\r\n", 2);
}

void okv_resp_bulk_head(const struct okv_resp_reply *to, size_t length)
{
    add_head(to, '$', (int64_t)length);
}

void okv_resp_text(const struct okv_resp_reply *to, const char *text)
{
    okv_resp_bulk(to, text, strlen(text));
}

void okv_resp_verbatim(const struct okv_resp_reply *to, const char *text, size_t length)
{
    if (to->protocol < 3) {
        okv_resp_bulk(to, text, length);
        return;
    }
    add_head(to, '=', (int64_t)length + 4);
    okv_resp_buffer_add(to->out, "txt:", 4);
    okv_resp_buffer_add(to->out, text, length);
    okv_resp_buffer_add(to->out, "\r\n", 2);
}

void okv_resp_null(const struct okv_resp_reply *to)
{
    if (to->protocol < 3)
        okv_resp_buffer_add(to->out, "$-1\r\n", 5);
    else
        okv_resp_buffer_add(to->out, "_\r\n", 3);
}

void okv_resp_null_array(const struct okv_resp_reply *to)
{
    if (to->protocol < 3)
        okv_resp_buffer_add(to->out, "*-1\r\n", 5);
    else
        okv_resp_buffer_add(to->out, "_\r\n", 3);
}

void okv_resp_array(const struct okv_resp_reply *to, size_t count)
{
    add_head(to, '*', (int64_t)count);
}

void okv_resp_set(const struct okv_resp_reply *to, size_t count)
{
    add_head(to, to->protocol < 3 ? '*' : '~', (int64_t)count);
}

void okv_resp_map(const struct okv_resp_reply *to, size_t pairs)
{
    if (to->protocol < 3)
        add_head(to, '*', 2 * (int64_t)pairs);
    else
        add_head(to, '%', (int64_t)pairs);
}
