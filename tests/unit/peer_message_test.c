/* The bytes of docs/protocol-peers.md section 2, and what a peer may send in their place. A change
 * here changes the format and needs a new number. */
#include "tests/support/test.h"

#include "server/cluster/message.h"
#include "shared/base/error.h"

static const struct okv_peer_letter join = {
    .server = 0x1817161514131211,
    .options = 0x2827262524232221,
    .rest = 0x9897969594939291,
    .users = 0x3837363534333231,
    .message =
        {
            .type = OKV_PEER_JOIN,
            .flags = 0x34333231,
            .epoch = 0x0807060504030201,
            .sent_us = 0x4847464544434241,
            .from = 0x5857565554535251,
            .to = 0x6867666564636261,
            .published = 0x7877767574737271,
            .incarnation = 0x8887868584838281,
            .epochs = {.count = 2, .of = {{0xa1, 0xb8b7b6b5b4b3b2b1}, {0xc2c1, 0xd1}}},
        },
};

static const uint8_t join_bytes[] = "\x01\x00\x00\x02"
                                    "\x31\x32\x33\x34"
                                    "\x11\x12\x13\x14\x15\x16\x17\x18"
                                    "\x21\x22\x23\x24\x25\x26\x27\x28"
                                    "\x01\x02\x03\x04\x05\x06\x07\x08"
                                    "\x41\x42\x43\x44\x45\x46\x47\x48"
                                    "\x51\x52\x53\x54\x55\x56\x57\x58"
                                    "\x61\x62\x63\x64\x65\x66\x67\x68"
                                    "\x71\x72\x73\x74\x75\x76\x77\x78"
                                    "\x81\x82\x83\x84\x85\x86\x87\x88"
                                    "\x91\x92\x93\x94\x95\x96\x97\x98"
                                    "\x31\x32\x33\x34\x35\x36\x37\x38"
                                    "\xa1\0\0\0\0\0\0\0"
                                    "\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8"
                                    "\xc1\xc2\0\0\0\0\0\0"
                                    "\xd1\0\0\0\0\0\0";

/* In memory of exactly its length, so that a sanitizer sees what reaches past it. */
static int decode(const uint8_t *bytes, size_t length, struct okv_peer_letter *out)
{
    uint8_t *exact = malloc(length ? length : 1);

    assert_non_null(exact);
    memcpy(exact, bytes, length);
    int rc = okv_peer_letter_decode(exact, length, out);
    free(exact);
    return rc;
}

static void expect_same(const struct okv_peer_letter *letter, const struct okv_peer_letter *back)
{
    const struct okv_peer_message *a = &letter->message, *b = &back->message;

    assert_int_equal(back->server, letter->server);
    assert_int_equal(back->options, letter->options);
    assert_int_equal(back->rest, letter->rest);
    assert_int_equal(back->users, letter->users);
    assert_int_equal(b->type, a->type);
    assert_int_equal(b->flags, a->flags);
    assert_int_equal(b->epoch, a->epoch);
    assert_int_equal(b->sent_us, a->sent_us);
    assert_int_equal(b->from, a->from);
    assert_int_equal(b->to, a->to);
    assert_int_equal(b->published, a->published);
    assert_int_equal(b->incarnation, a->incarnation);
    assert_int_equal(b->epochs.count, a->epochs.count);
    for (unsigned i = 0; i < a->epochs.count; i++) {
        assert_int_equal(b->epochs.of[i].epoch, a->epochs.of[i].epoch);
        assert_int_equal(b->epochs.of[i].begin, a->epochs.of[i].begin);
    }
}

TEST(a_message_has_these_bytes)
{
    uint8_t bytes[OKV_PEER_MESSAGE_MAX];
    struct okv_peer_letter back;

    assert_int_equal(okv_peer_letter_encode(&join, bytes), sizeof join_bytes);
    assert_memory_equal(bytes, join_bytes, sizeof join_bytes);
    assert_int_equal(decode(join_bytes, sizeof join_bytes, &back), 0);
    expect_same(&join, &back);
}

