/* Registered memory: the handle's own and the caller's. */
#ifndef OKV_CLIENT_ENGINE_MEMORY_H
#define OKV_CLIENT_ENGINE_MEMORY_H

#include "client/handle.h"

/* Registers what READs land in with the endpoint of the connection: the arena, which is made
 * anew when buckets have another size, and the caller's memory. */
int memory_attach(okv *handle, uint32_t bucket_size);
/* Takes all memory from the connection; bounce buffers and advertised buffers go. No READ reaches
 * memory that is not registered: from here on it is ours, and the caller's, again. */
void memory_detach(okv *handle);
/* A buffer of at least `size` bytes. OKV_ENOMEM, or why it cannot be registered; *out is
 * then NULL. */
int bounce_take(okv *handle, size_t size, struct bounce **out);
void bounce_give_back(okv *handle, struct bounce *bounce);
/* The registration in which the buffer lies, whole; NULL when in none. */
const struct okv_registration *registration_find(const okv *handle, const uint8_t *base,
                                                 size_t length);
/* Frees all of it, after memory_detach(). */
void memory_destroy(okv *handle);

#endif
