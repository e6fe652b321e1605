/* See tls.h. */
#include "net/tls.h"

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/units.h"
#include "net/certificate.h"
#include "net/denied.h"
#include "net/signed.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CERTIFICATE, KEY, ROOTS, FILES };
static const char *const settings[FILES] = {"tls.certificate", "tls.key", "tls.roots"};

/* What a file was when it was looked at. */
struct look {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
    int err; /* 0, or the errno: nothing else is set */
};

/* What the files hold. */
struct material {
    char *text[FILES];
    struct identity who;
    SSL_CTX *accepting;
    grpc_channel_credentials *dialling; /* NULL: nothing was dialled yet */
};

struct tls {
    char *path[FILES];
    struct look look[FILES]; /* of the last attempt to read them */
    int64_t looked_us;
    struct material now;
    uint32_t materials; /* times that something was read */
    bool bad;           /* the last attempt failed */
    bool told;          /* and the log says so */
    bool guests;        /* may come in */
    bool optional;
    struct denied *denied; /* NULL: nobody is */
    uint64_t denials;
    struct verified *verified; /* by the roots in `now` */
};

/* ---- Files ---- */

static struct look look_at(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return (struct look){.err = errno};
    return (struct look){.dev = st.st_dev, .ino = st.st_ino, .size = st.st_size, .changed = st.st_mtim};
}

static bool same_look(const struct look *a, const struct look *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->err == b->err &&
           a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static bool complain_file(char why[TLS_WHY], int file, const char *path, const char *what)
{
    snprintf(why, TLS_WHY, "%s: %.300s: %.150s", settings[file], path, what);
    return false;
}

/* Sets *text to what the file holds, which the caller frees. */
static bool read_file(int file, const char *path, char **text, char why[TLS_WHY])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    bool good = false;

    if (fd < 0 || fstat(fd, &st) != 0)
        complain_file(why, file, path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || st.st_size > (off_t)CERTIFICATE_FILE_MAX)
        complain_file(why, file, path, "it is no regular file of at most 1 MiB");
    else if (file == KEY && st.st_mode & 077)
        complain_file(why, file, path, "others can read the key: chmod 600 it");
    else if (read(fd, *text = xcalloc(1, (size_t)st.st_size + 1), (size_t)st.st_size) < 0)
        complain_file(why, file, path, strerror(errno));
    else
        good = true;
    if (fd >= 0)
        close(fd);
    return good;
}

/* ---- Certificates ---- */

static const char *openssl_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());

    return reason ? reason : "it is damaged";
}

/* The certificate and those that follow it in the file. */
static bool use_certificates(SSL_CTX *ctx, const char *text, struct identity *who)
{
    BIO *in = BIO_new_mem_buf(text, -1);
    X509 *own = PEM_read_bio_X509(in, NULL, NULL, NULL), *other;
    bool good = own && SSL_CTX_use_certificate(ctx, own) == 1;

    if (good && !certificate_names(own, who))
        *who = (struct identity){0};
    X509_free(own);
    while (good && (other = PEM_read_bio_X509(in, NULL, NULL, NULL)))
        if (!(good = SSL_CTX_add0_chain_cert(ctx, other) == 1))
            X509_free(other);
    BIO_free(in);
    return good;
}

static bool use_key(SSL_CTX *ctx, const char *text)
{
    BIO *in = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, NULL, (void *)(uintptr_t) "");
    bool good = key && SSL_CTX_use_PrivateKey(ctx, key) == 1;

    EVP_PKEY_free(key);
    BIO_free(in);
    return good;
}

