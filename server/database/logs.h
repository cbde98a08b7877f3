/* The logs that a directory of databases has. */
#ifndef OKV_SERVER_DATABASE_LOGS_H
#define OKV_SERVER_DATABASE_LOGS_H

/* Calls `each` for every database below `data` that has a log, in the order of names. A directory
 * that cannot be read has none: to open a database in it says why. */
void okv_logs_each(const char *data, void (*each)(void *user, const char *name), void *user);

#endif
