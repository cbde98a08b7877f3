/* Answers of etcd, in pieces: any bytes are lines that do not depend on the pieces, and each line
 * is refused, or read as texts that end where they say. */
#include "server/etcd/lines.h"
#include "server/etcd/message.h"
#include "tests/fuzz/fuzz_input.h"

static void check_line(void *context, const char *text, size_t length)
{
    struct okv_etcd_message message;
    size_t *total = context;
    char *copy = malloc(length ? length : 1); /* of the exact length, for the sanitizer */

    FUZZ_CHECK(copy);
    if (length)
        memcpy(copy, text, length);
    if (okv_etcd_message_decode(&message, copy, length) == OKV_OK)
        for (size_t i = 0; i < message.count; i++) {
            const struct okv_etcd_item *item = &message.items[i];
            FUZZ_CHECK(item->key[0] && ((const char *)item->value)[item->length] == '\0');
            FUZZ_CHECK(strlen(item->key) + item->length < length);
        }
    okv_etcd_message_fini(&message);
    free(copy);
    *total += length + 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct okv_etcd_lines lines = {0};
    size_t total = 0, most = 1 + fuzz_u8(&input), all = input.left, length;

    while (input.left) {
        uint8_t *piece = fuzz_bytes(&input, most, &length);
        FUZZ_CHECK(okv_etcd_lines_split(&lines, (char *)piece, length, check_line, &total));
        free(piece);
    }
    FUZZ_CHECK(total + lines.length == all);
    okv_etcd_lines_fini(&lines);
    return 0;
}
