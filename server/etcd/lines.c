#include "server/etcd/lines.h"

#include <stdlib.h>
#include <string.h>

#include "server/etcd/etcd.h"

#define FIRST_SIZE 1024

static bool grow(struct okv_etcd_lines *lines, size_t needed)
{
    size_t size = lines->size ? lines->size : FIRST_SIZE;

    while (size < needed)
        size *= 2;
    if (size == lines->size)
        return true;
    char *bytes = realloc(lines->bytes, size);
    if (!bytes)
        return false;
    lines->bytes = bytes;
    lines->size = size;
    return true;
}

bool okv_etcd_lines_add(struct okv_etcd_lines *lines, const char *bytes, size_t length)
{
    if (length > OKV_ETCD_ANSWER_MAX - lines->length || !grow(lines, lines->length + length))
        return false;
    memcpy(lines->bytes + lines->length, bytes, length);
    lines->length += length;
    return true;
}

bool okv_etcd_lines_split(struct okv_etcd_lines *lines, const char *bytes, size_t length,
                          void (*line)(void *context, const char *text, size_t length),
                          void *context)
{
    const char *end;

    while ((end = memchr(bytes, '\n', length))) {
        size_t part = (size_t)(end - bytes);
        if (!okv_etcd_lines_add(lines, bytes, part))
            return false;
        line(context, lines->bytes, lines->length);
        lines->length = 0;
        bytes += part + 1;
        length -= part + 1;
    }
    return okv_etcd_lines_add(lines, bytes, length);
}

void okv_etcd_lines_fini(struct okv_etcd_lines *lines)
{
    if (lines->bytes)
        explicit_bzero(lines->bytes, lines->size);
    free(lines->bytes);
    *lines = (struct okv_etcd_lines){0};
}
