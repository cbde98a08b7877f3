/* A buffer of bytes that grows, up to OKV_RESP_BUFFER_MAX. Starts as zeros. Bytes that it moves or
 * frees may be a password, and are wiped where they were. */
#ifndef OKV_SERVER_RESP_PROTO_BUFFER_H
#define OKV_SERVER_RESP_PROTO_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OKV_RESP_BUFFER_MAX (UINT64_C(512) << 20)

struct okv_resp_buffer {
    uint8_t *bytes;
    size_t used, capacity;
    size_t touched;  /* of mapped memory: whose pages the kernel has provided, as counted so far */
    size_t most;     /* that it may grow to; 0: OKV_RESP_BUFFER_MAX */
    bool has_failed; /* out of memory: nothing more is added */
};

/* Memory that grows from one size to another, as realloc() has it; `bytes` may be NULL. From
 * OKV_RESP_MAPPED_MIN on it consists of pages that move without a copy. */
#define OKV_RESP_MAPPED_MIN (128u << 10)
void *okv_resp_memory_grow(void *bytes, size_t from, size_t to);
void okv_resp_memory_free(void *bytes, size_t size);

/* Mapped memory that nobody needs any more. To unmap all of it at once would hold up others: its
 * worker unmaps it in steps. Starts as zeros. */
#define OKV_RESP_TRASH_STEP (1u << 20)
struct okv_resp_trash {
    struct okv_resp_trash_piece *first;
    size_t unmapped; /* bytes, since the caller set this to 0 */
};
/* Frees memory; `trash` takes what would be more than a step in all. */
void okv_resp_memory_discard(void *bytes, size_t size, struct okv_resp_trash *trash);
/* A step. Returns how many bytes are unmapped; 0: there is nothing. */
size_t okv_resp_trash_empty(struct okv_resp_trash *trash);

/* Bytes of mapped memory that were used for the first time since the last call: each page of them
 * was a page fault. */
size_t okv_resp_buffer_fresh(struct okv_resp_buffer *buffer);
void okv_resp_buffer_fini(struct okv_resp_buffer *buffer);
void okv_resp_buffer_discard(struct okv_resp_buffer *buffer, struct okv_resp_trash *trash);
/* Room for `bytes` after those that are used; NULL: it has failed. */
uint8_t *okv_resp_buffer_room(struct okv_resp_buffer *buffer, size_t bytes);
void okv_resp_buffer_add(struct okv_resp_buffer *buffer, const void *bytes, size_t length);
/* Removes bytes from the front, at most `length`; of mapped memory whole pages, so that the others
 * do not move. Returns how many. */
size_t okv_resp_buffer_drop(struct okv_resp_buffer *buffer, size_t length,
                            struct okv_resp_trash *trash);

#endif
