/*
 * Destinations of READs: the handle's arena, bounce buffers for extents that are too long for it,
 * and memory that the caller registered.
 */
#include "client/engine/memory.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "shared/base/error.h"

#define PAGE 4096u
#define STATUS_SIZE 64u
/* Sizes of bounce buffers are multiples of this, so that one serves values of similar size. */
#define BOUNCE_UNIT EXTENT_PIECE_SIZE

_Static_assert(sizeof(struct okv_wire_status) <= STATUS_SIZE, "room for the status");

static size_t round_up(size_t size, size_t unit)
{
    return (size + unit - 1) / unit * unit;
}

static void arena_destroy(okv *handle)
{
    if (handle->arena)
        munmap(handle->arena, handle->arena_size);
    handle->arena = NULL;
}

/* Call it while the arena is not registered. The images lie side by side at its start: concurrent
 * gets then touch few pages of memory. Where no device registers it, the kernel provides only those
 * that are used. */
static int arena_create(okv *handle, uint32_t bucket_size)
{
    size_t images = (size_t)bucket_size * handle->slot_count;
    size_t common = OKV_DIRECTORY_SIZE + STATUS_SIZE;
    size_t extents = (size_t)EXTENT_BUFFER_SIZE * handle->slot_count;
    size_t size = round_up(images + common + extents, PAGE);

    arena_destroy(handle);
    handle->image_size = 0;
    void *arena = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED)
        return OKV_ENOMEM;
    handle->arena = arena;
    handle->arena_size = size;
    handle->image_size = bucket_size;
    handle->staging = handle->arena + images;
    handle->status = handle->staging + OKV_DIRECTORY_SIZE;
    for (uint32_t i = 0; i < handle->slot_count; i++) {
        struct operation *operation = &handle->operations[i];
        operation->image = handle->arena + (size_t)i * bucket_size;
        operation->extent = handle->status + STATUS_SIZE + (size_t)i * EXTENT_BUFFER_SIZE;
    }
    return 0;
}

static int buffer_register(okv *handle, void *base, size_t length, struct okv_memory **out)
{
    int rc = handle->transport->memory_register(handle->conn->endpoint, base, length, out);

    if (rc)
        *out = NULL;
    return rc;
}

static void buffer_unregister(const okv *handle, struct okv_memory **memory)
{
    if (*memory)
        handle->transport->memory_unregister(*memory);
    *memory = NULL;
}

int memory_attach(okv *handle, uint32_t bucket_size)
{
    int rc = 0;

    if (handle->image_size != bucket_size)
        rc = arena_create(handle, bucket_size);
    if (rc == 0)
        rc = buffer_register(handle, handle->arena, handle->arena_size, &handle->memory);
    for (unsigned i = 0; i < REGISTRATIONS_MAX && rc == 0; i++) {
        struct okv_registration *own = handle->registrations[i];
        if (own)
            rc = buffer_register(handle, own->base, own->length, &own->memory);
    }
    return rc;
}

/* ---- bounce buffers ---- */

static void bounce_free(struct bounce *bounce)
{
    if (bounce)
        free(bounce->base);
    free(bounce);
}

static void bounce_destroy(const okv *handle, struct bounce *bounce)
{
    handle->transport->memory_unregister(bounce->memory);
    bounce_free(bounce);
}

static int bounce_create(okv *handle, size_t size, struct bounce **out)
{
    struct bounce *bounce = calloc(1, sizeof *bounce);
    int rc = OKV_ENOMEM;

    if (!bounce)
        return rc;
    bounce->size = round_up(size, BOUNCE_UNIT);
    bounce->base = aligned_alloc(PAGE, bounce->size);
    if (!bounce->base)
        goto free_bounce;
    rc = handle->transport->memory_register(handle->conn->endpoint, bounce->base, bounce->size,
                                            &bounce->memory);
    if (rc)
        goto free_base;
    *out = bounce;
    return 0;

free_base:
    free(bounce->base);
free_bounce:
    free(bounce);
    return rc;
}

