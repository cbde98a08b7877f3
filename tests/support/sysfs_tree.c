#include "tests/support/sysfs_tree.h"

#include <ftw.h>
#include <sys/stat.h>

#include "tests/support/test.h"

#define PORTS "/sys/class/infiniband/%s/ports/%s/"

void sysfs_tree_create(struct sysfs_tree *tree)
{
    strcpy(tree->root, "/tmp/okv-sysfs.XXXXXX");
    assert_non_null(mkdtemp(tree->root));
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

void sysfs_tree_remove(struct sysfs_tree *tree)
{
    nftw(tree->root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void sysfs_tree_put(const struct sysfs_tree *tree, const char *file, const char *line)
{
    char path[256];

    snprintf(path, sizeof path, "%s%s", tree->root, file);
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    fprintf(stream, "%s\n", line);
    fclose(stream);
}

void sysfs_tree_put_port(const struct sysfs_tree *tree, const char *device, const char *port)
{
    static const char *const lines[][2] = {
        {"state", "4: ACTIVE"}, {"link_layer", "Ethernet"}, {"rate", "100 Gb/sec (4X EDR)"}};
    char file[128];

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(file, sizeof file, PORTS "%s", device, port, lines[i][0]);
        sysfs_tree_put(tree, file, lines[i][1]);
    }
}

void sysfs_tree_put_gid(const struct sysfs_tree *tree, const char *device, const char *port,
                        const char *index, const char *gid, const char *type, const char *interface)
{
    char file[128];

    snprintf(file, sizeof file, PORTS "gids/%s", device, port, index);
    sysfs_tree_put(tree, file, gid);
    snprintf(file, sizeof file, PORTS "gid_attrs/types/%s", device, port, index);
    sysfs_tree_put(tree, file, type);
    snprintf(file, sizeof file, PORTS "gid_attrs/ndevs/%s", device, port, index);
    sysfs_tree_put(tree, file, interface);
}