TEST(a_beat_has_the_clock_of_the_copy_where_a_join_has_users)
{
    struct okv_peer_letter beat = join, back;
    uint8_t bytes[OKV_PEER_MESSAGE_MAX];

    beat.message.type = OKV_PEER_BEAT;
    beat.message.copy_us = 0x4746454443424140;
    okv_peer_letter_encode(&beat, bytes);
    assert_memory_equal(bytes + 80, "\x40\x41\x42\x43\x44\x45\x46\x47", 8);
    assert_int_equal(decode(bytes, sizeof join_bytes, &back), 0);
    assert_int_equal(back.message.copy_us, beat.message.copy_us);
    assert_int_equal(back.users, 0);
}

TEST(types_have_these_numbers)
{
    static const enum okv_peer_message_type types[] = {
        OKV_PEER_JOIN, OKV_PEER_JOINED,   OKV_PEER_SHIP, OKV_PEER_BEAT,
        OKV_PEER_ACK,  OKV_PEER_RELEASED, OKV_PEER_PIECE};
    struct okv_peer_letter letter = {.server = 7}, back;
    uint8_t bytes[OKV_PEER_MESSAGE_MAX];

    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        letter.message.type = types[i];
        assert_int_equal(okv_peer_letter_encode(&letter, bytes), 88);
        assert_int_equal(bytes[2], i);
        assert_int_equal(decode(bytes, 88, &back), 0);
        expect_same(&letter, &back);
    }
    assert_int_equal(OKV_PEER_REFUSED, 1);
    assert_int_equal(OKV_PEER_SNAPSHOT, 2);
    assert_int_equal(OKV_PEER_FULL, 4);
    assert_int_equal(OKV_PEER_LAST, 8);
}

/* The longest is a header of a request, and the value of a reply. */
TEST(as_many_epochs_as_there_can_be)
{
    struct okv_peer_letter letter = join, back;
    uint8_t bytes[OKV_PEER_MESSAGE_MAX + 16];

    letter.message.epochs.count = OKV_EPOCHS_MAX;
    for (unsigned i = 0; i < OKV_EPOCHS_MAX; i++) {
        letter.message.epochs.of[i].epoch = i + 1;
        letter.message.epochs.of[i].begin = 100 * i;
    }
    assert_int_equal(okv_peer_letter_encode(&letter, bytes), OKV_PEER_MESSAGE_MAX);
    assert_int_equal(OKV_PEER_MESSAGE_MAX, 344);
    assert_int_equal(decode(bytes, OKV_PEER_MESSAGE_MAX, &back), 0);
    expect_same(&letter, &back);
    memset(bytes + OKV_PEER_MESSAGE_MAX, 0, 16);
    bytes[3] = OKV_EPOCHS_MAX + 1;
    assert_int_equal(decode(bytes, sizeof bytes, &back), OKV_EPROTO);
}

TEST(messages_that_make_no_sense)
{
    uint8_t bytes[sizeof join_bytes + 16];
    struct okv_peer_letter back;

    memcpy(bytes, join_bytes, sizeof join_bytes);
    memset(bytes + sizeof join_bytes, 0, 16);
    for (size_t length = 0; length <= sizeof bytes; length++)
        assert_int_equal(decode(bytes, length, &back),
                         length == sizeof join_bytes ? 0 : OKV_EPROTO);
    for (unsigned type = 0; type < 256; type++) {
        bytes[2] = (uint8_t)type;
        assert_int_equal(decode(bytes, sizeof join_bytes, &back), type <= 6 ? 0 : OKV_EPROTO);
    }
    bytes[2] = 0;
    for (unsigned count = 0; count < 256; count++) {
        bytes[3] = (uint8_t)count;
        assert_int_equal(decode(bytes, sizeof join_bytes, &back), count == 2 ? 0 : OKV_EPROTO);
    }
}

TEST(another_format_is_told_from_nonsense)
{
    uint8_t bytes[sizeof join_bytes];
    struct okv_peer_letter back;

    memcpy(bytes, join_bytes, sizeof bytes);
    for (unsigned format = 0; format < 1000; format++) {
        bytes[0] = (uint8_t)format;
        bytes[1] = (uint8_t)(format >> 8);
        assert_int_equal(decode(bytes, sizeof bytes, &back), format == 1 ? 0 : OKV_EVERSION);
    }
    assert_int_equal(decode(bytes, 79, &back), OKV_EPROTO);
}
