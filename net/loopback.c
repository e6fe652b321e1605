/* Whose the other end of a TCP connection is: see loopback.h. The kernel's table of sockets says it (sock_diag(7)). */
#include "net/loopback.h"

#include "base/err.h"
#include "net/listen.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

/* An end of a connection, as sock_diag takes it: IPv4 also where the socket is an IPv6 one. */
struct end {
    uint8_t family;
    uint16_t port; /* network order */
    uint32_t addr[4];
};

static struct end end_of(const union sockaddr_any *sa)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&sa->storage;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&sa->storage;
    struct end e = {.family = (uint8_t)sa->sa.sa_family};

    if (e.family == AF_INET) {
        e.port = v4->sin_port;
        e.addr[0] = v4->sin_addr.s_addr;
    } else if (e.family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        e.family = AF_INET;
        e.port = v6->sin6_port;
        memcpy(e.addr, &v6->sin6_addr.s6_addr[12], sizeof e.addr[0]);
    } else if (e.family == AF_INET6) {
        e.port = v6->sin6_port;
        memcpy(e.addr, &v6->sin6_addr, sizeof e.addr);
    }
    return e;
}

static int send_question(int netlink, const struct end *local, const struct end *remote)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 body;
    } q = {
        .head = {.nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = local->family, .sdiag_protocol = IPPROTO_TCP, .idiag_states = UINT32_MAX},
    };

    q.body.id.idiag_sport = local->port;
    q.body.id.idiag_dport = remote->port;
    memcpy(q.body.id.idiag_src, local->addr, sizeof local->addr);
    memcpy(q.body.id.idiag_dst, remote->addr, sizeof remote->addr);
    q.body.id.idiag_cookie[0] = q.body.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    return send(netlink, &q, sizeof q, 0) == (ssize_t)sizeof q ? 0 : HAWK_EIO;
}

/* The socket with these ends. HAWK_ENOT_FOUND: there is none that is connected. The kernel answers inside send(). */
static int find_socket(int netlink, const struct end *local, const struct end *remote, uint32_t *uid)
{
    _Alignas(struct nlmsghdr) char buf[4096];
    const struct nlmsghdr *head = (const struct nlmsghdr *)buf;
    const struct inet_diag_msg *found = NLMSG_DATA(head);
    ssize_t n;

    if (send_question(netlink, local, remote) || (n = recv(netlink, buf, sizeof buf, MSG_DONTWAIT)) < 0)
        return HAWK_EIO;
    if (!NLMSG_OK(head, (size_t)n) || head->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        head->nlmsg_len < NLMSG_LENGTH(sizeof *found) || found->idiag_state != TCP_ESTABLISHED)
        return HAWK_ENOT_FOUND;
    *uid = found->idiag_uid;
    return 0;
}

/* Of a socket that its process closes the kernel shows uid 0, and reads its state before its uid. So it counts only if
 * the socket was still connected when it was asked again. */
static int find_uid(const union sockaddr_any *local, const union sockaddr_any *remote, uint32_t *uid)
{
    const struct end a = end_of(local), b = end_of(remote);
    int netlink = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), err = HAWK_EIO;
    uint32_t again;

    if (netlink < 0)
        return err;
    err = find_socket(netlink, &a, &b, uid);
    if (!err)
        err = find_socket(netlink, &a, &b, &again);
    close(netlink);
    return err;
}

bool loopback_uid(int fd, uint32_t *uid)
{
    union sockaddr_any ours = {0}, theirs = {0};
    socklen_t len = sizeof ours, their_len = sizeof theirs;

    return getsockname(fd, &ours.sa, &len) == 0 && getpeername(fd, &theirs.sa, &their_len) == 0 &&
           find_uid(&theirs, &ours, uid) == 0;
}

/* Connects to itself, and asks. */
static bool try_it(void)
{
    union sockaddr_any at = {0};
    socklen_t len = sizeof(struct sockaddr_in);
    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int dialled = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), accepted = -1;
    bool tells = false;
    uint32_t uid;

    at.sa.sa_family = AF_INET;
    ((struct sockaddr_in *)&at.storage)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listening >= 0 && dialled >= 0 && bind(listening, &at.sa, len) == 0 && listen(listening, 1) == 0 &&
        getsockname(listening, &at.sa, &len) == 0 && connect(dialled, &at.sa, len) == 0)
        accepted = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    if (accepted >= 0) {
        tells = loopback_uid(accepted, &uid) && uid == geteuid();
        close(accepted);
    }
    if (dialled >= 0)
        close(dialled);
    if (listening >= 0)
        close(listening);
    return tells;
}

bool loopback_tells(void)
{
    static enum { NOT_ASKED, YES, NO } answer;

    if (answer == NOT_ASKED)
        answer = try_it() ? YES : NO;
    return answer == YES;
}
