/* A provider that is open, and memory for it. */
#ifndef OKV_SHARED_TRANSPORT_OFI_FABRIC_H
#define OKV_SHARED_TRANSPORT_OFI_FABRIC_H

#include "shared/transport/ofi/ofi.h"

/* An endpoint of its own, with an address table and a queue: for protection.c and bare.c. */
struct ofi_end {
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

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

/* Opens and enables a zeroed end for up to `peers` others. Returns 0 or libfabric's negative code;
 * on failure it has to be closed, too. */
int okv_ofi_end_open(const struct ofi_fabric *fabric, size_t peers, struct fi_cq_attr *queue,
                     struct ofi_end *end);
/* Accepts one that is partly open. False when the provider keeps its operations: it stays open. */
bool okv_ofi_end_close(struct ofi_end *end);

int okv_ofi_memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                            struct okv_memory **out);
void okv_ofi_memory_unregister(struct okv_memory *memory);

#endif
