/* Registered memory: the handle's own and the caller's. */
#ifndef OKV_CLIENT_ENGINE_MEMORY_H
#define OKV_CLIENT_ENGINE_MEMORY_H

#include "client/handle.h"

/* Registers the arena and the caller's memory with the endpoint of the connection. Allocates a new
 * arena when the bucket size has changed. */
int memory_attach(okv *handle, uint32_t bucket_size);
/* Unregisters all memory; frees bounce buffers and withdraws advertised buffers. No READ reaches
 * memory afterwards: the handle and the caller may reuse theirs. */
void memory_detach(okv *handle);
/* A buffer of at least `size` bytes. OKV_ENOMEM, or the failure of its registration; *out is then
 * NULL. */
int bounce_acquire(okv *handle, size_t size, struct bounce **out);
void bounce_release(okv *handle, struct bounce *bounce);
/* Registers the caller's memory. OKV_EAGAIN: there are REGISTRATIONS_MAX already; OKV_ENOMEM, or
 * the failure of the transport. */
int registration_create(okv *handle, void *base, size_t length, okv_registration **out);
void registration_destroy(okv *handle, okv_registration **registration);
/* The registration that contains the whole buffer, or NULL. */
const struct okv_registration *registration_find(const okv *handle, const uint8_t *base,
                                                 size_t length);
/* Frees everything; call memory_detach() first. */
void memory_destroy(okv *handle);
/* The same in a child of a fork, where the registrations are its parent's: leaves them alone. */
void memory_abandon(okv *handle);

#endif
