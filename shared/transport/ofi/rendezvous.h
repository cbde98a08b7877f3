/* A client's advertised buffers, and the server's rendezvous reads of them. */
#ifndef OKV_SHARED_TRANSPORT_OFI_RENDEZVOUS_H
#define OKV_SHARED_TRANSPORT_OFI_RENDEZVOUS_H

#include "shared/transport/ofi/ofi.h"

int okv_ofi_advertise(struct okv_conn *conn, const void *base, size_t length,
                      struct okv_advert **out);
void okv_ofi_withdraw(struct okv_advert *advert, bool is_read);
int okv_ofi_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous);
/* Posts pieces, as many as may be under way. */
void okv_ofi_post_pieces(struct ofi_conn *conn);
/* A piece has ended. Returns 1 with an event when it was the last of its rendezvous read. */
int okv_ofi_complete_piece(struct ofi_conn *conn, unsigned index, int status,
                           struct okv_event *event);
/* Reports those of a closing connection; false when `events` is full or pieces are under way. */
bool okv_ofi_end_rendezvous_reads(struct ofi_conn *conn, struct okv_event *events, int max,
                                  int *count);

#endif
