/* Fabrics of this host that okv cannot use yet: docs/fabrics.md, "Providers". */
#ifndef OKV_SHARED_DEVICES_FABRIC_H
#define OKV_SHARED_DEVICES_FABRIC_H

#include <stdbool.h>
#include <stddef.h>

/* Sets `out` to a device of such a fabric, as "EFA (efa_0)"; false: there is none. `root` precedes
 * /sys; it is "" except in tests. */
bool okv_unused_fabric(const char *root, char *out, size_t size);

#endif
