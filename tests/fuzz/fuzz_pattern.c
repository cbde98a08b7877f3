/* Patterns of RESP commands: each matches what it means, and takes no more than its price. */
#include "server/resp/proto/pattern.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/slow_pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct okv_resp_pattern pattern;
    uint64_t work = 0;
    size_t length, text_length;
    uint8_t *bytes = fuzz_bytes(&input, fuzz_below(&input, 21), &length);
    uint8_t *text = fuzz_bytes(&input, 12, &text_length);

    FUZZ_CHECK(okv_resp_pattern_init(&pattern, bytes, length) == 0);
    bool does = okv_resp_pattern_matches(&pattern, text, text_length, &work);
    FUZZ_CHECK(does == slow_pattern_matches(bytes, length, text, text_length));
    FUZZ_CHECK(work <= text_length * okv_resp_pattern_price(&pattern));
    okv_resp_pattern_fini(&pattern);
    free(text);
    free(bytes);
    return 0;
}
