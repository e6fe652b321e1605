/* recvmsg, sendmsg and close of the whole process, gRPC's calls included: see guard.h. Only programs that
 * have a server link this file, and no library does: a program with libhawk.a keeps the system's
 * functions.
 *
 * The program looks up the system's functions when it starts. Calls before that go to the kernel. A process that has
 * connections does not fork: its child would have the table of guards, and locks that other threads held. It may use
 * posix_spawn(). */
#include "net/guard.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static ssize_t (*real_recvmsg)(int, struct msghdr *, int);
static ssize_t (*real_sendmsg)(int, const struct msghdr *, int);
static int (*real_close)(int);

static ssize_t kernel_recvmsg(int fd, struct msghdr *m, int flags)
{
    return syscall(SYS_recvmsg, fd, m, flags);
}
static ssize_t kernel_sendmsg(int fd, const struct msghdr *m, int flags)
{
    return syscall(SYS_sendmsg, fd, m, flags);
}
static int kernel_close(int fd) { return (int)syscall(SYS_close, fd); }

__attribute__((constructor)) static void look_up(void)
{
    void *r = dlsym(RTLD_NEXT, "recvmsg"), *s = dlsym(RTLD_NEXT, "sendmsg"), *c = dlsym(RTLD_NEXT, "close");

    memcpy(&real_recvmsg, &r, sizeof r);
    memcpy(&real_sendmsg, &s, sizeof s);
    memcpy(&real_close, &c, sizeof c);
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    return guard_recvmsg(fd, message, flags, real_recvmsg ? real_recvmsg : kernel_recvmsg);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    return guard_sendmsg(fd, message, flags, real_sendmsg ? real_sendmsg : kernel_sendmsg);
}

int close(int fd) { return guard_close(fd, real_close ? real_close : kernel_close); }
