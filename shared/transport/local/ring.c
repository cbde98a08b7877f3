#include "shared/transport/local/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shared/base/error.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)
/* Those of the client, once it has mapped the rings: nobody makes holes any more. */
#define SEALS_OF_CLIENT (F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* Bytes that a message takes in a ring. Positions stay multiples of 8, so the head of a record
 * never wraps around the end of the ring. */
static uint32_t record_size(uint32_t length)
{
    return OKV_LOCAL_RING_RECORD + ((length + 7) & ~7u);
}

/* ---- the memory ---- */

uint32_t okv_local_ring_capacity(uint32_t slot_size)
{
    uint32_t capacity = OKV_LOCAL_RING_MIN;

    while (capacity < OKV_LOCAL_RING_MAX && capacity < 2 * record_size(slot_size))
        capacity *= 2;
    return capacity;
}

int okv_local_error(int errnum)
{
    switch (errnum) {
    case EMFILE:
    case ENFILE:
    case ETOOMANYREFS:
        return OKV_EPERM;
    case ENOSPC:
        return OKV_ENOMEM;
    default:
        return okv_error_from_errno(errnum);
    }
}

/* Allocates what is mapped at once: a page that the kernel cannot provide later would kill the
 * process that touches it. Without permission to write nobody but the owner can page it out. */
static int make_memory(const char *name, off_t size, bool is_mapped, int seals)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc, errnum;

    if (fd < 0)
        return -1;
    do {
        rc = ftruncate(fd, size);
        if (rc == 0 && is_mapped)
            rc = fallocate(fd, 0, 0, size);
    } while (rc && errno == EINTR);
    if (rc || fchmod(fd, 0600) || fcntl(fd, F_ADD_SEALS, seals)) {
        errnum = errno;
        close(fd);
        errno = errnum;
        return -1;
    }
    return fd;
}

void okv_local_ring_attach(struct okv_local_ring *ring, void *memory, uint32_t capacity,
                           bool is_client)
{
    struct okv_local_ring_page *page = memory;
    uint8_t *of_client = (uint8_t *)memory + OKV_LOCAL_RING_BYTES;
    uint8_t *of_server = of_client + capacity;

    *ring = (struct okv_local_ring){
        .page = page,
        .own = is_client ? &page->client : &page->server,
        .peer = is_client ? &page->server : &page->client,
        .out = is_client ? of_client : of_server,
        .in = is_client ? of_server : of_client,
        .capacity = capacity,
    };
}

int okv_local_ring_create(uint32_t slot_size, struct okv_local_ring *ring, int *fd)
{
    int status;

    if (slot_size > OKV_LOCAL_RING_SLOT_MAX)
        return OKV_EUNSUPPORTED;
    uint32_t capacity = okv_local_ring_capacity(slot_size);
    int made = make_memory("okv-ring", (off_t)okv_local_ring_mapped(capacity), true, SEALS);
    if (made < 0)
        return okv_local_error(errno);
    struct okv_local_ring_page *page =
        mmap(NULL, okv_local_ring_mapped(capacity), PROT_READ | PROT_WRITE, MAP_SHARED, made, 0);
    if (page == MAP_FAILED) {
        status = okv_local_error(errno);
        close(made);
        return status;
    }
    page->magic = OKV_LOCAL_RING_MAGIC;
    page->format = OKV_LOCAL_RING_FORMAT;
    page->capacity = capacity;
    page->server.wants = OKV_LOCAL_RING_MESSAGES;
    okv_local_ring_attach(ring, page, capacity, false);
    *fd = made;
    return 0;
}

bool okv_local_ring_has_no_holes(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat file;

    return seals >= 0 && (seals & F_SEAL_FUTURE_WRITE) && fstat(fd, &file) == 0 &&
           file.st_blocks * 512 >= file.st_size;
}

int okv_local_values_create(int *fd)
{
    *fd = make_memory("okv-values", (off_t)OKV_LOCAL_VALUES_BYTES, false, SEALS | F_SEAL_SEAL);
    return *fd < 0 ? okv_local_error(errno) : 0;
}

