/*
 * The memory that both sides of a local connection share: the two rings, one per direction, and
 * apart from them room for long values; docs/protocol-transports.md section 3.2 has the offsets.
 * Only creating and mapping it needs system calls. Only the files of this folder and tests include
 * this header.
 *
 * A sender puts messages into its ring, then publishes its position: a count of bytes modulo 2^32.
 * The receiver reads that position, copies messages out, and publishes how much it has taken.
 * Each position is written by one side only.
 *
 * The peer is not trusted: it may write anything anywhere at any time. Each word of the memory is
 * read once, into a variable, and checked there. A message is copied before it is parsed. Our own
 * positions are kept in private memory and never read back. The rings are sealed against shrinking
 * and allocated from the start. A load from a page into which the peer is punching a hole blocks
 * until the hole is made, for as long as the peer likes. So the client seals the rings against that
 * (F_SEAL_FUTURE_WRITE) when it has mapped them, and the server touches them only after that.
 *
 * Sleeping. A side that waits sets a bit in its `wants`, then checks once more. A side that
 * publishes or takes checks its peer's `wants` afterwards. All four steps are sequentially
 * consistent, so one of the two sees the other. A side that finds its peer waiting clears the bit
 * and tells its caller, once, to wake the peer.
 */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_RING_H
#define OKV_SHARED_TRANSPORT_LOCAL_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OKV_LOCAL_RING_MAGIC 0x52766b6fu /* "okvR" */
#define OKV_LOCAL_RING_FORMAT 3u
/* Offset of the client's ring; the server's follows it. */
#define OKV_LOCAL_RING_BYTES 8192u
#define OKV_LOCAL_PAGE 4096u
/* Buffers that a client may advertise at a time. */
#define OKV_LOCAL_ADVERTS 256u
/* Room for their values: four of the longest. Memory is allocated on write, and neither side maps
 * it. */
#define OKV_LOCAL_VALUES_BYTES (UINT64_C(4) << 26)
#define OKV_LOCAL_RING_MIN 4096u           /* the smallest capacity; all are powers of two */
#define OKV_LOCAL_RING_MAX (16u << 20)     /* the largest */
#define OKV_LOCAL_RING_RECORD 8u           /* length u32 | immediate u32, before each message */
#define OKV_LOCAL_RING_SLOT_MAX (8u << 20) /* the largest message */

enum okv_local_ring_want {
    OKV_LOCAL_RING_MESSAGES = 1, /* wake me when you publish */
    OKV_LOCAL_RING_ROOM = 2,     /* wake me when you have taken */
};

/* The words that one side writes. They are written at different times, so each has its own cache
 * line. */
struct okv_local_ring_side {
    alignas(64) _Atomic uint32_t published; /* bytes that it put into its ring */
    alignas(64) _Atomic uint32_t taken;     /* bytes that it took out of its peer's */
    alignas(64) _Atomic uint32_t wants;     /* bits of okv_local_ring_want; the peer clears them */
};

/* An advertised buffer; the client writes it. Bytes that were read while the slot kept its key are
 * those of that key. */
struct okv_local_advert_slot {
    _Atomic uint32_t key;  /* 0: none */
    _Atomic uint32_t size; /* of the buffer, in bytes */
    _Atomic uint32_t page; /* where it begins in the values, in units of OKV_LOCAL_PAGE */
    uint32_t reserved;
};

/* The first pages of the memory. */
struct okv_local_ring_page {
    uint32_t magic;
    uint32_t format;
    uint32_t capacity; /* bytes of each ring */
    uint32_t reserved;
    struct okv_local_ring_side client, server;
    uint8_t unused[OKV_LOCAL_PAGE - 64 - 2 * sizeof(struct okv_local_ring_side)];
    struct okv_local_advert_slot adverts[OKV_LOCAL_ADVERTS];
};

_Static_assert(offsetof(struct okv_local_ring_page, capacity) == 8, "section 3.2");
_Static_assert(offsetof(struct okv_local_ring_page, client.published) == 64, "section 3.2");
_Static_assert(offsetof(struct okv_local_ring_page, client.taken) == 128, "section 3.2");
_Static_assert(offsetof(struct okv_local_ring_page, client.wants) == 192, "section 3.2");
_Static_assert(offsetof(struct okv_local_ring_page, server.published) == 256, "section 3.2");
_Static_assert(offsetof(struct okv_local_ring_page, server.taken) == 320, "section 3.2");
_Static_assert(offsetof(struct okv_local_ring_page, server.wants) == 384, "section 3.2");
_Static_assert(offsetof(struct okv_local_ring_page, adverts) == 4096, "section 3.2");
_Static_assert(sizeof(struct okv_local_advert_slot) == 16, "section 3.2");
_Static_assert(sizeof(struct okv_local_ring_page) == OKV_LOCAL_RING_BYTES, "section 3.2");
_Static_assert(sizeof(_Atomic uint32_t) == 4 && ATOMIC_INT_LOCK_FREE == 2, "between processes");

