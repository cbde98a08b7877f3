/* Files that keep nothing, for a database in memory only whose batches need the log's thread. */
#ifndef OKV_SERVER_WAL_NULL_FILES_H
#define OKV_SERVER_WAL_NULL_FILES_H

#include <stdbool.h>

#include "server/wal/file.h"

/* A directory that is always empty. What writes succeeds; no file can be opened for reading. Blob
 * files and snapshots would be work for nothing: its owner has none made. Any number of logs may
 * use it. */
struct okv_files *okv_null_files(void);
/* Whether files of this kind keep what is written. */
bool okv_files_keep(const struct okv_files *files);

#endif