int okv_local_values_check(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat file;

    if (seals < 0)
        return errno == EINVAL ? OKV_EPROTO : okv_error_from_errno(errno);
    if (fstat(fd, &file))
        return okv_error_from_errno(errno);
    return (seals & F_SEAL_GROW) && (uint64_t)file.st_size == OKV_LOCAL_VALUES_BYTES ? 0
                                                                                     : OKV_EPROTO;
}

static bool is_open_to_a_client(int seals)
{
    return (seals & SEALS) == SEALS &&
           !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
}

static bool is_of_this_format(const struct okv_local_ring_page *page, uint32_t capacity,
                              size_t size)
{
    return page->magic == OKV_LOCAL_RING_MAGIC && page->format == OKV_LOCAL_RING_FORMAT &&
           !(capacity & (capacity - 1)) && okv_local_ring_mapped(capacity) == size;
}

int okv_local_ring_map(int fd, struct okv_local_ring *ring)
{
    int seals = fcntl(fd, F_GET_SEALS), status;
    struct stat file;

    if (seals < 0)
        return errno == EINVAL ? OKV_EPROTO : okv_error_from_errno(errno);
    if (!is_open_to_a_client(seals))
        return OKV_EPROTO;
    if (fstat(fd, &file))
        return okv_error_from_errno(errno);
    if ((size_t)file.st_size < okv_local_ring_mapped(OKV_LOCAL_RING_MIN) ||
        (size_t)file.st_size > okv_local_ring_mapped(OKV_LOCAL_RING_MAX))
        return OKV_EPROTO;
    size_t size = (size_t)file.st_size;
    struct okv_local_ring_page *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return okv_local_error(errno);
    if (fcntl(fd, F_ADD_SEALS, SEALS_OF_CLIENT)) {
        status = okv_local_error(errno);
        goto unmap;
    }
    uint32_t capacity = *(volatile uint32_t *)&page->capacity;
    status = is_of_this_format(page, capacity, size) ? 0 : OKV_EPROTO;
    if (status)
        goto unmap;
    okv_local_ring_attach(ring, page, capacity, true);
    return 0;
unmap:
    munmap(page, size);
    return status;
}

void okv_local_ring_unmap(struct okv_local_ring *ring)
{
    if (ring->page)
        munmap(ring->page, okv_local_ring_mapped(ring->capacity));
    ring->page = NULL;
}

/* ---- bytes ---- */

/* The two words before a message. They are atomic so that the compiler reads them only once. */
static _Atomic uint32_t *record_at(uint8_t *bytes, uint32_t capacity, uint32_t position)
{
    return (_Atomic uint32_t *)(void *)(bytes + (position & (capacity - 1)));
}

static void copy_in(const struct okv_local_ring *ring, uint32_t position, const uint8_t *from,
                    uint32_t length)
{
    uint32_t start = position & (ring->capacity - 1);
    uint32_t first = ring->capacity - start < length ? ring->capacity - start : length;

    memcpy(ring->out + start, from, first);
    memcpy(ring->out, from + first, length - first);
}

static void copy_out(const struct okv_local_ring *ring, uint32_t position, uint8_t *to,
                     uint32_t length)
{
    uint32_t start = position & (ring->capacity - 1);
    uint32_t first = ring->capacity - start < length ? ring->capacity - start : length;

    memcpy(to, ring->in + start, first);
    memcpy(to + first, ring->in, length - first);
}

/* Clears `want` of the peer. True when it was set. */
static bool clear_want(struct okv_local_ring *ring, uint32_t want)
{
    if (!(atomic_load_explicit(&ring->peer->wants, memory_order_seq_cst) & want))
        return false;
    return atomic_fetch_and(&ring->peer->wants, ~want) & want;
}

/* ---- sending ---- */

static uint32_t room(const struct okv_local_ring *ring)
{
    return ring->capacity - (ring->written - ring->peer_taken);
}

