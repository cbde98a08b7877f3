/*
 * The bytes of one fuzz input, taken from the front as numbers, choices and runs of bytes.
 *
 * An input that has ended gives zeros for ever, so every choice 0 must be the quiet one:
 * a target that is asked to go on until its input says otherwise ends.
 */
#ifndef OKV_TESTS_FUZZ_INPUT_H
#define OKV_TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"

/* What must hold whatever the input is; a fuzzer keeps the input of an abort. */
#define FUZZ_CHECK(condition)                                                              \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

/* The entry that libFuzzer and replay_main.c call. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_input {
    const uint8_t *data;
    size_t left;
};

static inline void fuzz_copy(struct fuzz_input *input, void *out, size_t length)
{
    size_t there = length < input->left ? length : input->left;

    if (there)
        memcpy(out, input->data, there);
    if (length > there)
        memset((uint8_t *)out + there, 0, length - there);
    if (there)
        input->data += there;
    input->left -= there;
}

static inline uint8_t fuzz_u8(struct fuzz_input *input)
{
    uint8_t bytes[1];

    fuzz_copy(input, bytes, sizeof bytes);
    return bytes[0];
}

static inline uint16_t fuzz_u16(struct fuzz_input *input)
{
    uint8_t bytes[2];

    fuzz_copy(input, bytes, sizeof bytes);
    return okv_get_u16(bytes);
}

static inline uint32_t fuzz_u32(struct fuzz_input *input)
{
    uint8_t bytes[4];

    fuzz_copy(input, bytes, sizeof bytes);
    return okv_get_u32(bytes);
}

static inline uint64_t fuzz_u64(struct fuzz_input *input)
{
    uint8_t bytes[8];

    fuzz_copy(input, bytes, sizeof bytes);
    return okv_get_u64(bytes);
}

/* 0 to limit - 1, of one byte for limits that fit one; limit is at least 1. */
static inline uint32_t fuzz_below(struct fuzz_input *input, uint32_t limit)
{
    return (limit <= 256 ? fuzz_u8(input) : fuzz_u32(input)) % limit;
}

/* True for one byte in `in`, and never for an input that has ended. */
static inline bool fuzz_rarely(struct fuzz_input *input, unsigned in)
{
    return fuzz_u8(input) % in == in - 1;
}

/* A number at which things tend to end, or any. */
static inline uint64_t fuzz_number(struct fuzz_input *input)
{
    uint8_t choice = fuzz_u8(input);

    switch (choice & 3) {
    case 0:
        return choice >> 2;
    case 1:
        return fuzz_u16(input);
    case 2:
        return (UINT64_C(1) << (choice >> 2)) - (fuzz_u8(input) & 3) + 1;
    default:
        return fuzz_u64(input);
    }
}

/* A copy of the next bytes, up to `most`, of exactly its length, so that ASan sees what
 * reaches past it; to be freed. */
static inline uint8_t *fuzz_bytes(struct fuzz_input *input, size_t most, size_t *length)
{
    *length = input->left < most ? input->left : most;
    uint8_t *bytes = malloc(*length ? *length : 1);

    FUZZ_CHECK(bytes);
    fuzz_copy(input, bytes, *length);
    return bytes;
}

/* The same as a text; a NUL in it ends it early. */
static inline char *fuzz_text(struct fuzz_input *input, size_t most)
{
    size_t length = input->left < most ? input->left : most;
    char *text = malloc(length + 1);

    FUZZ_CHECK(text);
    fuzz_copy(input, text, length);
    text[length] = '\0';
    size_t used = strlen(text);
    char *exact = realloc(text, used + 1);
    FUZZ_CHECK(exact);
    return exact;
}

#endif
