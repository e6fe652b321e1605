/* See login_socket.h. */
#include "ca/login_socket.h"

#include "base/account.h"
#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "ca/file.h"
#include "ca/grant.h"
#include "cli/command.h"
#include "cli/document.h"
#include "cli/print.h"
#include "net/denied.h"
#include "net/listen.h"
#include "net/log_kind.h"
#include "net/loop.h"
#include "net/supervisor.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define WHY (PATH_MAX + 300)
#define SERVED 64           /* people of whom it knows when they came */
#define PAUSE_US US_PER_S   /* a user gets one credential in this time */
#define ACCEPTED_AT_ONCE 16 /* connections before the loop looks at signals */
#define ANSWER_WAIT_S 10    /* how long `hawk login` waits for an answer */

struct login_socket {
    const struct login_socket_config *config;
    struct loop *loop;
    int fd;
    struct {
        uint32_t uid;
        int64_t at_us;
    } served[SERVED];
    uint32_t served_next;
    struct log_kind refused, unread;
};

/* ---- Who gets what ---- */

/* Whether the user comes again too soon. Notes that he came, if not. */
static bool comes_too_soon(struct login_socket *s, uint32_t uid)
{
    int64_t now_us = loop_now(s->loop);

    for (uint32_t i = 0; i < SERVED; i++)
        if (s->served[i].at_us > 0 && s->served[i].uid == uid && now_us - s->served[i].at_us < PAUSE_US)
            return true;
    s->served[s->served_next].uid = uid;
    s->served[s->served_next].at_us = now_us;
    s->served_next = (s->served_next + 1) % SERVED;
    return false;
}

/* Whether a uid gets credentials here. HAWK_EINVALID: why says why not. */
static int check_uid(const struct login_socket *s, uint32_t uid, char *why, size_t size)
{
    if (!identity_uid_fits(uid))
        snprintf(why, size, "uid %u is nobody's", (unsigned)uid);
    else if (uid < s->config->lowest_uid)
        snprintf(why, size, "uid %u is below %u: `hawk user add` gives such users a credential",
                 (unsigned)uid, (unsigned)s->config->lowest_uid);
    else
        return 0;
    return HAWK_EINVALID;
}

/* The account of a uid. HAWK_EINVALID: he gets no credential now. */
static int find_account(const struct login_socket *s, uint32_t uid, struct identity *who, char *why,
                        size_t size)
{
    struct account a;
    int err = account_of_uid(&a, uid);

    *who = (struct identity){.scopes = s->config->scopes, .has_uid = true, .uid = uid};
    if (err == HAWK_ENOT_FOUND)
        snprintf(why, size, "no account of this machine has uid %u", (unsigned)uid);
    else if (err)
        snprintf(why, size, "the account of uid %u could not be looked up: try again", (unsigned)uid);
    else if (strlen(a.name) > LIMIT_NAME_BYTES || !identity_name_fits(a.name)) {
        err = HAWK_EINVALID;
        snprintf(why, size,
                 "the account of uid %u has a name that cannot be in a certificate: it may have letters, "
                 "digits, '-', '_' and '.'",
                 (unsigned)uid);
    } else
        snprintf(who->name, sizeof who->name, "%s", a.name);
    account_free(&a);
    return err ? HAWK_EINVALID : 0;
}

/* A name that was revoked stays so until `hawk user add` gives it a credential again. */
static int check_listed(const struct users *u, struct identity *who, char *why, size_t size)
{
    const struct identity *known = users_find(u, who->name);
    struct denied *d;
    int err = grant_check(u, who, why, size);

    if (err)
        return err;
    if (known)
        who->scopes = known->scopes;
    err = grant_denied(u->dir, &d, why, size);
    if (d && denied_has(d, known ? known : who)) {
        snprintf(why, size, "%s was revoked: the operator lets you in again with `hawk user add %s`",
                 who->name, who->name);
        err = HAWK_EINVALID;
    }
    denied_free(d);
    return err;
}

static int make_for(struct login_socket *s, uint32_t uid, struct credential *c, char *why, size_t size)
{
    struct identity who;
    struct users u;
    int err = check_uid(s, uid, why, size);

    if (err)
        return err;
    if (comes_too_soon(s, uid)) {
        snprintf(why, size, "you took a credential a moment ago: try again in a second");
        return HAWK_EINVALID;
    }
    if ((err = find_account(s, uid, &who, why, size)) != 0)
        return err;
    err = users_open(&u, s->config->ca, true, why, size);
    if (!err)
        err = check_listed(&u, &who, why, size);
    if (!err)
        err = grant_credential(&u, &who, s->config->life_us, s->config->dist, c, why, size);
    users_free(&u);
    return err;
}

/* ---- The server ---- */

/* The answer fits into the socket's buffer: a peer that does not read holds nobody up. */
static void answer_peer(struct login_socket *s, int fd)
{
    struct credential c = {0};
    char why[WHY], refusal[WHY + sizeof LOGIN_SOCKET_ERROR], until[CLOCK_TEXT], *text = NULL;
    uint32_t uid = listen_peer_uid(fd);
    int err = make_for(s, uid, &c, why, sizeof why);
    size_t len;

    if (!err) {
        text = credential_write(&c);
        log_audit("%s (uid %u) took a credential at %s, good until %s", c.who.name, (unsigned)uid,
                  s->config->path, utc_text(until, c.who.until_s));
    } else {
        log_kind_warn(&s->refused, "somebody gets no credential", loop_now(s->loop),
                      "uid %u gets no credential: %s", (unsigned)uid, why);
        snprintf(refusal, sizeof refusal, LOGIN_SOCKET_ERROR "%s\n",
                 err == HAWK_EINVALID ? why : "no credential can be made: the operator's log says why");
    }
    len = strlen(text ? text : refusal);
    if (send(fd, text ? text : refusal, len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)len)
        log_kind_warn(&s->unread, "somebody did not take the answer", loop_now(s->loop),
                      "uid %u did not take the answer", (unsigned)uid);
    if (text)
        OPENSSL_cleanse(text, len);
    free(text);
    credential_free(&c);
}

