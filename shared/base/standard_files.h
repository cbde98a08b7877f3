/* Descriptors 0, 1 and 2 of a program. */
#ifndef OKV_SHARED_BASE_STANDARD_FILES_H
#define OKV_SHARED_BASE_STANDARD_FILES_H

/* Opens /dev/null in the place of each that is closed, so that no file or socket gets its number,
 * and with that what the program prints. Reads and writes fail as they would without. The first
 * thing that a program does. Returns 0, or OKV_EIO and errno says why. */
int okv_standard_files_open(void);

#endif
