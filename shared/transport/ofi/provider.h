/* Which provider of libfabric a fabric has. */
#ifndef OKV_SHARED_TRANSPORT_OFI_PROVIDER_H
#define OKV_SHARED_TRANSPORT_OFI_PROVIDER_H

#include "shared/transport/ofi/ofi.h"

/* Sets libfabric's environment and opens its providers, once in a process. This takes a time that
 * no deadline of a connect should have to cover: the verbs provider of 1.17 reads all symbols of
 * the kernel. The loader of this library calls it, by name. */
void okv_ofi_prepare(void);
/* For okv doctor, which looks it up by name: the known providers that this host has at any address,
 * best first: "verbs, net, tcp", or "none". */
void okv_ofi_providers(char *out, size_t size);
/* What is to be said where a provider is missing, "" or with an end "; ": libfabric leaves out
 * those that FI_PROVIDER does not name. */
void okv_ofi_provider_filter(struct okv_diag *out);

/* Opens a provider at the local address `host`, which is numeric: the one of this name, or with ""
 * the best that opens. A server's has passed okv_ofi_protection_check(), and is safe for several
 * threads. OKV_EUNSUPPORTED (unknown, or writable by peers), OKV_ENODEVICE (not here), or a code of
 * libfabric; the sentence is about the best provider that is here. */
int okv_ofi_provider_open(const char *provider, const char *host, bool is_server,
                          struct ofi_fabric *out, struct okv_diag *diag);

#endif
