/*
 * The error message for an error code.
 *
 * The code identifies the kind of failure. The message says what was tried, why it failed and what
 * to do. Libraries fill it in, programs print it. Comments call it a sentence.
 */
#ifndef OKV_SHARED_BASE_DIAG_H
#define OKV_SHARED_BASE_DIAG_H

struct okv_diag {
    char text[320]; /* NUL-terminated; "" when there is none */
};

/* Formats the sentence (cut to fit) and returns `code`, so that a failing
 * function can end in `return okv_diag_set(diag, code, "…")`. `diag` may be NULL. */
int okv_diag_set(struct okv_diag *diag, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts the option, or another name of what failed, in front: "WHAT: ", then the sentence. */
void okv_diag_begin(struct okv_diag *diag, const char *what);

#endif
