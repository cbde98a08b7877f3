/* Descriptors of libfabric, which opens them without close-on-exec. */
#ifndef OKV_SHARED_TRANSPORT_OFI_DESCRIPTORS_H
#define OKV_SHARED_TRANSPORT_OFI_DESCRIPTORS_H

#include "shared/transport/ofi/ofi.h"

/* Has those of a client's connection, which stands, close in a program that the process executes.
 * Those that cannot be told from descriptors of the application stay as they are. */
void okv_ofi_descriptors_close_on_exec(const struct ofi_conn *conn);

#endif
