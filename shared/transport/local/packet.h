/* Packets of a local socket, received without their descriptors. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_PACKET_H
#define OKV_SHARED_TRANSPORT_LOCAL_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

/* Receives the next packet. Returns its length; 0 also at the end of the stream. `*is_cut`: it was
 * longer than the vectors. -1 with errno; EPROTO: it has descriptors, and is still there. */
ssize_t okv_local_packet_receive(int sock, struct iovec *vectors, size_t count, bool *is_cut);
/* Receives the next packet into nothing. Closes its descriptors, so these must be known. */
void okv_local_packet_drop(int sock);
/* Makes the kernel refuse descriptors to senders, if it can. */
void okv_local_refuse_descriptors(int sock);

#endif
