/* A buffer of bytes that grows, up to OKV_RESP_BUFFER_MAX. Starts as zeros. */
#ifndef OKV_SERVER_RESP_PROTO_BUFFER_H
#define OKV_SERVER_RESP_PROTO_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OKV_RESP_BUFFER_MAX (UINT64_C(512) << 20)

struct okv_resp_buffer {
    uint8_t *bytes;
    size_t used, capacity;
    size_t most;     /* that it may grow to; 0: OKV_RESP_BUFFER_MAX */
    bool has_failed; /* out of memory: nothing more is added */
};

void okv_resp_buffer_fini(struct okv_resp_buffer *buffer);
/* Room for `bytes` after those that are used; NULL: it has failed. */
uint8_t *okv_resp_buffer_room(struct okv_resp_buffer *buffer, size_t bytes);
void okv_resp_buffer_add(struct okv_resp_buffer *buffer, const void *bytes, size_t length);
/* Removes the first bytes. */
void okv_resp_buffer_drop(struct okv_resp_buffer *buffer, size_t length);

#endif
