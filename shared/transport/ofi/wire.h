/*
 * The bytes that the two sides of an ofi connection share: docs/protocol-transports.md section 5.
 *
 * The control connection is TCP. It carries four frames, each a header and a body of fixed size;
 * after them it carries nothing, and its end is the connection's. Messages travel over the fabric,
 * each after a header of its own.
 */
#ifndef OKV_SHARED_TRANSPORT_OFI_WIRE_H
#define OKV_SHARED_TRANSPORT_OFI_WIRE_H

#include <string.h>

#include "shared/transport/transport.h"

#define OFI_MAGIC UINT32_C(0x49464f4b) /* "KOFI" */
#define OFI_VERSION 1
#define OFI_PROVIDER_MAX 32 /* with its NUL */
#define OFI_NAME_MAX 64     /* bytes of an endpoint's address */

enum ofi_frame_kind {
    OFI_GREETING = 1, /* server: the provider that its endpoints use */
    OFI_HELLO,        /* client: where its endpoint is */
    OFI_WELCOME,      /* server: where the worker's endpoint and the region are */
    OFI_REJECT,       /* server: why not */
};

struct ofi_frame_header {
    okv_le32 magic;
    uint8_t version;
    uint8_t kind;
    okv_le16 length; /* of the body */
};
_Static_assert(sizeof(struct ofi_frame_header) == 8, "docs/protocol-transports.md section 5.1");

struct ofi_greeting {
    uint8_t provider[OFI_PROVIDER_MAX]; /* libfabric's name of it, filled up with zeros */
};
_Static_assert(sizeof(struct ofi_greeting) == 32, "docs/protocol-transports.md section 5.1");

/* Where to send messages: an endpoint's address, as fi_getname() returns it, and what their headers
 * must contain. */
struct ofi_place {
    okv_le64 key; /* random: messages without it are dropped */
    okv_le32 connection;
    uint8_t name_length;
    uint8_t reserved[3];
    uint8_t name[OFI_NAME_MAX];
};
_Static_assert(sizeof(struct ofi_place) == 80, "docs/protocol-transports.md section 5.1");

struct ofi_hello {
    struct ofi_place place;
    uint8_t length; /* of `bytes` */
    uint8_t reserved[7];
    uint8_t bytes[OKV_HELLO_MAX];
};
_Static_assert(sizeof(struct ofi_hello) == 144, "docs/protocol-transports.md section 5.1");

struct ofi_welcome {
    struct ofi_place place;
    okv_le64 region_address;
    okv_le64 region_key;
    okv_le64 region_length;
    uint8_t length; /* of `bytes` */
    uint8_t reserved[3];
    uint8_t bytes[OKV_WELCOME_MAX];
};
_Static_assert(sizeof(struct ofi_welcome) == 304, "docs/protocol-transports.md section 5.1");

struct ofi_reject {
    uint8_t length; /* of `bytes` */
    uint8_t reserved[3];
    uint8_t bytes[OKV_REJECT_MAX];
};
_Static_assert(sizeof(struct ofi_reject) == 152, "docs/protocol-transports.md section 5.1");

/* Any frame. */
struct ofi_frame {
    struct ofi_frame_header header;
    union {
        struct ofi_greeting greeting;
        struct ofi_hello hello;
        struct ofi_welcome welcome;
        struct ofi_reject reject;
    } body;
};

/* Precedes each message. */
struct ofi_message_header {
    okv_le64 key;        /* of the receiver's place */
    okv_le32 connection; /* of the receiver's place */
    okv_le32 immediate;
};
_Static_assert(sizeof(struct ofi_message_header) == 16, "docs/protocol-transports.md section 5.2");

/* Fills in the header and zeroes the body. */
void okv_ofi_frame_begin(struct ofi_frame *frame, enum ofi_frame_kind kind);
/* Bytes of a frame with its body, from its header; 0 for a header that is none of this version. */
size_t okv_ofi_frame_length(const struct ofi_frame_header *header);
/* True when the lengths inside the body lie in their ranges, unused bytes are zero, and the name of
 * the provider has only characters of such names. */
bool okv_ofi_frame_is_valid(const struct ofi_frame *frame);

/* What ties a connection to its client: the client's place. */
static inline void okv_ofi_binding(const struct ofi_place *place, struct okv_binding *out)
{
    _Static_assert(sizeof *place <= OKV_BINDING_MAX, "a place fits a binding");
    memcpy(out->bytes, place, sizeof *place);
    out->length = sizeof *place;
}

#endif
