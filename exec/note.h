/* Notes in a state_dir: small files of one line that other processes read. */
#ifndef HAWK_EXEC_NOTE_H
#define HAWK_EXEC_NOTE_H

#include "base/err.h"

#include <stdbool.h>

#define NOTE_MAX 64 /* bytes of a line, with its NUL */

/* Writes text and a newline to the file `name` in dir, in place of what is there. HAWK_EIO: errno says why. */
HAWK_MUST_USE int note_write(const char *dir, const char *name, const char *text);
/* Reads the line, without its newline. False: there is none. */
bool note_read(const char *dir, const char *name, char text[NOTE_MAX]);

#endif
