/* Notes in a state_dir: see note.h. */
#include "exec/note.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_note(const char *dir, const char *name, int flags)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);

    if (n < (int)sizeof path)
        return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0666);
    errno = ENAMETOOLONG;
    return -1;
}

int note_write(const char *dir, const char *name, const char *text)
{
    int fd = open_note(dir, name, O_WRONLY | O_CREAT | O_TRUNC);
    int n = fd >= 0 ? dprintf(fd, "%s\n", text) : -1;

    if (fd >= 0)
        close(fd);
    return n > 0 ? 0 : HAWK_EIO;
}

bool note_read(const char *dir, const char *name, char text[NOTE_MAX])
{
    int fd = open_note(dir, name, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, NOTE_MAX - 1) : 0;

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return *text != '\0';
}
