/* Sizes as people write them, in binary units: "64K" is 65536 bytes. */
#ifndef OKV_SHARED_BASE_SIZE_H
#define OKV_SHARED_BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* Room for any text that okv_size_format() writes, with its NUL. */
#define OKV_SIZE_TEXT 32

/*
 * Reads a whole number with an optional unit: "4096", "64K", "1M", "2G", "1T",
 * also "64KiB" or "64 KiB" and "512 B", in capitals or not. "KB" is refused: it means
 * 1000 to some and 1024 to others.
 * Returns 0, or OKV_EINVAL for anything else or for 2^64 bytes and more; *bytes
 * is then unchanged.
 */
int okv_size_parse(const char *text, uint64_t *bytes);

/* Room for the sentence of okv_size_read(), with its NUL. */
#define OKV_SIZE_WHY_TEXT 192

/*
 * The same for a size from `low` to `high` (UINT64_MAX: no limit). On OKV_EINVAL `why` states the
 * limits and the syntax.
 */
int okv_size_read(const char *text, uint64_t low, uint64_t high, uint64_t *bytes,
                  char why[OKV_SIZE_WHY_TEXT]);

/*
 * Writes the size in the largest unit that leaves at least 1: "512 B",
 * "256 MiB", "1.5 GiB"; one decimal, cut rather than rounded, and none when the
 * size is whole in its unit. Always terminates `out` when `size` is not 0.
 */
void okv_size_format(uint64_t bytes, char *out, size_t size);

#endif
