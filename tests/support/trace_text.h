/* Traces of tests, from text. */
#ifndef OKV_TEST_TRACE_TEXT_H
#define OKV_TEST_TRACE_TEXT_H

#include <stddef.h>

#include "bench/replay/trace.h"

/* As trace_read() of a file with these bytes. */
int trace_text_read(const char *text, size_t length, struct trace *trace, char why[TRACE_WHY_TEXT]);

#endif
