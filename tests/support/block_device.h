/*
 * Block devices of the guest, for tests that break them: files as devices, and devices that the
 * kernel's device mapper makes of them. Needs root. What fails fails the test.
 */
#ifndef OKV_TESTS_BLOCK_DEVICE_H
#define OKV_TESTS_BLOCK_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_SECTOR 512u

/* Runs a command of the shell. False: it failed. */
bool shell_try(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same; a command that fails fails the test. */
void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A new file of zeros as a block device. Give `device` to loop_detach(). */
void loop_attach(const char *file, uint64_t size, char device[32]);
/* "": there is none. */
void loop_detach(const char *device);

/* A device of one target, as in a table of dmsetup(8). */
struct mapped_device {
    int control; /* 0: there is none */
    char name[32];
    char path[32];
    uint64_t sectors;
};

void mapped_device_create(struct mapped_device *device, const char *name, uint64_t size,
                          const char *target, const char *parameters);
/* Gives it another target. Writes that are under way end at the old one. */
void mapped_device_change(struct mapped_device *device, const char *target, const char *parameters);
/* Sends its target a message. Any thread. */
void mapped_device_message(const struct mapped_device *device, const char *message);
/* Not while it is mounted. Does nothing when there is none. */
void mapped_device_remove(struct mapped_device *device);

#endif
