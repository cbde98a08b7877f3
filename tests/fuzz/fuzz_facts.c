/* What a peer says of an RDMA port: any bytes are refused, or read as what can be shown and written
 * again. */
#include "shared/devices/facts.h"
#include "tests/fuzz/fuzz_input.h"

static void check_text(const char *text, size_t size)
{
    FUZZ_CHECK(memchr(text, '\0', size));
    for (; *text; text++)
        FUZZ_CHECK(*text > ' ' && *text <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char line[OKV_FACTS_LINE_SIZE], again[OKV_FACTS_LINE_SIZE];
    struct okv_port_facts facts;
    char *copy = malloc(size ? size : 1); /* of the exact length, for the sanitizer */

    FUZZ_CHECK(copy);
    if (size)
        memcpy(copy, data, size);
    if (okv_facts_parse(copy, size, &facts)) {
        check_text(facts.port, sizeof facts.port);
        check_text(facts.pcie, sizeof facts.pcie);
        check_text(facts.firmware, sizeof facts.firmware);
        FUZZ_CHECK(facts.address_count <= OKV_FACTS_ADDRESSES);
        for (unsigned i = 0; i < facts.address_count; i++)
            check_text(facts.addresses[i].text, sizeof facts.addresses[i].text);
        unsigned length = okv_facts_write(&facts, line);
        FUZZ_CHECK(length < sizeof line && line[length - 1] == '\n');
        FUZZ_CHECK(okv_facts_parse(line, length - 1, &facts));
        FUZZ_CHECK(okv_facts_write(&facts, again) == length && memcmp(line, again, length) == 0);
    }
    free(copy);
    return 0;
}
