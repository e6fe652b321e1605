/* This process' side of TLS: its key and certificate, and the roots that it trusts, from PEM files. They are
 * read anew when they change. New connections then use what was read; open ones go on.
 *
 * All of a struct tls belongs to one thread, the loop's. tls_conn.h has what runs on gRPC's threads. */
#ifndef HAWK_NET_TLS_H
#define HAWK_NET_TLS_H

#include "base/err.h"
#include "net/identity.h"
#include "net/signed.h"

#include <grpc/grpc_security.h>
#include <openssl/ssl.h>
#include <stdint.h>

#define TLS_LOOK_US (1 * US_PER_S) /* between two looks at the files */
#define TLS_WHY 512                /* room for any text about what is wrong */

struct tls_files {
    const char *certificate; /* the certificate, and those between it and a root */
    const char *key;         /* its private key; only its owner may read it */
    const char *roots;
};

struct tls;

/* Whether any file is named, and whether all are. */
static inline bool tls_files_any(const struct tls_files *f)
{
    return (f->certificate && *f->certificate) || (f->key && *f->key) || (f->roots && *f->roots);
}
static inline bool tls_files_all(const struct tls_files *f)
{
    return f->certificate && *f->certificate && f->key && *f->key && f->roots && *f->roots;
}

/* Reads the files; copies their names. NULL: why (TLS_WHY bytes) names the file and what is wrong. An expired
 * certificate is no error: others refuse it, and a new one may come. */
struct tls *tls_new(const struct tls_files *f, char why[TLS_WHY]);
void tls_free(struct tls *t); /* NULL is fine; what it has given out stays good */
/* Reads files that have changed, at most once in TLS_LOOK_US. What cannot be read changes nothing; the log says
 * so, once, when that lasts. Call it before a connection begins. */
void tls_refresh(struct tls *t, int64_t now_us);
/* As a cluster goes from tokens to TLS (tls.optional): accepted connections may be plain, and links are dialled without
 * TLS to peers that do not answer with it. Whoever has no certificate needs a token. */
void tls_make_optional(struct tls *t);
bool tls_is_optional(const struct tls *t); /* NULL: false */
/* From now on accepted connections need no certificate: whoever shows none is ROLE_GUEST. */
void tls_take_guests(struct tls *t);
/* For dialling without a certificate. roots: PEM. NULL: no certificate of a root is in it. */
struct tls *tls_new_guest(const char *roots);
/* A number that changes with what the files hold. */
uint32_t tls_material(const struct tls *t);
/* Our certificate (PEM), with those that follow it in the file; borrowed until the next tls_refresh. */
const char *tls_certificate(const struct tls *t);
/* A peer, known as *who by the certificate of its connection, shows another one (PEM, with those that it needs besides
 * to reach a root). If that is for the same node and key, and lives longer, *who becomes what it says: the connection
 * has proven that the peer has the key. HAWK_ESTALE: another key, or no longer life; the peer is as good as it was.
 * HAWK_EDENIED: it is somebody else's, or our roots have not signed it, or it is over. why: a reason for people. */
#define TLS_SHOWN_MAX 16384u /* bytes of such a text */
HAWK_MUST_USE int tls_take_renewed(const struct tls *t, const char *pem, struct identity *who,
                                   char why[TLS_WHY]);
/* Whom this process' certificate is for. */
const struct identity *tls_identity(const struct tls *t);
/* What this process signs submissions with, and checks them by (net/signed.h), now; borrowed until the next
 * tls_refresh. */
struct credential_key tls_signer(const struct tls *t);
void tls_checker(const struct tls *t, struct signed_checker *checker);
/* How many signatures checkers of this process have verified, good or not. */
uint64_t tls_signatures_verified(const struct tls *t);
/* For connections that are accepted. The caller's to keep: SSL_CTX_free. */
SSL_CTX *tls_accepting(const struct tls *t);
/* For connections that are dialled; gRPC must run. Borrowed until the next tls_refresh. */
grpc_channel_credentials *tls_dialling(struct tls *t);

/* For dialling a foreign server, whose certificate is for its host: the caller's to release. NULL: why (TLS_WHY bytes)
 * names the file and what is wrong. */
grpc_channel_credentials *tls_foreign(const struct tls_files *f, char why[TLS_WHY]);

/* Certificates that are good no more (net/denied.h): takes the first list of a text, whose version it sets. 1: it is in
 * force from now on; 0: it is already; HAWK_ESTALE: a later one of the same root is; HAWK_EINVALID: why says what is
 * wrong. */
int tls_deny(struct tls *t, const char *text, uint64_t *version, char *why, size_t size);
/* The lists in force; NULL: none is. Borrowed until the next tls_deny. */
const struct denied *tls_denied(const struct tls *t);
uint64_t tls_denials(const struct tls *t); /* lists that were put in force so far */
/* Why a peer's certificate is good no more, or NULL. Static. */
const char *tls_why_not(const struct tls *t, const struct identity *who);
/* The same for whoever is refused, and for the log: whose it is, and what remedies it. */
bool tls_refusal(const struct tls *t, const struct identity *who, char *text, size_t size);

#endif