static void on_connection(void *arg, unsigned events)
{
    struct login_socket *s = arg;
    int fd;

    (void)events;
    (void)log_kind_sweep(&s->refused, loop_now(s->loop));
    (void)log_kind_sweep(&s->unread, loop_now(s->loop));
    for (int i = 0; i < ACCEPTED_AT_ONCE && (fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0; i++) {
        answer_peer(s, fd);
        close(fd);
    }
}

static void on_signal(void *arg, int signo)
{
    (void)signo;
    loop_stop(arg);
}

static int check_root(const char *dir, char *why, size_t size)
{
    struct ca_root *root = NULL;
    struct users u;
    int err = ca_root_open(&root, dir, ROLE_NONE, why, size);

    ca_root_free(root);
    if (err)
        return err;
    err = users_open(&u, dir, true, why, size);
    users_free(&u);
    return err;
}

int login_socket_serve(const struct login_socket_config *config)
{
    struct login_socket s = {.config = config, .fd = -1};
    char addr[PATH_MAX + 8], bound[ADDR_TEXT], why[WHY];
    struct loop_fd *reading = NULL;
    int err;

    snprintf(addr, sizeof addr, "unix:%s", config->path);
    log_init("login", LOG_INFO);
    if (strcmp(config->path, LOGIN_SOCKET) == 0)
        (void)mkdir(LOGIN_SOCKET_DIR, 0755); /* what is wrong with it, listen_open says */
    err = check_root(config->ca, why, sizeof why);
    if (!err)
        err = listen_open(addr, &s.fd, bound, why, sizeof why);
    if (!err && (err = listen_for_all(addr, why, sizeof why)) != 0)
        listen_close(addr, s.fd);
    if (err) {
        say_error("user", "%s", why);
        return HAWK_EXIT_FAILED;
    }
    s.loop = loop_new(0);
    err = loop_signal(s.loop, SIGTERM, on_signal, s.loop);
    if (!err)
        err = loop_signal(s.loop, SIGINT, on_signal, s.loop);
    CHECK(err == 0);
    reading = loop_fd_add(s.loop, s.fd, LOOP_READ, on_connection, &s);
    if (document_wanted())
        document_print(json_pack("{s:s}", "ready", config->path));
    else
        printf("ready %s\n", config->path);
    fflush(stdout);
    supervisor_say("READY=1");
    loop_run(s.loop);
    loop_fd_remove(reading);
    loop_free(s.loop);
    listen_close(addr, s.fd);
    return HAWK_EXIT_OK;
}

/* ---- Who takes one ---- */

static int connect_to(const char *path, int *fd, char *why, size_t size)
{
    struct timeval wait = {.tv_sec = ANSWER_WAIT_S};
    union sockaddr_any sa = {.un = {.sun_family = AF_UNIX}};
    uint32_t uid;

    *fd = -1;
    if (strlen(path) >= sizeof sa.un.sun_path)
        return ca_complain(why, size, HAWK_EINVALID, path, "the path is too long for a socket");
    memcpy(sa.un.sun_path, path, strlen(path));
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || setsockopt(*fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) != 0 ||
        setsockopt(*fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) != 0)
        return ca_complain(why, size, HAWK_EIO, path, strerror(errno));
    if (connect(*fd, &sa.sa, sizeof sa.un) != 0) {
        bool nobody = errno == ENOENT || errno == ECONNREFUSED;

        return ca_complain(why, size, nobody ? HAWK_ENOT_FOUND : HAWK_EIO, path,
                           nobody ? "nobody gives credentials there (`hawk user serve`)" : strerror(errno));
    }
    uid = listen_peer_uid(*fd);
    if (uid == 0 || uid == geteuid())
        return 0;
    snprintf(why, size, "%s: user %u listens there, who is neither root nor you: take no credential of his",
             path, (unsigned)uid);
    return HAWK_EINVALID;
}

int login_socket_take(const char *path, char **text, char *why, size_t size)
{
    char *answer = xcalloc(1, CREDENTIAL_MAX + 1);
    const size_t mark = strlen(LOGIN_SOCKET_ERROR);
    size_t len = 0;
    ssize_t n;
    int fd, err = connect_to(path, &fd, why, size);

    while (!err && len < CREDENTIAL_MAX && (n = recv(fd, answer + len, CREDENTIAL_MAX - len, 0)) > 0)
        len += (size_t)n;
    if (fd >= 0)
        close(fd);
    if (!err && len == 0)
        err = ca_complain(why, size, HAWK_EIO, path, "it gave no answer");
    if (!err && strncmp(answer, LOGIN_SOCKET_ERROR, mark) == 0) {
        snprintf(why, size, "%.*s", (int)strcspn(answer + mark, "\n"), answer + mark);
        err = HAWK_EINVALID;
    }
    if (err) {
        free(answer);
        answer = NULL;
    }
    *text = answer;
    return err;
}
