/*
 * The two rings of a local connection, in memory that both sides have mapped: one for each
 * direction, and nothing but bytes; no system call but to make and map them. Only
 * transport_local*.c and tests include this. docs/format.md section 7 has the offsets.
 *
 * A sender puts messages into its ring, then publishes how far it has come: a position in bytes,
 * modulo 2^32. The receiver looks at that, copies messages out, and says how much it has taken.
 * Each position is written by one side.
 *
 * The peer is not trusted with any of it: it may write anything anywhere at any time. What is in
 * the memory is read once, into a variable, and checked there; the bytes of a message are copied
 * before anybody looks at them. What we have written or taken ourselves we remember, and never
 * read back. The memory is sealed against shrinking and all of it is there from the beginning.
 *
 * Sleeping. Who waits says so in `wants`, then looks once more; who publishes or takes looks at
 * `wants` after it. Both steps are sequentially consistent, so that one of the two sees the other.
 * Who finds that its peer waits takes the wish away and says "wake it" to its caller, once.
 */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_RING_H
#define OKV_SHARED_TRANSPORT_LOCAL_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OKV_LOCAL_RING_MAGIC 0x52766b6fu /* "okvR" */
#define OKV_LOCAL_RING_FORMAT 1u
/* Where the bytes begin: the client's ring, and the server's behind it. */
#define OKV_LOCAL_RING_BYTES 4096u
#define OKV_LOCAL_RING_MIN 4096u           /* the smallest capacity, a power of two like all */
#define OKV_LOCAL_RING_MAX (16u << 20)     /* the largest */
#define OKV_LOCAL_RING_RECORD 8u           /* length u32 | immediate u32, before each message */
#define OKV_LOCAL_RING_SLOT_MAX (8u << 20) /* the largest message */

enum okv_local_ring_wish {
    OKV_LOCAL_RING_MESSAGES = 1, /* wake me when you publish */
    OKV_LOCAL_RING_ROOM = 2,     /* wake me when you have taken */
};

/* What one side says. Each field has a cache line, as each is written at other times. */
struct okv_local_ring_side {
    alignas(64) _Atomic uint32_t published; /* bytes that it put into its ring */
    alignas(64) _Atomic uint32_t taken;     /* bytes that it took out of its peer's */
    alignas(64) _Atomic uint32_t wants;     /* wishes; the peer takes away those that it grants */
};

/* The beginning of the memory. */
struct okv_local_ring_page {
    uint32_t magic;
    uint32_t format;
    uint32_t capacity; /* bytes of each ring */
    uint32_t reserved;
    struct okv_local_ring_side client, server;
};

_Static_assert(offsetof(struct okv_local_ring_page, capacity) == 8, "section 7");
_Static_assert(offsetof(struct okv_local_ring_page, client.published) == 64, "section 7");
_Static_assert(offsetof(struct okv_local_ring_page, client.taken) == 128, "section 7");
_Static_assert(offsetof(struct okv_local_ring_page, client.wants) == 192, "section 7");
_Static_assert(offsetof(struct okv_local_ring_page, server.published) == 256, "section 7");
_Static_assert(offsetof(struct okv_local_ring_page, server.taken) == 320, "section 7");
_Static_assert(offsetof(struct okv_local_ring_page, server.wants) == 384, "section 7");
_Static_assert(sizeof(struct okv_local_ring_page) <= OKV_LOCAL_RING_BYTES, "section 7");
_Static_assert(sizeof(_Atomic uint32_t) == 4 && ATOMIC_INT_LOCK_FREE == 2, "between processes");

/* One side's view of both rings; its thread's alone. */
struct okv_local_ring {
    struct okv_local_ring_page *page; /* NULL: none */
    struct okv_local_ring_side *own, *peer;
    uint8_t *out;
    uint8_t *in;
    uint32_t capacity;
    uint32_t written; /* into `out`; what is beyond `published` the peer does not know of */
    uint32_t published;
    uint32_t peer_taken; /* of `out`, as we last saw it */
    uint32_t taken;      /* of `in` */
    uint32_t told;       /* of that, what the peer knows */
    uint32_t there;      /* the end of what is in `in`, as we last saw it */
    bool has_ended;      /* the peer writes no more: `there` is the end of it */
};

/* The capacity for messages of `slot_size` bytes: room for two of them. */
uint32_t okv_local_ring_capacity(uint32_t slot_size);

/* Server: makes the memory and maps it; `*fd`, for the client, is the caller's. OKV_EUNSUPPORTED
 * for messages too large, OKV_EPERM (descriptors), OKV_ENOMEM, OKV_EIO. */
int okv_local_ring_create(uint32_t slot_size, struct okv_local_ring *ring, int *fd);
/* Client: maps what a server made. OKV_EPROTO for memory that is nothing of the kind. */
int okv_local_ring_map(int fd, struct okv_local_ring *ring);
/* Does nothing when there is none. */
void okv_local_ring_unmap(struct okv_local_ring *ring);
/* One side's view of memory that is mapped already. */
void okv_local_ring_attach(struct okv_local_ring *ring, void *memory, uint32_t capacity,
                           bool is_client);

/* Puts a message into the ring, for the next publish. OKV_EAGAIN: there is no room, and the peer
 * is asked to say when there is; OKV_EPROTO: the peer took what was never there. */
int okv_local_ring_put(struct okv_local_ring *ring, const uint8_t *bytes, uint32_t length,
                       uint32_t immediate);
/* Shows the peer what was put. True: wake it. */
bool okv_local_ring_publish(struct okv_local_ring *ring);

/* Whether take would find nothing. */
static inline bool okv_local_ring_is_quiet(const struct okv_local_ring *ring)
{
    return atomic_load_explicit(&ring->peer->published, memory_order_seq_cst) == ring->taken;
}

/* Copies the next message to `to`. 1; 0: there is none now; OKV_EPROTO for one of more than `size`
 * bytes, and for positions or lengths that make no sense. */
int okv_local_ring_take(struct okv_local_ring *ring, uint8_t *to, uint32_t size, uint32_t *length,
                        uint32_t *immediate);
/* Lets the peer use the room of what was taken. True: wake it. */
bool okv_local_ring_release(struct okv_local_ring *ring);

/* Asks the peer to wake us for messages; false: there are some, or the peer lies. */
bool okv_local_ring_rest(struct okv_local_ring *ring);
/* Takes that wish back. */
void okv_local_ring_rise(struct okv_local_ring *ring);
/* The peer is gone: what it has published by now is all. */
void okv_local_ring_end(struct okv_local_ring *ring);

#endif
