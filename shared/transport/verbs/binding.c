#include "shared/transport/verbs/binding.h"

#include <string.h>

struct wire_binding {
    uint8_t client_gid[16], server_gid[16];
    okv_le32 client_qp;
    okv_le16 port;
};
_Static_assert(sizeof(struct wire_binding) == 38, "docs/protocol.md section 1.4");

/* The GIDs are those of the request itself. What rdma_get_peer_addr() tells is only the client's
 * word. */
void okv_verbs_binding(struct rdma_cm_id *id, bool is_client, uint32_t qp_num,
                       struct okv_binding *out)
{
    struct wire_binding wire = {.client_qp = okv_le32_of(qp_num)};
    uint8_t *near = is_client ? wire.client_gid : wire.server_gid;
    uint8_t *far = is_client ? wire.server_gid : wire.client_gid;

    if (id->route.num_paths > 0) {
        memcpy(near, id->route.path_rec[0].sgid.raw, 16);
        memcpy(far, id->route.path_rec[0].dgid.raw, 16);
    }
    wire.port = okv_le16_of(ntohs(is_client ? rdma_get_dst_port(id) : rdma_get_src_port(id)));
    memcpy(out->bytes, &wire, sizeof wire);
    out->length = sizeof wire;
}
