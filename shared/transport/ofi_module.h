/* The ofi transport, which is a library of its own. */
#ifndef OKV_SHARED_TRANSPORT_OFI_MODULE_H
#define OKV_SHARED_TRANSPORT_OFI_MODULE_H

#include "shared/transport/transport.h"

/* The table of its operations. Without the library, a table whose listen and connect_start fail
 * with a sentence. Loads the library at the first call, any thread; it stays loaded. */
const struct okv_transport_ops *okv_ofi_module(void);
bool okv_ofi_module_is_there(void);

#endif
