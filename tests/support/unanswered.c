/*
 * Writes without an answer, for programs that have to cope with them: the linker puts these in the
 * place of ours (--wrap). Of four calls of a function the first does nothing, the second is made,
 * and both end with OKV_EUNKNOWN; the others are made and answered.
 */
#include <okv.h>

int __real_okv_put_with(okv *handle, const void *key, size_t key_length, const void *value,
                        size_t value_length, const struct okv_put_options *options,
                        uint64_t *version);
int __real_okv_touch(okv *handle, const void *key, size_t key_length, int64_t ttl_ms,
                     uint64_t *version);
int __real_okv_delete(okv *handle, const void *key, size_t key_length);
int __real_okv_incr(okv *handle, const void *key, size_t key_length, int64_t delta, int64_t *result,
                    uint64_t *version);
int __wrap_okv_put_with(okv *handle, const void *key, size_t key_length, const void *value,
                        size_t value_length, const struct okv_put_options *options,
                        uint64_t *version);
int __wrap_okv_touch(okv *handle, const void *key, size_t key_length, int64_t ttl_ms,
                     uint64_t *version);
int __wrap_okv_delete(okv *handle, const void *key, size_t key_length);
int __wrap_okv_incr(okv *handle, const void *key, size_t key_length, int64_t delta, int64_t *result,
                    uint64_t *version);

/* The result of the call that `expression` is, or no answer; each place counts its calls. */
#define ANSWER(expression)                                \
    do {                                                  \
        static unsigned calls;                            \
        unsigned turn = calls++ % 4;                      \
        int rc = turn == 0 ? OKV_EUNKNOWN : (expression); \
        return turn == 1 ? OKV_EUNKNOWN : rc;             \
    } while (0)

int __wrap_okv_put_with(okv *handle, const void *key, size_t key_length, const void *value,
                        size_t value_length, const struct okv_put_options *options,
                        uint64_t *version)
{
    ANSWER(__real_okv_put_with(handle, key, key_length, value, value_length, options, version));
}

int __wrap_okv_touch(okv *handle, const void *key, size_t key_length, int64_t ttl_ms,
                     uint64_t *version)
{
    ANSWER(__real_okv_touch(handle, key, key_length, ttl_ms, version));
}

int __wrap_okv_delete(okv *handle, const void *key, size_t key_length)
{
    ANSWER(__real_okv_delete(handle, key, key_length));
}

int __wrap_okv_incr(okv *handle, const void *key, size_t key_length, int64_t delta, int64_t *result,
                    uint64_t *version)
{
    ANSWER(__real_okv_incr(handle, key, key_length, delta, result, version));
}
