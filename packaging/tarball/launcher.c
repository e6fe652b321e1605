/* `hawk` of the tarball: starts the real one, with the newer of two C libraries, the machine's and the tarball's.
 *
 *   bin/hawk              this program, linked statically
 *   lib/hawk/hawk         the real one; its run path is its own directory
 *   lib/hawk/             its libraries
 *   lib/hawk/libc/hawk    a dynamic linker, under the name that processes show
 *   lib/hawk/libc/        its C library
 *
 * The machine's C library comes first where it is new enough: only with it can the machine's own modules be loaded, which
 * find users in LDAP, say. An older one has not all that Hawk calls, and other C libraries have none of it. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define LINKER "/lib64/ld-linux-x86-64.so.2"
#elif defined(__aarch64__)
#define LINKER "/lib/ld-linux-aarch64.so.1"
#else
#error "which path has the dynamic linker on this machine?"
#endif

#define EXIT_FAILED 1
#define BEFORE 6 /* arguments of the dynamic linker */

/* The number behind " release version 2." in size bytes; 0: there is none. */
static long minor_in(const char *all, size_t size)
{
    static const char mark[] = " release version 2.";
    const char *at = memmem(all, size, mark, sizeof mark - 1), *end = all + size;
    long minor = 0;

    for (at = at ? at + sizeof mark - 1 : end; at < end && *at >= '0' && *at <= '9'; at++)
        minor = minor * 10 + *at - '0';
    return minor;
}

/* The minor version of the machine's C library, which its dynamic linker names since 2.33; 0: unknown. */
static long machine_libc(void)
{
    int fd = open(LINKER, O_RDONLY | O_CLOEXEC);
    struct stat st;
    long minor = 0;

    if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 0) {
        void *all = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

        if (all != MAP_FAILED)
            minor = minor_in(all, (size_t)st.st_size);
    }
    if (fd >= 0)
        close(fd);
    return minor;
}

static void complain(const char *path, const char *what)
{
    char line[2 * PATH_MAX];
    int n = snprintf(line, sizeof line, "hawk: %s: %s\n", path, what);

    (void)!write(STDERR_FILENO, line, (size_t)n);
    _exit(EXIT_FAILED);
}

int main(int argc, char **argv)
{
    char self[PATH_MAX], root[PATH_MAX], hawk[PATH_MAX + 32], libc[PATH_MAX + 32], linker[PATH_MAX + 64];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash = NULL;

    char **args = calloc((size_t)argc + BEFORE, sizeof *args);

    if (n <= 0)
        complain("/proc/self/exe", "cannot be read: is /proc mounted?");
    self[n] = '\0';
    memcpy(root, self, (size_t)n + 1);
    for (int i = 0; i < 2 && (slash = strrchr(root, '/')); i++)
        *slash = '\0';
    snprintf(hawk, sizeof hawk, "%s/lib/hawk/hawk", root);
    snprintf(libc, sizeof libc, "%s/lib/hawk/libc", root);
    snprintf(linker, sizeof linker, "%s/hawk", libc);
    if (argc < 1 || !args || setenv("HAWK_LAUNCHER", self, 1) != 0)
        complain(self, argc < 1 ? "started without a name" : "out of memory");
    if (machine_libc() >= __GLIBC_MINOR__)
        execv(hawk, argv);

    const char *const before[BEFORE] = {argv[0], "--argv0", argv[0], "--library-path", libc, hawk};
    memcpy(args, before, sizeof before);
    memcpy(args + BEFORE, argv + 1, (size_t)argc * sizeof *args); /* with the NULL */
    execv(linker, args);
    complain(hawk, "cannot be started: bin/hawk needs lib/hawk beside its directory, as they were unpacked");
}
