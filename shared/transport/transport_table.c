#include "shared/stream/stream.h"
#include "shared/transport/ofi_module.h"

const struct okv_transport_ops *okv_transport_for(enum okv_scheme scheme)
{
    switch (scheme) {
    case OKV_SCHEME_RDMA:
        return &okv_transport_verbs;
    case OKV_SCHEME_OFI:
        return okv_ofi_module();
    case OKV_SCHEME_TCP:
        return &okv_transport_tcp;
    case OKV_SCHEME_LOCAL:
        return &okv_transport_local;
    case OKV_SCHEME_RESP: /* no transport: server/resp/ */
        break;
    }
    return NULL;
}

const char *okv_transport_names(void)
{
    static const char *const names[2][2] = {
        {"rdma, tcp, local", "rdma, tcp, tcps, local"},
        {"rdma, ofi, tcp, local", "rdma, ofi, tcp, tcps, local"},
    };

    return names[okv_ofi_module_is_there()][okv_tls_is_there()];
}
