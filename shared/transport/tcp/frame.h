/*
 * Frames: what both sides of a connection send, one after the other (docs/protocol-tcp.md). A frame
 * is a header of OKV_TCP_HEADER bytes, and for some kinds a body of `length` bytes.
 */
#ifndef OKV_SHARED_TRANSPORT_TCP_FRAME_H
#define OKV_SHARED_TRANSPORT_TCP_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OKV_TCP_HEADER 16u

/* `value` of a handshake's frames: "okvT", and the version of the frames. */
#define OKV_TCP_MAGIC UINT64_C(0x54766b6f)
#define OKV_TCP_VERSION UINT64_C(1)
#define OKV_TCP_GREETING (OKV_TCP_MAGIC | OKV_TCP_VERSION << 32)

enum okv_tcp_kind {
    OKV_TCP_HELLO = 1,   /* client; body; value: OKV_TCP_GREETING */
    OKV_TCP_WELCOME = 2, /* server; likewise */
    OKV_TCP_REJECT = 3,  /* server; likewise */
    OKV_TCP_MESSAGE = 4, /* both; body; value: the immediate */
    OKV_TCP_READ = 5,    /* client: wants `length` bytes at offset `value`, in `slot` */
    OKV_TCP_DATA = 6,    /* server: the body is what the READ in `slot` wants */
    OKV_TCP_FETCH = 7,   /* server: wants `length` bytes of the buffer with key `value` % 2^32 at
                            `value` / 2^32, in `slot` */
    OKV_TCP_PIECE = 8,   /* client: the body is what the FETCH in `slot` wants */
    OKV_TCP_REFUSAL = 9, /* client: there is no such buffer */
    OKV_TCP_LIFE = 10,   /* both: nothing, which the receiver's kernel acknowledges */
    OKV_TCP_BARE = 11,   /* client: wants `length` zeros as the data of `slot` */
};

struct okv_tcp_frame {
    uint8_t kind;
    uint16_t slot;
    uint32_t length;
    uint64_t value;
};

void okv_tcp_frame_put(uint8_t header[OKV_TCP_HEADER], const struct okv_tcp_frame *frame);
/* OKV_EPROTO: no such frame exists. The length of a body is not checked. */
int okv_tcp_frame_get(const uint8_t header[OKV_TCP_HEADER], struct okv_tcp_frame *frame);
/* Whether `length` bytes follow the header. */
bool okv_tcp_frame_has_body(const struct okv_tcp_frame *frame);
/* What a peer that speaks another protocol speaks, by its first bytes: "TLS", "HTTP", "the protocol
 * of Redis", or NULL. */
const char *okv_tcp_frame_other_protocol(const uint8_t *bytes, size_t length);

#endif
