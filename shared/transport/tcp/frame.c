#include "shared/transport/tcp/frame.h"

#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

/* length u32 | kind u8 | 0 | slot u16 | value u64 */
enum { AT_LENGTH = 0, AT_KIND = 4, AT_ZERO = 5, AT_SLOT = 6, AT_VALUE = 8 };

/* What a kind has. */
static const struct {
    bool is_known, has_length, has_body, has_slot, has_value;
} kinds[] = {
    [OKV_TCP_HELLO] = {true, true, true, false, true},
    [OKV_TCP_WELCOME] = {true, true, true, false, true},
    [OKV_TCP_REJECT] = {true, true, true, false, true},
    [OKV_TCP_MESSAGE] = {true, true, true, false, true},
    [OKV_TCP_READ] = {true, true, false, true, true},
    [OKV_TCP_DATA] = {true, true, true, true, false},
    [OKV_TCP_FETCH] = {true, true, false, true, true},
    [OKV_TCP_PIECE] = {true, true, true, true, false},
    [OKV_TCP_REFUSAL] = {true, false, false, true, false},
    [OKV_TCP_LIFE] = {true, false, false, false, false},
    [OKV_TCP_BARE] = {true, true, false, true, false},
};

#define KINDS (sizeof kinds / sizeof kinds[0])

void okv_tcp_frame_put(uint8_t header[OKV_TCP_HEADER], const struct okv_tcp_frame *frame)
{
    okv_put_u32(header + AT_LENGTH, frame->length);
    header[AT_KIND] = frame->kind;
    header[AT_ZERO] = 0;
    okv_put_u16(header + AT_SLOT, frame->slot);
    okv_put_u64(header + AT_VALUE, frame->value);
}

static bool is_greeting(uint8_t kind)
{
    return kind == OKV_TCP_HELLO || kind == OKV_TCP_WELCOME || kind == OKV_TCP_REJECT;
}

int okv_tcp_frame_get(const uint8_t header[OKV_TCP_HEADER], struct okv_tcp_frame *frame)
{
    *frame = (struct okv_tcp_frame){.kind = header[AT_KIND],
                                    .slot = okv_get_u16(header + AT_SLOT),
                                    .length = okv_get_u32(header + AT_LENGTH),
                                    .value = okv_get_u64(header + AT_VALUE)};
    if (frame->kind >= KINDS || !kinds[frame->kind].is_known || header[AT_ZERO])
        return OKV_EPROTO;
    if ((!kinds[frame->kind].has_length && frame->length) ||
        (!kinds[frame->kind].has_slot && frame->slot) ||
        (!kinds[frame->kind].has_value && frame->value))
        return OKV_EPROTO;
    if (is_greeting(frame->kind) && frame->value != OKV_TCP_GREETING)
        return OKV_EPROTO;
    if (frame->kind == OKV_TCP_MESSAGE && frame->value > UINT32_MAX)
        return OKV_EPROTO;
    return 0;
}

bool okv_tcp_frame_has_body(const struct okv_tcp_frame *frame)
{
    return kinds[frame->kind].has_body;
}

const char *okv_tcp_frame_other_protocol(const uint8_t *bytes, size_t length)
{
    static const struct {
        const char *begin, *name;
    } others[] = {
        {"\x16\x03", "TLS"}, /* a handshake, an alert: RFC 8446 */
        {"\x15\x03", "TLS"},
        {"GET ", "HTTP"},
        {"HEAD ", "HTTP"},
        {"POST ", "HTTP"},
        {"PUT ", "HTTP"},
        {"OPTIONS ", "HTTP"},
        {"CONNECT ", "HTTP"},
        {"PRI *", "HTTP"},
        {"HTTP/", "HTTP"},
        {"*", "the protocol of Redis"},
        {"PING", "the protocol of Redis"},
        {"-ERR okv's tcps", "TLS"},
        {"-ERR", "the protocol of Redis"},
    };

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        size_t wanted = strlen(others[i].begin);
        if (length >= wanted && memcmp(bytes, others[i].begin, wanted) == 0)
            return others[i].name;
    }
    return NULL;
}
