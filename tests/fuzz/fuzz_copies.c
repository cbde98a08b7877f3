/* What a server takes from its peers and from etcd: frames of the log, messages, and documents. Any
 * bytes are refused, or mean what they mean when they are written again. */
#include "server/cluster/message.h"
#include "server/copies/documents.h"
#include "server/wal/copies/tail.h"
#include "server/wal/frame.h"
#include "shared/base/error.h"
#include "tests/fuzz/fuzz_input.h"

/* ---- frames ---- */

static void check_records(const struct okv_wal_tail_frame *frame)
{
    const uint64_t length = frame->frame.length;
    uint64_t at = OKV_WAL_FRAME_HEADER;
    struct okv_wal_record record;
    unsigned count = 0;

    while (at < length) {
        FUZZ_CHECK(okv_wal_record_decode(frame->bytes, length, &at, &record) == 0);
        FUZZ_CHECK(record.kind != OKV_WAL_LONG && record.kind != OKV_WAL_FORGOTTEN);
        if (record.kind == OKV_WAL_EPOCH) {
            FUZZ_CHECK(count == 0 && record.version == frame->frame.epoch);
            FUZZ_CHECK(okv_wal_tail_frame_begins_epoch(frame));
        }
        count++;
    }
    FUZZ_CHECK(at == length);
}

static void check_frame(const uint8_t *bytes, size_t length)
{
    struct okv_wal_tail_frame *frame;
    struct okv_wal_tail tail;

    if (okv_wal_tail_frame_decode(bytes, length, &frame))
        return;
    FUZZ_CHECK(frame->frame.length <= length && frame->frame.durable == 0);
    FUZZ_CHECK(frame->frame.epoch <= OKV_WAL_EPOCH_MAX);
    FUZZ_CHECK(okv_wal_tail_frame_end(frame) > frame->frame.position);
    FUZZ_CHECK(memcmp(frame->bytes, bytes, frame->frame.length) == 0);
    check_records(frame);
    okv_wal_tail_init(&tail, frame->frame.position, frame->frame.epoch);
    FUZZ_CHECK(okv_wal_tail_accepts(&tail, frame) != okv_wal_tail_frame_begins_epoch(frame));
    okv_wal_tail_append(&tail, frame);
    okv_wal_tail_fini(&tail);
}

/* Most have the right checksum, and the right length. */
static void take_frame(struct fuzz_input *input)
{
    uint8_t choice = fuzz_u8(input);
    struct okv_wal_frame frame = {.epoch = fuzz_u8(input)};
    size_t length;

    frame.position = 8 * fuzz_u8(input);
    if (choice & 1)
        frame.epoch = fuzz_number(input);
    if (choice & 2)
        frame.position = fuzz_number(input);
    if (choice & 4)
        frame.durable = fuzz_number(input);
    uint8_t *bytes = fuzz_bytes(input, 4096, &length);
    frame.length = choice & 8 ? length / 2 : length;
    if (length >= OKV_WAL_FRAME_HEADER && frame.length >= OKV_WAL_FRAME_HEADER && !(choice & 16))
        okv_wal_frame_seal(&frame, 0, bytes);
    check_frame(bytes, length);
    free(bytes);
}

/* ---- messages ---- */

static void take_letter(struct fuzz_input *input)
{
    uint8_t again[OKV_PEER_MESSAGE_MAX];
    struct okv_peer_letter letter;
    size_t length;
    uint8_t *bytes = fuzz_bytes(input, 2 * OKV_PEER_MESSAGE_MAX, &length);

    if (okv_peer_letter_decode(bytes, length, &letter) == 0) {
        FUZZ_CHECK(letter.message.epochs.count <= OKV_EPOCHS_MAX);
        FUZZ_CHECK(okv_peer_letter_encode(&letter, again) == length);
        FUZZ_CHECK(memcmp(again, bytes, length) == 0);
    }
    free(bytes);
}

/* ---- documents: each is written as a text that is read as the same ---- */

static void check_cluster(const uint8_t *bytes, size_t length)
{
    static struct okv_cluster_document document, again;

    if (!okv_document_read_cluster(bytes, length, &document))
        return;
    FUZZ_CHECK(document.copies_min >= 1 && document.copies_min <= document.copies);
    FUZZ_CHECK(document.copies <= OKV_COPIES_MAX && document.lease_ms >= 100);
    FUZZ_CHECK(document.database_count >= 1 && document.database_count <= OKV_DATABASES_MAX);
    char *text = okv_document_of_cluster(&document);
    FUZZ_CHECK(text && okv_document_read_cluster(text, strlen(text), &again));
    FUZZ_CHECK(again.database_count == document.database_count);
    FUZZ_CHECK(again.id == document.id && document.id != 0);
    FUZZ_CHECK(again.began_wall_ms == document.began_wall_ms);
    free(text);
}

static void check_server(const uint8_t *bytes, size_t length)
{
    static struct okv_server_document document, again;

    if (!okv_document_read_server(bytes, length, &document))
        return;
    char *text = okv_document_of_server(&document);
    FUZZ_CHECK(text && okv_document_read_server(text, strlen(text), &again));
    FUZZ_CHECK(memcmp(&document, &again, sizeof document) == 0);
    free(text);
}

static void check_shard(const uint8_t *bytes, size_t length)
{
    struct okv_shard_key key, again;

    if (!okv_document_read_shard(bytes, length, &key))
        return;
    FUZZ_CHECK(key.epoch >= 1 && key.epoch <= OKV_EPOCH_MAX);
    FUZZ_CHECK(key.isr_count >= 1 && key.isr_count <= OKV_COPIES_MAX);
    FUZZ_CHECK(key.wanted_count >= 1 && key.wanted_count <= OKV_COPIES_MAX);
    char *text = okv_document_of_shard(&key);
    FUZZ_CHECK(text && okv_document_read_shard(text, strlen(text), &again));
    FUZZ_CHECK(memcmp(&key, &again, sizeof key) == 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t choice = fuzz_u8(&input);

    if (choice == 'f') {
        take_frame(&input);
    } else if (choice == 'm') {
        take_letter(&input);
    } else {
        uint8_t *exact = malloc(size ? size : 1); /* for the sanitizer */
        FUZZ_CHECK(exact);
        if (size)
            memcpy(exact, data, size);
        check_cluster(exact, size);
        check_server(exact, size);
        check_shard(exact, size);
        free(exact);
    }
    return 0;
}
