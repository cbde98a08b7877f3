/* Files of the host below `root`, which is "" except in tests. */
#ifndef OKV_CLIENT_CLI_DOCTOR_FILES_H
#define OKV_CLIENT_CLI_DOCTOR_FILES_H

#include <stdbool.h>
#include <stddef.h>

#define DOCTOR_PATH_SIZE 512

bool doctor_file_exists(const char *root, const char *file);
/* Reads the first line, without its newline. False: there is none. */
bool doctor_file_line(const char *root, const char *file, char *out, size_t size);
bool doctor_file_number(const char *root, const char *file, unsigned long long *out);

#endif