/* HTTP/2, as gRPC's clients offer it. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                           const unsigned char *in, unsigned in_len, void *arg)
{
    for (unsigned at = 0; at < in_len; at += 1u + in[at])
        if (in[at] == 2 && at + 3 <= in_len && memcmp(in + at + 1, "h2", 2) == 0) {
            *out = in + at + 1;
            *out_len = 2;
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* TLS 1.3 alone: there is nothing to renegotiate, and the client's certificate travels encrypted. */
static SSL_CTX *context_new(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    CHECK(ctx && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1);
    CHECK(SSL_CTX_set_ciphersuites(
              ctx, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384") == 1);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    /* It shows what the file has, and does not look for more with each handshake. */
    SSL_CTX_set_mode(ctx, SSL_MODE_NO_AUTO_CHAIN | SSL_MODE_ENABLE_PARTIAL_WRITE |
                              SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_quiet_shutdown(ctx, 1);
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_alpn_select_cb(ctx, choose_protocol, NULL);
    return ctx;
}

static void material_free(struct material *m)
{
    for (int i = 0; i < FILES; i++) {
        if (m->text[i])
            OPENSSL_cleanse(m->text[i], strlen(m->text[i]));
        free(m->text[i]);
    }
    SSL_CTX_free(m->accepting);
    if (m->dialling)
        grpc_channel_credentials_release(m->dialling);
    *m = (struct material){0};
}

static bool material_use(struct material *m, char *const path[FILES], char why[TLS_WHY])
{
    m->accepting = context_new();
    ERR_clear_error();
    if (!use_certificates(m->accepting, m->text[CERTIFICATE], &m->who))
        return complain_file(why, CERTIFICATE, path[CERTIFICATE], openssl_reason());
    if (!identity_is_set(&m->who))
        return complain_file(why, CERTIFICATE, path[CERTIFICATE],
                             "its names (DNS) must have one of the form NAME.ROLE.hawk, and no second");
    if (!use_key(m->accepting, m->text[KEY]) || SSL_CTX_check_private_key(m->accepting) != 1)
        return complain_file(why, KEY, path[KEY],
                             ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH
                                 ? "it is not the key of tls.certificate"
                                 : openssl_reason());
    if (!certificate_add_roots(SSL_CTX_get_cert_store(m->accepting), m->text[ROOTS]))
        return complain_file(why, ROOTS, path[ROOTS], "no certificate of a root is in it");
    return true;
}

static void let_guests_in(const struct material *m)
{
    SSL_CTX_set_verify(m->accepting, SSL_VERIFY_PEER, NULL);
}

static bool material_read(struct material *m, char *const path[FILES], char why[TLS_WHY])
{
    bool good = true;

    *m = (struct material){0};
    for (int i = 0; i < FILES && good; i++)
        good = read_file(i, path[i], &m->text[i], why);
    good = good && material_use(m, path, why);
    ERR_clear_error();
    if (!good)
        material_free(m);
    return good;
}

/* ---- Beginning, looking, end ---- */

struct tls *tls_new(const struct tls_files *f, char why[TLS_WHY])
{
    struct tls *t = xcalloc(1, sizeof *t);

    CHECK(tls_files_all(f));
    t->verified = verified_new();
    t->path[CERTIFICATE] = xstrdup(f->certificate);
    t->path[KEY] = xstrdup(f->key);
    t->path[ROOTS] = xstrdup(f->roots);
    for (int i = 0; i < FILES; i++)
        t->look[i] = look_at(t->path[i]);
    if (material_read(&t->now, t->path, why))
        return t;
    tls_free(t);
    return NULL;
}

struct tls *tls_new_guest(const char *roots)
{
    struct tls *t = xcalloc(1, sizeof *t);

    t->now.accepting = context_new();
    t->now.text[ROOTS] = xstrdup(roots);
    if (certificate_add_roots(SSL_CTX_get_cert_store(t->now.accepting), roots))
        return t;
    tls_free(t);
    return NULL;
}

void tls_make_optional(struct tls *t) { t->optional = true; }
bool tls_is_optional(const struct tls *t) { return t && t->optional; }

void tls_take_guests(struct tls *t)
{
    t->guests = true;
    let_guests_in(&t->now);
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    material_free(&t->now);
    denied_free(t->denied);
    verified_free(t->verified);
    for (int i = 0; i < FILES; i++)
        free(t->path[i]);
    free(t);
}

/* A new certificate must be for the same node: its name and role are known to others. */
static bool read_anew(struct tls *t, char why[TLS_WHY])
{
    struct material m;

    if (!material_read(&m, t->path, why))
        return false;
    if (m.who.role != t->now.who.role || strcmp(m.who.name, t->now.who.name) != 0) {
        char text[IDENTITY_TEXT];
        snprintf(why, TLS_WHY, "%s: %.100s: it is for somebody else, %s", settings[CERTIFICATE],
                 t->path[CERTIFICATE], identity_text(&m.who, text));
        material_free(&m);
        return false;
    }
    if (t->guests)
        let_guests_in(&m);
    material_free(&t->now);
    t->now = m;
    t->materials++;
    verified_forget(t->verified);
    return true;
}

void tls_refresh(struct tls *t, int64_t now_us)
{
    char why[TLS_WHY];
    bool changed = false;

    if (!t->path[ROOTS] || (t->looked_us && now_us - t->looked_us < TLS_LOOK_US))
        return;
    t->looked_us = now_us;
    for (int i = 0; i < FILES; i++) {
        struct look look = look_at(t->path[i]);
        changed |= !same_look(&look, &t->look[i]);
        t->look[i] = look;
    }
    if (!changed && (!t->bad || t->told))
        return;
    if (read_anew(t, why)) {
        log_info("TLS: %s and its key are in use from now on", t->path[CERTIFICATE]);
        t->bad = t->told = false;
        return;
    }
    /* Between the replacing of two files they do not fit together: that alone is not worth a line. */
    t->told = t->bad && !changed;
    if (t->told)
        log_error("TLS: %s; what was read before stays in use", why);
    t->bad = true;
}

uint32_t tls_material(const struct tls *t) { return t->materials; }
const char *tls_certificate(const struct tls *t) { return t->now.text[CERTIFICATE]; }

/* ---- A peer's renewed certificate ---- */

/* Whether our roots have signed a text's first certificate, and it is good now. */
static bool is_signed(const struct tls *t, const char *pem, struct identity *who, char why[TLS_WHY])
{
    BIO *in = BIO_new_mem_buf(pem, -1);
    X509 *own = PEM_read_bio_X509(in, NULL, NULL, NULL), *other;
    STACK_OF(X509) *others = sk_X509_new_null();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    bool good = own && certificate_names(own, who);

    CHECK(others && ctx);
    if (!good)
        snprintf(why, TLS_WHY, "what it shows is no node's certificate");
    while (good && (other = PEM_read_bio_X509(in, NULL, NULL, NULL)))
        CHECK(sk_X509_push(others, other) > 0);
    if (good && (X509_STORE_CTX_init(ctx, SSL_CTX_get_cert_store(t->now.accepting), own, others) != 1 ||
                 X509_verify_cert(ctx) != 1)) {
        snprintf(why, TLS_WHY, "the certificate that it shows is not good: %s",
                 X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
        good = false;
    }
    X509_STORE_CTX_free(ctx);
    sk_X509_pop_free(others, X509_free);
    X509_free(own);
    BIO_free(in);
    ERR_clear_error();
    return good;
}

int tls_take_renewed(const struct tls *t, const char *pem, struct identity *who, char why[TLS_WHY])
{
    struct identity shown;
    char text[IDENTITY_TEXT];

    if (strlen(pem) > TLS_SHOWN_MAX) {
        snprintf(why, TLS_WHY, "the certificate that it shows has more than %u bytes", TLS_SHOWN_MAX);
        return HAWK_EDENIED;
    }
    if (!is_signed(t, pem, &shown, why))
        return HAWK_EDENIED;
    if (shown.role != who->role || strcmp(shown.name, who->name) != 0) {
        snprintf(why, TLS_WHY, "the certificate that it shows is for somebody else, %s",
                 identity_text(&shown, text));
        return HAWK_EDENIED;
    }
    if (memcmp(shown.key, who->key, sizeof shown.key) != 0 || shown.until_s <= who->until_s) {
        snprintf(why, TLS_WHY, "the certificate that it shows is for another key, or no newer");
        return HAWK_ESTALE;
    }
    *who = shown;
    return 0;
}

const struct identity *tls_identity(const struct tls *t) { return &t->now.who; }

SSL_CTX *tls_accepting(const struct tls *t)
{
    CHECK(SSL_CTX_up_ref(t->now.accepting) == 1);
    return t->now.accepting;
}

grpc_channel_credentials *tls_dialling(struct tls *t)
{
    struct material *m = &t->now;
    grpc_ssl_pem_key_cert_pair pair = {.private_key = m->text[KEY], .cert_chain = m->text[CERTIFICATE]};

    if (!m->dialling)
        m->dialling =
            grpc_ssl_credentials_create(m->text[ROOTS], pair.private_key ? &pair : NULL, NULL, NULL);
    CHECK(m->dialling);
    return m->dialling;
}

grpc_channel_credentials *tls_foreign(const struct tls_files *f, char why[TLS_WHY])
{
    const char *const path[FILES] = {f->certificate, f->key, f->roots};
    grpc_ssl_pem_key_cert_pair pair;
    struct material m = {0};
    int i;

    CHECK(tls_files_all(f));
    for (i = 0; i < FILES && read_file(i, path[i], &m.text[i], why); i++)
        ;
    if (i == FILES) {
        pair = (grpc_ssl_pem_key_cert_pair){.private_key = m.text[KEY], .cert_chain = m.text[CERTIFICATE]};
        m.dialling = grpc_ssl_credentials_create(m.text[ROOTS], &pair, NULL, NULL);
    } else {
        memmove(why, strchr(why, ' ') + 1,
                strlen(strchr(why, ' '))); /* these are no settings of section tls */
    }
    grpc_channel_credentials *made = m.dialling;
    m.dialling = NULL;
    material_free(&m);
    return made;
}

/* ---- Submissions ---- */

struct credential_key tls_signer(const struct tls *t)
{
    const struct identity *who = &t->now.who;
    struct credential_key signer = {.who = who,
                                    .certificate = SSL_CTX_get0_certificate(t->now.accepting),
                                    .key = SSL_CTX_get0_privatekey(t->now.accepting),
                                    .roots = SSL_CTX_get_cert_store(t->now.accepting)};

    if (who->role != ROLE_NONE || !(who->scopes & SCOPE_SUBMIT) || !signer.certificate)
        signer.key = NULL;
    return signer;
}

void tls_checker(const struct tls *t, struct signed_checker *checker)
{
    *checker = (struct signed_checker){.roots = SSL_CTX_get_cert_store(t->now.accepting),
                                       .denied = t->denied,
                                       .verified = t->verified,
                                       .now_s = (int64_t)time(NULL)};
}

/* ---- Peers that are good no more ---- */

int tls_deny(struct tls *t, const char *text, uint64_t *version, char *why, size_t size)
{
    struct denied *d = denied_read(text, t->now.text[ROOTS], why, size);
    int got;

    if (!d)
        return HAWK_EINVALID;
    *version = denied_version(d);
    got = denied_put(&t->denied, d);
    t->denials += got > 0;
    return got;
}

uint64_t tls_signatures_verified(const struct tls *t)
{
    return verified_counted(t->verified, VERIFIED_BATCH);
}

const struct denied *tls_denied(const struct tls *t) { return t->denied; }

uint64_t tls_denials(const struct tls *t) { return t->denials; }

const char *tls_why_not(const struct tls *t, const struct identity *who)
{
    if (who->until_s && who->until_s <= time(NULL))
        return "its certificate has expired";
    if (t->denied && denied_has(t->denied, who))
        return "its certificate was revoked";
    return NULL;
}

bool tls_refusal(const struct tls *t, const struct identity *who, char *text, size_t size)
{
    const char *why = tls_why_not(t, who);
    char name[IDENTITY_TEXT];

    if (why)
        snprintf(text, size, "%s: %s: %s", identity_text(who, name), why,
                 who->role == ROLE_NONE ? "`hawk user add` makes another"
                                        : "a new invitation (`hawk ca invite`) gives it another");
    return why;
}
