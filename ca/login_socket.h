/* The login socket: `hawk user serve` gives each person of this machine who connects to it a credential for the uid
 * that the kernel names. `hawk login` takes it there.
 *
 * Who connects sends nothing. The answer is a credential (ca/credential.h), or "error: " and a text; then the
 * connection ends. */
#ifndef HAWK_CA_LOGIN_SOCKET_H
#define HAWK_CA_LOGIN_SOCKET_H

#include "base/err.h"
#include "base/units.h"

#include <stddef.h>
#include <stdint.h>

#define LOGIN_SOCKET_DIR "/run/hawk-login"          /* only root may write there */
#define LOGIN_SOCKET LOGIN_SOCKET_DIR "/login.sock" /* unless another is named */
#define LOGIN_SOCKET_ERROR "error: "
#define LOGIN_SOCKET_LIFE_US (INT64_C(12) * 3600 * US_PER_S) /* of its credentials, unless told */
#define LOGIN_SOCKET_LOWEST_UID 1000u                        /* whom it serves, unless told */

struct login_socket_config {
    const char *path, *ca, *dist; /* the socket; the directory with the user root; addresses, may be empty */
    int64_t life_us;              /* of the credentials */
    unsigned scopes;              /* of users that the list does not have yet */
    uint32_t lowest_uid;
};

/* Serves until SIGTERM or SIGINT; an exit code. It prints "ready PATH" when people can connect. */
int login_socket_serve(const struct login_socket_config *config);
/* Takes a credential at the socket: a text, the caller's to free after OPENSSL_cleanse. Only root and the caller
 * himself may have opened the socket. HAWK_ENOT_FOUND: nobody listens there; HAWK_EINVALID: refused, why is the answer;
 * HAWK_EIO. */
HAWK_MUST_USE int login_socket_take(const char *path, char **text, char *why, size_t size);

#endif
