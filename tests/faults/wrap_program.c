/* Calls of okv(1) to libc and jansson that are made to fail. */
#include <jansson.h>
#include <stdio.h>

#include "tests/faults/wrap.h"

/* clang-format off */
WRAP(FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode), EMFILE)
WRAP(FILE *, NULL, open_memstream, (char **out, size_t *size), (out, size), ENOMEM)
WRAP(int, EOF, fflush, (FILE *file), (file), ENOSPC)
WRAP(ssize_t, -1, __getdelim, (char **line, size_t *size, int end, FILE *file),
     (line, size, end, file), ENOMEM, EINTR)
WRAP(json_t *, NULL, json_object, (void), (), ENOMEM)
WRAP(json_t *, NULL, json_integer, (json_int_t number), (number), ENOMEM)
WRAP(json_t *, NULL, json_real, (double number), (number), ENOMEM)
WRAP(json_t *, NULL, json_string, (const char *text), (text), ENOMEM)
WRAP(int, -1, json_dumpf, (const json_t *json, FILE *file, size_t flags), (json, file, flags),
     ENOSPC)
/* clang-format on */

/* As the real one, which takes the value's reference also when it fails. */
int __real_json_object_set_new(json_t *object, const char *key, json_t *value);
int __wrap_json_object_set_new(json_t *object, const char *key, json_t *value);
int __wrap_json_object_set_new(json_t *object, const char *key, json_t *value)
{
    if (WRAP_ASK(json_object_set_new, ENOMEM) == 0)
        return __real_json_object_set_new(object, key, value);
    json_decref(value);
    return -1;
}

int __real_fclose(FILE *file);
int __wrap_fclose(FILE *file);
int __wrap_fclose(FILE *file)
{
    int way = WRAP_ASK(fclose, ENOSPC);
    int rc = __real_fclose(file); /* the stream is gone, whatever it says */

    if (way == 0)
        return rc;
    errno = way;
    return EOF;
}
