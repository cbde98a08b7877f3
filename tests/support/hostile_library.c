/*
 * A libokv for programs, whose server is the stub: it answers STAT and ADMIN with the bytes of the
 * file $OKV_TEST_ANSWER, and its table has one item, with that file as key and value, too.
 */
#include "tests/support/test.h"

#include "tests/support/stub_transport.h"

static uint8_t answer[OKV_SLOT_SIZE_DEFAULT - OKV_REPLY_HEADER];
static uint32_t answer_length;

/* "sessions ID" asks for those after ID: there are no more. */
static bool has_answer(const struct okv_request_message *request)
{
    static const char more[] = "sessions ", first[] = "sessions 0";

    if (request->opcode != OKV_OP_ADMIN || request->value_length < strlen(more) ||
        memcmp(request->value, more, strlen(more)) != 0)
        return true;
    return request->value_length == strlen(first) &&
           memcmp(request->value, first, strlen(first)) == 0;
}

static bool give_answer(const struct stub_request *request, struct stub_reply *reply)
{
    unsigned opcode = request->message.opcode;

    if (opcode == OKV_OP_STAT || opcode == OKV_OP_ADMIN) {
        reply->message.value = answer;
        reply->message.value_length = has_answer(&request->message) ? answer_length : 0;
    }
    return true;
}

/* As much of the answer as fits a bucket. */
static void put_item(void)
{
    char text[100] = "k";
    struct okv_entry item;

    memcpy(text + 1, answer, answer_length < sizeof text - 1 ? answer_length : sizeof text - 1);
    item = (struct okv_entry){.key_length = sizeof text,
                              .value_length = sizeof text,
                              .version = 5,
                              .key = (const uint8_t *)text,
                              .value = (const uint8_t *)text};
    uint64_t hash = okv_hash_key(text, sizeof text, STUB_SEED);
    item.tag = okv_hash_tag(hash);
    stub_bucket(okv_hash_bucket(hash, STUB_DEPTH), STUB_DEPTH, &item, 1);
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("OKV_TEST_ANSWER");
    FILE *file = path ? fopen(path, "rb") : NULL;

    assert_non_null(file);
    answer_length = (uint32_t)fread(answer, 1, sizeof answer, file);
    fclose(file);
    stub_reset();
    stub.welcome.credits = 1;
    stub.answer = give_answer;
    put_item();
}
