/* OKV_SANITIZED: this is built with a sanitizer and several times slower. OKV_SANITIZED_THREADS:
 * with the one that reports data races. */
#ifndef OKV_TESTS_SANITIZED_H
#define OKV_TESTS_SANITIZED_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define OKV_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OKV_SANITIZED 1
#endif
#ifndef OKV_SANITIZED
#define OKV_SANITIZED 0
#endif

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OKV_SANITIZED_THREADS 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define OKV_SANITIZED_THREADS 1
#endif
#ifndef OKV_SANITIZED_THREADS
#define OKV_SANITIZED_THREADS 0
#endif

/* A function that takes the place of one that the sanitizer's runtime calls while it begins. */
#if defined(__clang__)
#define OKV_UNSANITIZED __attribute__((disable_sanitizer_instrumentation))
#else
#define OKV_UNSANITIZED __attribute__((no_sanitize("thread", "address")))
#endif

#endif
