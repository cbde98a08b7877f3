#include "server/resp/proto/buffer.h"

#include <stdlib.h>
#include <string.h>

#define FIRST 1024u

void okv_resp_buffer_fini(struct okv_resp_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct okv_resp_buffer){0};
}

static bool grow(struct okv_resp_buffer *buffer, size_t wanted)
{
    size_t capacity = buffer->capacity + buffer->capacity / 2;
    size_t most = buffer->most ? buffer->most : OKV_RESP_BUFFER_MAX;

    if (wanted > most)
        return false;
    capacity = capacity > most ? most : capacity;
    capacity = capacity < FIRST ? FIRST : capacity;
    capacity = capacity < wanted ? wanted : capacity;
    void *grown = realloc(buffer->bytes, capacity);
    if (!grown)
        return false;
    buffer->bytes = grown;
    buffer->capacity = capacity;
    return true;
}

uint8_t *okv_resp_buffer_room(struct okv_resp_buffer *buffer, size_t bytes)
{
    size_t wanted = buffer->used + bytes;

    if (buffer->has_failed || (wanted > buffer->capacity && !grow(buffer, wanted))) {
        buffer->has_failed = true;
        return NULL;
    }
    return buffer->bytes + buffer->used;
}

void okv_resp_buffer_add(struct okv_resp_buffer *buffer, const void *bytes, size_t length)
{
    uint8_t *room = okv_resp_buffer_room(buffer, length);

    if (!room || length == 0)
        return;
    memcpy(room, bytes, length);
    buffer->used += length;
}

void okv_resp_buffer_drop(struct okv_resp_buffer *buffer, size_t length)
{
    buffer->used -= length;
    if (buffer->used)
        memmove(buffer->bytes, buffer->bytes + length, buffer->used);
}