static int read_taken(struct okv_local_ring *ring)
{
    /* Acquires: the peer has copied the bytes before we write over them. */
    uint32_t taken = atomic_load_explicit(&ring->peer->taken, memory_order_seq_cst);

    if (ring->written - taken > ring->capacity)
        return OKV_EPROTO;
    ring->peer_taken = taken;
    return 0;
}

/* 0 when there is room for `size` bytes. OKV_EAGAIN: the peer knows that we wait. */
static int make_room(struct okv_local_ring *ring, uint32_t size)
{
    int status = 0;

    if (room(ring) < size)
        status = read_taken(ring);
    if (status == 0 && room(ring) < size) {
        atomic_fetch_or(&ring->own->wants, OKV_LOCAL_RING_ROOM);
        status = read_taken(ring);
    }
    if (status)
        return status;
    return room(ring) < size ? OKV_EAGAIN : 0;
}

int okv_local_ring_put(struct okv_local_ring *ring, const uint8_t *bytes, uint32_t length,
                       uint32_t immediate)
{
    uint32_t size = record_size(length);
    int status = make_room(ring, size);

    if (status)
        return status;
    _Atomic uint32_t *record = record_at(ring->out, ring->capacity, ring->written);
    atomic_store_explicit(&record[0], length, memory_order_relaxed);
    atomic_store_explicit(&record[1], immediate, memory_order_relaxed);
    copy_in(ring, ring->written + OKV_LOCAL_RING_RECORD, bytes, length);
    ring->written += size;
    return 0;
}

bool okv_local_ring_publish(struct okv_local_ring *ring)
{
    if (ring->written == ring->published)
        return false;
    ring->published = ring->written;
    atomic_store_explicit(&ring->own->published, ring->written, memory_order_seq_cst);
    return clear_want(ring, OKV_LOCAL_RING_MESSAGES);
}

/* ---- receiving ---- */

static int read_published(struct okv_local_ring *ring)
{
    if (ring->has_ended)
        return 0;
    uint32_t published = atomic_load_explicit(&ring->peer->published, memory_order_seq_cst);
    if (published - ring->taken > ring->capacity || published % 8)
        return OKV_EPROTO;
    ring->available = published;
    return 0;
}

int okv_local_ring_take(struct okv_local_ring *ring, uint8_t *to, uint32_t size, uint32_t *length,
                        uint32_t *immediate)
{
    int status = ring->available == ring->taken ? read_published(ring) : 0;
    uint32_t available = ring->available - ring->taken;

    if (status || available == 0)
        return status;
    _Atomic uint32_t *record = record_at(ring->in, ring->capacity, ring->taken);
    uint32_t bytes = atomic_load_explicit(&record[0], memory_order_relaxed);
    if (bytes > size || record_size(bytes) > available)
        return OKV_EPROTO;
    *length = bytes;
    *immediate = atomic_load_explicit(&record[1], memory_order_relaxed);
    copy_out(ring, ring->taken + OKV_LOCAL_RING_RECORD, to, bytes);
    ring->taken += record_size(bytes);
    return 1;
}

bool okv_local_ring_release(struct okv_local_ring *ring)
{
    if (ring->told == ring->taken)
        return false;
    ring->told = ring->taken;
    atomic_store_explicit(&ring->own->taken, ring->taken, memory_order_seq_cst);
    return clear_want(ring, OKV_LOCAL_RING_ROOM);
}

/* ---- sleeping ---- */

bool okv_local_ring_wait(struct okv_local_ring *ring)
{
    if (ring->available != ring->taken)
        return false;
    atomic_fetch_or(&ring->own->wants, OKV_LOCAL_RING_MESSAGES);
    return read_published(ring) == 0 && ring->available == ring->taken;
}

void okv_local_ring_stop_waiting(struct okv_local_ring *ring)
{
    atomic_fetch_and(&ring->own->wants, ~(uint32_t)OKV_LOCAL_RING_MESSAGES);
}

void okv_local_ring_end(struct okv_local_ring *ring)
{
    if (read_published(ring)) /* a position without sense counts as none */
        ring->available = ring->taken;
    ring->has_ended = true;
}
