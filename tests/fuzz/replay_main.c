/* Runs a fuzz target once on each file named, or on each file of the folders named: for
 * compilers without libFuzzer. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz_input.h"

#define PATH_SIZE 4096

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    size_t length = 0;
    int byte;

    if (!file) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return -1;
    }
    FILE *memory = open_memstream(&bytes, &length);
    while (memory && (byte = getc(file)) != EOF)
        putc(byte, memory);
    fclose(file);
    if (!memory || fclose(memory))
        return -1;
    /* Of its exact length, without the NUL of the stream. */
    uint8_t *exact = malloc(length ? length : 1);
    if (exact && length)
        memcpy(exact, bytes, length);
    free(bytes);
    if (!exact)
        return -1;
    LLVMFuzzerTestOneInput(exact, length);
    free(exact);
    return 1;
}

/* The number of files, or -1. */
static int replay(const char *path)
{
    char name[PATH_SIZE];
    DIR *folder = opendir(path);
    struct dirent *entry;
    int count = 0;

    if (!folder)
        return errno == ENOTDIR ? replay_file(path) : -1;
    while (count >= 0 && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        count = replay_file(name) < 0 ? -1 : count + 1;
    }
    closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;

    for (int i = 1; i < argc; i++) {
        int count = replay(argv[i]);
        if (count <= 0) {
            fprintf(stderr, "%s: no inputs could be read there\n", argv[i]);
            return 1;
        }
        total += count;
    }
    printf("%d inputs\n", total);
    return total > 0 ? 0 : 1;
}
