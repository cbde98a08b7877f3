/* SHA-1 (FIPS 180-4), by which clients of Redis name scripts. Collisions can be made: it proves
 * nothing. */
#ifndef OKV_SHARED_BASE_SHA1_H
#define OKV_SHARED_BASE_SHA1_H

#include <stddef.h>
#include <stdint.h>

#define OKV_SHA1_SIZE 20u
#define OKV_SHA1_TEXT 41u /* as lower-case hexadecimal digits, with a NUL */

void okv_sha1(const void *bytes, size_t length, uint8_t digest[OKV_SHA1_SIZE]);
void okv_sha1_text(const uint8_t digest[OKV_SHA1_SIZE], char text[OKV_SHA1_TEXT]);

#endif