/* One side's view of both rings; private to its thread. */
struct okv_local_ring {
    struct okv_local_ring_page *page; /* NULL: none */
    struct okv_local_ring_side *own, *peer;
    uint8_t *out;
    uint8_t *in;
    uint32_t capacity;
    uint32_t written; /* into `out`; the peer knows only `published` */
    uint32_t published;
    uint32_t peer_taken; /* of `out`, as we last saw it */
    uint32_t taken;      /* of `in` */
    uint32_t told;       /* `taken` as the peer knows it */
    uint32_t available;  /* the peer's position in `in`, as we last saw it */
    bool has_ended;      /* the peer writes no more: `available` is final */
};

/* The bytes of the rings' memory. */
static inline size_t okv_local_ring_mapped(uint32_t capacity)
{
    return OKV_LOCAL_RING_BYTES + 2 * (size_t)capacity;
}

/* The capacity for messages of `slot_size` bytes: room for two of them. */
uint32_t okv_local_ring_capacity(uint32_t slot_size);

/* Server: makes the rings and maps them; `*fd`, for the client, is the caller's. The server
 * waits: the client's first message wakes it. OKV_EUNSUPPORTED for messages too large, OKV_EPERM
 * (descriptors), OKV_ENOMEM, OKV_EIO. */
int okv_local_ring_create(uint32_t slot_size, struct okv_local_ring *ring, int *fd);
/* Server: whether there are no holes in the rings and nobody can make any. Takes no lock that the
 * client may hold. */
bool okv_local_ring_has_no_holes(int fd);
/* Client: maps the rings that a server made, and seals them. OKV_EPROTO for memory that holds no
 * rings. */
int okv_local_ring_map(int fd, struct okv_local_ring *ring);
/* Server: makes the memory for values. OKV_EPERM (descriptors), OKV_ENOMEM, OKV_EIO. */
int okv_local_values_create(int *fd);
/* Client: OKV_EPROTO for a descriptor of anything else. */
int okv_local_values_check(int fd);
/* Does nothing when no memory is mapped. */
void okv_local_ring_unmap(struct okv_local_ring *ring);
/* Sets up one side's view of memory that is mapped already. */
void okv_local_ring_attach(struct okv_local_ring *ring, void *memory, uint32_t capacity,
                           bool is_client);

/* Puts a message into the ring, for the next publish. OKV_EAGAIN: there is no room, and the peer
 * is asked to wake us when there is. OKV_EPROTO: the peer claims to have taken more than was
 * there. */
int okv_local_ring_put(struct okv_local_ring *ring, const uint8_t *bytes, uint32_t length,
                       uint32_t immediate);
/* Shows the peer the messages that were put. True: wake it. */
bool okv_local_ring_publish(struct okv_local_ring *ring);

/* True when take would find no message. */
static inline bool okv_local_ring_is_quiet(const struct okv_local_ring *ring)
{
    return atomic_load_explicit(&ring->peer->published, memory_order_seq_cst) == ring->taken;
}

/* Copies the next message to `to`. Returns 1, or 0 when there is none; OKV_EPROTO for one of more
 * than `size` bytes, and for positions or lengths that make no sense. */
int okv_local_ring_take(struct okv_local_ring *ring, uint8_t *to, uint32_t size, uint32_t *length,
                        uint32_t *immediate);
/* Lets the peer reuse the room of the taken messages. True: wake it. */
bool okv_local_ring_release(struct okv_local_ring *ring);

/* Asks the peer to wake us for messages. False: there are some, or the peer's position makes no
 * sense. */
bool okv_local_ring_wait(struct okv_local_ring *ring);
/* The peer need not wake us any more. */
void okv_local_ring_stop_waiting(struct okv_local_ring *ring);
/* The peer is gone: no message follows the published ones. */
void okv_local_ring_end(struct okv_local_ring *ring);

/* The code for a system call that failed to make, fill or pass a memfd. */
int okv_local_error(int errnum);

#endif
