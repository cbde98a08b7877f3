/* The TCP connection beside the fabric: frames, the end, the death of the host. */
#ifndef OKV_SHARED_TRANSPORT_OFI_CONTROL_H
#define OKV_SHARED_TRANSPORT_OFI_CONTROL_H

#include "shared/transport/ofi/wire.h"

/* Makes the kernel find a dead host by itself. */
int okv_ofi_control_prepare(int sock);
/* Sends all of a frame; the socket's buffer has room for it. */
int okv_ofi_control_send(int sock, const struct ofi_frame *frame);
/* Receives what has come of a frame; `*got` bytes came before. 1 when it is complete and valid, 0
 * when bytes are missing, OKV_EDISCONNECTED, OKV_EPROTO for anything else than a frame,
 * OKV_EVERSION. */
int okv_ofi_control_receive(int sock, struct ofi_frame *frame, size_t *got);
/* Whether the peer's host has answered within the last two seconds. */
bool okv_ofi_control_is_alive(int sock);
/* 0 while the connection stands, else why it ended. */
int okv_ofi_control_check(int sock);

#endif
