#include "server/store/owners.h"

#include <stdlib.h>
#include <sys/mman.h>

struct slab {
    uint64_t slots, length; /* of a slot */
    _Atomic uint32_t owner[];
};

static size_t length_of(uint64_t pages)
{
    return pages * sizeof(atomic_uintptr_t);
}

struct okv_owners *okv_owners_create(uint64_t pages)
{
    struct okv_owners *owners = calloc(1, sizeof *owners);

    if (!owners)
        return NULL;
    owners->pages = pages;
    owners->of_page = mmap(NULL, length_of(pages), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (owners->of_page == MAP_FAILED) {
        free(owners);
        return NULL;
    }
    pthread_mutex_init(&owners->lock, NULL);
    return owners;
}

/* Slabs are dropped before. */
void okv_owners_destroy(struct okv_owners *owners)
{
    if (!owners)
        return;
    pthread_mutex_destroy(&owners->lock);
    munmap(owners->of_page, length_of(owners->pages));
    free(owners);
}

/* The owner of a run, as an odd number. */
void okv_owners_set_run(struct okv_owners *owners, uint64_t page, uint32_t owner)
{
    atomic_store_explicit(&owners->of_page[page], (uintptr_t)owner << 1 | 1, memory_order_relaxed);
}

uint32_t okv_owners_get_run(const struct okv_owners *owners, uint64_t page)
{
    return (uint32_t)(atomic_load_explicit(&owners->of_page[page], memory_order_relaxed) >> 1);
}

/* NULL: none, or the page was the first one of a run. */
static struct slab *slab_of(uintptr_t value)
{
    return value & 1 ? NULL : (struct slab *)value;
}

/* Another slot of it may get an owner at the same time. */
static struct slab *get_or_make(struct okv_owners *owners, uint64_t page,
                                const struct okv_owners_slot *slot)
{
    uint64_t slots = slot->slab_length / slot->length;
    uintptr_t value = atomic_load_explicit(&owners->of_page[page], memory_order_acquire);

    if (slab_of(value))
        return slab_of(value);
    struct slab *slab = calloc(1, sizeof *slab + slots * sizeof *slab->owner);
    if (!slab)
        return NULL;
    slab->slots = slots;
    slab->length = slot->length;
    if (atomic_compare_exchange_strong(&owners->of_page[page], &value, (uintptr_t)slab))
        return slab;
    free(slab);
    return slab_of(value);
}

void okv_owners_set_slot(struct okv_owners *owners, uint64_t page,
                         const struct okv_owners_slot *slot, uint32_t owner)
{
    struct slab *slab = get_or_make(owners, page, slot);
    uint64_t index = slot->offset / slot->length;

    if (slab && slab->length == slot->length && index < slab->slots)
        atomic_store_explicit(&slab->owner[index], owner, memory_order_relaxed);
}

/* The lock is held. */
static struct slab *find(struct okv_owners *owners, uint64_t page)
{
    return slab_of(atomic_load_explicit(&owners->of_page[page], memory_order_acquire));
}

uint32_t okv_owners_get_slot(struct okv_owners *owners, uint64_t page, uint64_t offset)
{
    uint32_t owner = 0;

    pthread_mutex_lock(&owners->lock);
    struct slab *slab = find(owners, page);
    if (slab && offset / slab->length < slab->slots)
        owner = atomic_load_explicit(&slab->owner[offset / slab->length], memory_order_relaxed);
    pthread_mutex_unlock(&owners->lock);
    return owner;
}

uint64_t okv_owners_slot_length(struct okv_owners *owners, uint64_t page)
{
    pthread_mutex_lock(&owners->lock);
    struct slab *slab = find(owners, page);
    uint64_t length = slab ? slab->length : 0;
    pthread_mutex_unlock(&owners->lock);
    return length;
}

void okv_owners_drop_slab(struct okv_owners *owners, uint64_t page)
{
    pthread_mutex_lock(&owners->lock);
    free(slab_of(atomic_exchange(&owners->of_page[page], 0)));
    pthread_mutex_unlock(&owners->lock);
}
