/* A provider that is open, and memory for it. */
#ifndef OKV_SHARED_TRANSPORT_OFI_FABRIC_H
#define OKV_SHARED_TRANSPORT_OFI_FABRIC_H

#include "shared/transport/ofi/ofi.h"

/* Opens fabric->info, which is freed on failure. */
int okv_ofi_fabric_open(struct ofi_fabric *fabric, struct okv_diag *diag);
/* Does nothing to a fabric that is not open. */
void okv_ofi_fabric_close(struct ofi_fabric *fabric);
/* libfabric's name of the provider, "tcp;ofi_rxm". */
const char *okv_ofi_fabric_name(const struct ofi_fabric *fabric);
/* The code for a negative result of libfabric. */
int okv_ofi_error(ssize_t rc);

/* Registers memory; `access` is that of fi_mr_reg(3), such as FI_REMOTE_READ. */
int okv_ofi_region_open(const struct ofi_fabric *fabric, const void *base, size_t length,
                        uint64_t access, struct ofi_region *out, struct okv_diag *diag);
/* False when the provider keeps it: the memory has to stay. */
bool okv_ofi_region_close(struct ofi_region *region);
int okv_ofi_slab_create(const struct ofi_fabric *fabric, unsigned count, size_t slot_size,
                        uint64_t access, struct ofi_slab *out, struct okv_diag *diag);
/* Accepts a zeroed slab. */
void okv_ofi_slab_destroy(struct ofi_slab *slab);

int okv_ofi_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                            struct okv_memory **out);
void okv_ofi_memory_unregister(struct okv_memory *memory);

#endif
