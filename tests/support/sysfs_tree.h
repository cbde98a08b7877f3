/* A directory that stands for / in tests of what okv reads of /sys and /proc. */
#ifndef OKV_TESTS_SUPPORT_SYSFS_TREE_H
#define OKV_TESTS_SUPPORT_SYSFS_TREE_H

#define SYSFS_LINK_LOCAL "fe80:0000:0000:0000:0202:c9ff:fe00:0001"
#define SYSFS_GLOBAL "fd00:0000:0000:0000:0000:0000:0000:0007"
#define SYSFS_GLOBAL_2 "fd00:0000:0000:0000:0000:0000:0000:0001"
#define SYSFS_MAPPED "0000:0000:0000:0000:0000:ffff:0a00:0001" /* 10.0.0.1 */
#define SYSFS_MAPPED_2 "0000:0000:0000:0000:0000:ffff:0a00:0002"
#define SYSFS_NO_GID "0000:0000:0000:0000:0000:0000:0000:0000"

struct sysfs_tree {
    char root[32];
};

/* Fails the test when it cannot. */
void sysfs_tree_create(struct sysfs_tree *tree);
void sysfs_tree_remove(struct sysfs_tree *tree);

/* Writes a line to a file, with the directories above it. */
void sysfs_tree_put(const struct sysfs_tree *tree, const char *file, const char *line);
/* An active RoCE port of `device`: state, link layer, rate. */
void sysfs_tree_put_port(const struct sysfs_tree *tree, const char *device, const char *port);
/* A place in the port's GID table. */
void sysfs_tree_put_gid(const struct sysfs_tree *tree, const char *device, const char *port,
                        const char *index, const char *gid, const char *type,
                        const char *interface);

#endif
