#include "server/resp/proto/buffer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST 1024u
#define PAGE ((size_t)4096)

/* ---- memory ---- */

static void *map(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return pages == MAP_FAILED ? NULL : pages;
}

#ifdef OKV_NO_MREMAP
static void *map_more(void *bytes, size_t from, size_t to)
{
    void *moved = map(to);

    if (moved) {
        memcpy(moved, bytes, from);
        munmap(bytes, from);
    }
    return moved;
}
#else
static void *map_more(void *bytes, size_t from, size_t to)
{
    void *moved = mremap(bytes, from, to, MREMAP_MAYMOVE);

    return moved == MAP_FAILED ? NULL : moved;
}
#endif

void *okv_resp_memory_grow(void *bytes, size_t from, size_t to)
{
    if (from >= OKV_RESP_MAPPED_MIN)
        return map_more(bytes, from, to);
    void *grown = to < OKV_RESP_MAPPED_MIN ? malloc(to) : map(to);
    if (grown && from) {
        memcpy(grown, bytes, from);
        okv_resp_memory_free(bytes, from);
    }
    return grown;
}

void okv_resp_memory_free(void *bytes, size_t size)
{
    if (size >= OKV_RESP_MAPPED_MIN) {
        munmap(bytes, size);
        return;
    }
    if (bytes)
        explicit_bzero(bytes, size);
    free(bytes);
}

/* ---- memory that is unmapped in steps ---- */

/* At its begin, which is unmapped last. */
struct okv_resp_trash_piece {
    struct okv_resp_trash_piece *next;
    size_t size;
};

static void unmap(void *bytes, size_t size, struct okv_resp_trash *trash)
{
    munmap(bytes, size);
    trash->unmapped += size;
}

/* Whole pages. */
static void discard_mapped(void *bytes, size_t size, struct okv_resp_trash *trash)
{
    struct okv_resp_trash_piece *piece = bytes;

    if (trash->unmapped + size <= OKV_RESP_TRASH_STEP) {
        unmap(bytes, size, trash);
        return;
    }
    *piece = (struct okv_resp_trash_piece){trash->first, size};
    trash->first = piece;
}

void okv_resp_memory_discard(void *bytes, size_t size, struct okv_resp_trash *trash)
{
    if (size < OKV_RESP_MAPPED_MIN)
        okv_resp_memory_free(bytes, size);
    else
        discard_mapped(bytes, (size + PAGE - 1) / PAGE * PAGE, trash);
}

/* The end of the first piece, at most `most` bytes. Returns how many. */
static size_t empty_some(struct okv_resp_trash *trash, size_t most)
{
    struct okv_resp_trash_piece *piece = trash->first;
    size_t size = piece->size, left = size > most ? size - most : 0;

    if (left)
        piece->size = left;
    else
        trash->first = piece->next;
    unmap((uint8_t *)piece + left, size - left, trash);
    return size - left;
}

size_t okv_resp_trash_empty(struct okv_resp_trash *trash)
{
    size_t done = 0;

    while (trash->first && done < OKV_RESP_TRASH_STEP)
        done += empty_some(trash, OKV_RESP_TRASH_STEP - done);
    return done;
}

/* ---- buffers ---- */

size_t okv_resp_buffer_fresh(struct okv_resp_buffer *buffer)
{
    bool is_mapped = buffer->capacity >= OKV_RESP_MAPPED_MIN;
    size_t fresh = is_mapped && buffer->used > buffer->touched ? buffer->used - buffer->touched : 0;

    buffer->touched += fresh;
    return fresh;
}

void okv_resp_buffer_fini(struct okv_resp_buffer *buffer)
{
    okv_resp_memory_free(buffer->bytes, buffer->capacity);
    *buffer = (struct okv_resp_buffer){0};
}

void okv_resp_buffer_discard(struct okv_resp_buffer *buffer, struct okv_resp_trash *trash)
{
    okv_resp_memory_discard(buffer->bytes, buffer->capacity, trash);
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
    if (capacity >= OKV_RESP_MAPPED_MIN)
        capacity = (capacity + PAGE - 1) / PAGE * PAGE;
    void *grown = okv_resp_memory_grow(buffer->bytes, buffer->capacity, capacity);
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

/* From the front of a mapped buffer, which stays mapped behind it. */
static void discard_pages(struct okv_resp_buffer *buffer, size_t pages,
                          struct okv_resp_trash *trash)
{
    if (pages == 0)
        return;
    discard_mapped(buffer->bytes, pages, trash);
    buffer->bytes += pages;
    buffer->used -= pages;
    buffer->touched -= pages < buffer->touched ? pages : buffer->touched;
    buffer->capacity -= pages;
}

size_t okv_resp_buffer_drop(struct okv_resp_buffer *buffer, size_t length,
                            struct okv_resp_trash *trash)
{
    size_t pages = length - length % PAGE;

    if (buffer->capacity >= pages + OKV_RESP_MAPPED_MIN) {
        discard_pages(buffer, pages, trash);
        return pages;
    }
    buffer->used -= length;
    if (buffer->used) {
        size_t end = buffer->used + length, old = length > buffer->used ? length : buffer->used;
        memmove(buffer->bytes, buffer->bytes + length, buffer->used);
        explicit_bzero(buffer->bytes + old, end - old);
    }
    return length;
}
