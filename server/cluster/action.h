/* What the parts of the protocol tell the driver. */
#ifndef OKV_SERVER_CLUSTER_ACTION_H
#define OKV_SERVER_CLUSTER_ACTION_H

#include "server/cluster/protocol.h"

/* One more, of zeros. An event has at most three a peer and ten others. */
struct okv_protocol_action *okv_action_add(struct okv_protocol *protocol,
                                           enum okv_protocol_action_type type);
void okv_action_position(struct okv_protocol *protocol, enum okv_protocol_action_type type,
                         uint64_t position);
void okv_action_server(struct okv_protocol *protocol, enum okv_protocol_action_type type,
                       uint64_t server);
/* A message of this epoch to fill in. */
struct okv_peer_message *okv_action_send(struct okv_protocol *protocol, uint64_t server,
                                         enum okv_peer_message_type type);

#endif
