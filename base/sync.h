/* What must outlast a power loss. Not for policy code. */
#ifndef HAWK_BASE_SYNC_H
#define HAWK_BASE_SYNC_H

/* Syncs the directory that holds the path: only then is a file that was made or renamed there to stay. 0, or -1 and
 * errno. */
int sync_parent(const char *path);

#endif
