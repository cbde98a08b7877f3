/* A users file and key files in a directory of their own, for tests of servers with users. */
#ifndef OKV_TESTS_USERS_FILE_H
#define OKV_TESTS_USERS_FILE_H

/* Keys: 32 times the same byte, as base64. */
#define KEY_A "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE="
#define KEY_B "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="
#define KEY_C "Q0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0NDQ0M="
#define KEY_D "REREREREREREREREREREREREREREREREREREREREREQ="

struct users_file {
    char directory[64];
    char users[96]; /* path of the users file */
};

/* Makes the directory. */
void users_file_open(struct users_file *file);
void users_file_close(struct users_file *file);
/* (Re)places the users file. */
void users_file_write(const struct users_file *file, const char *text);
/* (Re)places the key file of this name and returns its path, which lives until the next call. */
const char *users_file_key(const struct users_file *file, const char *name, const char *key);

#endif
