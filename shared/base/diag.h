/*
 * A sentence for people, made where a failure is understood best.
 *
 * A code says what kind of failure it was; the sentence says what was being
 * done, why it failed and what to do. Libraries fill it, programs print it.
 */
#ifndef OKV_SHARED_BASE_DIAG_H
#define OKV_SHARED_BASE_DIAG_H

struct okv_diag {
    char text[320]; /* NUL-terminated; "" when nothing was said */
};

/* Formats the sentence (cut to fit) and returns `code`, so that a failing
 * function can end in `return okv_diag_set(diag, code, "…")`. `diag` may be NULL. */
int okv_diag_set(struct okv_diag *diag, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