int bounce_acquire(okv *handle, size_t size, struct bounce **out)
{
    struct bounce **best = NULL;

    *out = NULL;
    for (unsigned i = 0; i < BOUNCES_KEPT; i++) {
        struct bounce **kept = &handle->bounces[i];
        if (*kept && (*kept)->size >= size && (!best || (*kept)->size < (*best)->size))
            best = kept;
    }
    if (!best)
        return bounce_create(handle, size, out);
    *out = *best;
    *best = NULL;
    return 0;
}

/* Keeps the largest buffers. */
void bounce_release(okv *handle, struct bounce *bounce)
{
    struct bounce **smallest = &handle->bounces[0];

    for (unsigned i = 0; i < BOUNCES_KEPT; i++) {
        struct bounce **kept = &handle->bounces[i];
        if (!*kept) {
            *kept = bounce;
            return;
        }
        if ((*kept)->size < (*smallest)->size)
            smallest = kept;
    }
    if ((*smallest)->size < bounce->size) {
        struct bounce *other = *smallest;
        *smallest = bounce;
        bounce = other;
    }
    bounce_destroy(handle, bounce);
}

/* ---- the caller's memory ---- */

const struct okv_registration *registration_find(const okv *handle, const uint8_t *base,
                                                 size_t length)
{
    for (unsigned i = 0; i < handle->registrations_end; i++) {
        const struct okv_registration *registration = handle->registrations[i];
        if (registration && base >= registration->base &&
            okv_range_inside((uint64_t)(base - registration->base), length, registration->length))
            return registration;
    }
    return NULL;
}

int registration_create(okv *handle, void *base, size_t length, okv_registration **out)
{
    /* Otherwise the next connection registers it: memory_attach(). */
    bool now = handle->conn && handle->link.state != LINK_CLOSING;
    unsigned index = 0;

    while (index < REGISTRATIONS_MAX && handle->registrations[index])
        index++;
    if (index == REGISTRATIONS_MAX)
        return OKV_EAGAIN;
    struct okv_registration *registration = calloc(1, sizeof *registration);
    if (!registration)
        return OKV_ENOMEM;
    registration->base = base;
    registration->length = length;
    int rc = now ? buffer_register(handle, base, length, &registration->memory) : 0;
    if (rc) {
        free(registration);
        return rc;
    }
    handle->registrations[index] = registration;
    if (index == handle->registrations_end)
        handle->registrations_end++;
    *out = registration;
    return 0;
}

void registration_destroy(okv *handle, okv_registration **registration)
{
    for (unsigned i = 0; i < REGISTRATIONS_MAX; i++) {
        if (handle->registrations[i] != *registration)
            continue;
        buffer_unregister(handle, &(*registration)->memory);
        free(*registration);
        handle->registrations[i] = NULL;
    }
    while (handle->registrations_end > 0 && !handle->registrations[handle->registrations_end - 1])
        handle->registrations_end--;
    *registration = NULL;
}

/* ---- the end of a connection and of the handle ---- */

static void operation_detach(okv *handle, struct operation *operation)
{
    if (operation->advert)
        handle->transport->withdraw(operation->advert, false);
    if (operation->bounce)
        bounce_destroy(handle, operation->bounce);
    operation->advert = NULL;
    operation->bounce = NULL;
}

void memory_detach(okv *handle)
{
    for (uint32_t i = 0; i < handle->slot_count; i++)
        operation_detach(handle, &handle->operations[i]);
    for (unsigned i = 0; i < BOUNCES_KEPT; i++) {
        if (handle->bounces[i])
            bounce_destroy(handle, handle->bounces[i]);
        handle->bounces[i] = NULL;
    }
    for (unsigned i = 0; i < REGISTRATIONS_MAX; i++)
        if (handle->registrations[i])
            buffer_unregister(handle, &handle->registrations[i]->memory);
    buffer_unregister(handle, &handle->memory);
}

void memory_destroy(okv *handle)
{
    for (unsigned i = 0; i < REGISTRATIONS_MAX; i++)
        free(handle->registrations[i]);
    arena_destroy(handle);
}

void memory_abandon(okv *handle)
{
    for (uint32_t i = 0; handle->operations && i < handle->slot_count; i++)
        bounce_free(handle->operations[i].bounce);
    for (unsigned i = 0; i < BOUNCES_KEPT; i++)
        bounce_free(handle->bounces[i]);
    memory_destroy(handle);
}
