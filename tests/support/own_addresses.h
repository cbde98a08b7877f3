/* The addresses of this host, as getifaddrs() lists them, with those of sysfs_tree.h. Link with
 * --wrap=getifaddrs,--wrap=freeifaddrs. */
#ifndef OKV_TESTS_OWN_ADDRESSES_H
#define OKV_TESTS_OWN_ADDRESSES_H

/* Leaves out one of the latter, in the form of sysfs_tree.h, as another network namespace's is;
 * NULL: has all again. */
void own_addresses_hide(const char *gid);

#endif
