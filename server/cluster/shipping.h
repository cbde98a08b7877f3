/* A primary's messages to its copies, and what their replies tell it. */
#ifndef OKV_SERVER_CLUSTER_SHIPPING_H
#define OKV_SERVER_CLUSTER_SHIPPING_H

#include "server/cluster/protocol.h"

void okv_shipping_connected(struct okv_protocol *protocol, uint64_t server, uint64_t now_us);
void okv_shipping_lost(struct okv_protocol *protocol, uint64_t server);
/* JOINED and ACK. */
void okv_shipping_reply(struct okv_protocol *protocol, uint64_t server,
                        const struct okv_peer_message *message, uint64_t now_us);
/* Sends each copy what it lacks; with `beat`, something in any case. */
void okv_shipping_send(struct okv_protocol *protocol, bool beat, uint64_t now_us);

#endif
