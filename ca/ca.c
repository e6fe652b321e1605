/* See ca.h. */
#include "ca/ca.h"

#include "base/check.h"
#include "base/io.h"
#include "base/mem.h"
#include "ca/file.h"
#include "ca/pem.h"
#include "net/certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SERIAL_BYTES 16
#define COMMON_NAME_MAX 64 /* X.509's limit */

/* A certificate and its key. */
struct pair {
    X509 *certificate;
    EVP_PKEY *key;
};

static void pair_free(struct pair *p)
{
    X509_free(p->certificate);
    EVP_PKEY_free(p->key);
}

/* ---- Files ---- */

/* The caller has made sure that there is room. */
static void path_join(char path[PATH_MAX], const char *dir, const char *name)
{
    CHECK(snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX);
}

static int write_certificates(const char *path, X509 *const *v, unsigned n, char *why, size_t size)
{
    char *pem = pem_of(v, n);
    int err = ca_write(path, 0644, pem, strlen(pem), why, size);

    free(pem);
    return err;
}

/* Writes both files of a pair into a directory. The key goes first: a new certificate never lies beside an old key. */
static int write_pair(const struct pair *p, const char *dir, const char *name, char *why, size_t size)
{
    char path[PATH_MAX], leaf[LIMIT_NAME_BYTES + 8];
    int err;

    snprintf(leaf, sizeof leaf, "%s.key", name);
    path_join(path, dir, leaf);
    if ((err = pem_write_key(path, p->key, why, size)) != 0)
        return err;
    snprintf(leaf, sizeof leaf, "%s.crt", name);
    path_join(path, dir, leaf);
    return write_certificates(path, &p->certificate, 1, why, size);
}

static X509 *read_certificate(const char *path)
{
    BIO *in = BIO_new_file(path, "r");
    X509 *certificate = in ? PEM_read_bio_X509(in, NULL, NULL, NULL) : NULL;

    BIO_free(in);
    return certificate;
}

/* What the system says goes first: `hawk ca init` remedies nothing where the file is there. */
static int root_unreadable(const char *path, const char *what, char *why, size_t size)
{
    int error = faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) ? errno : 0;

    return ca_complain(why, size, HAWK_EIO, path,
                       error == ENOENT ? "it is not there: `hawk ca init` makes it"
                       : error         ? strerror(error)
                                       : what);
}

static int read_root(const char *dir, struct pair *root, char *why, size_t size)
{
    char path[PATH_MAX];
    BIO *in;

    *root = (struct pair){0};
    path_join(path, dir, "root.crt");
    if (!(root->certificate = read_certificate(path)))
        return root_unreadable(path, "it holds no certificate in PEM", why, size);
    path_join(path, dir, "root.key");
    in = BIO_new_file(path, "r");
    root->key = in ? PEM_read_bio_PrivateKey(in, NULL, NULL, (void *)(uintptr_t) "") : NULL;
    BIO_free(in);
    if (!root->key)
        return root_unreadable(path, "it holds no private key in PEM", why, size);
    if (X509_check_private_key(root->certificate, root->key) != 1)
        return ca_complain(why, size, HAWK_ECORRUPT, path, "it is not the key of root.crt beside it");
    return 0;
}

/* ---- Certificates ---- */

static void add_extension(X509 *c, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, c, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    CHECK(e && X509_add_ext(c, e, -1) == 1);
    X509_EXTENSION_free(e);
}

/* What every certificate of this key has. The issuer's name is the caller's to set. The key becomes the pair's. */
static struct pair pair_new(EVP_PKEY *key, const char *common_name, int64_t life_us)
{
    struct pair p = {.certificate = X509_new(), .key = key};
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *serial;
    time_t now = time(NULL);

    CHECK(p.certificate && p.key && RAND_bytes(bytes, sizeof bytes) == 1);
    bytes[0] = (unsigned char)((bytes[0] & 0x7f) | 0x40); /* positive, and never shorter */
    serial = BN_bin2bn(bytes, sizeof bytes, NULL);
    CHECK(serial && BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(p.certificate)));
    BN_free(serial);
    CHECK(X509_set_version(p.certificate, X509_VERSION_3) == 1 && X509_set_pubkey(p.certificate, p.key) == 1);
    CHECK(ASN1_TIME_set(X509_getm_notBefore(p.certificate), now - CA_BACKDATED_US / US_PER_S));
    CHECK(ASN1_TIME_set(X509_getm_notAfter(p.certificate), now + life_us / US_PER_S));
    CHECK(X509_NAME_add_entry_by_txt(X509_get_subject_name(p.certificate), "CN", MBSTRING_ASC,
                                     (const unsigned char *)common_name, -1, -1, 0) == 1);
    return p;
}

static void sign_with(struct pair *p, const struct pair *by)
{
    CHECK(X509_set_issuer_name(p->certificate, X509_get_subject_name(by->certificate)) == 1);
    CHECK(X509_sign(p->certificate, by->key, EVP_sha256()) > 0);
}

/* limits: the names that it may sign. */
static struct pair root_new(const char *common_name, const char *limits)
{
    struct pair p = pair_new(EVP_EC_gen("P-256"), common_name, CA_ROOT_LIFE_US);

    add_extension(p.certificate, p.certificate, NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
    add_extension(p.certificate, p.certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
    add_extension(p.certificate, p.certificate, NID_name_constraints, limits);
    add_extension(p.certificate, p.certificate, NID_subject_key_identifier, "hash");
    sign_with(&p, &p);
    return p;
}

/* The key becomes the pair's. */
static struct pair leaf_new(const struct pair *root, EVP_PKEY *key, const struct identity *who,
                            int64_t life_us)
{
    char names[IDENTITY_NAMES_MAX][IDENTITY_TEXT], scope[SCOPES_TEXT];
    char all[IDENTITY_NAMES_MAX * (IDENTITY_TEXT + 5) + SCOPE_COUNT * (SCOPES_TEXT + 20) + 80];
    unsigned n = identity_names(who, names);
    struct pair p =
        pair_new(key, strlen(names[0]) <= COMMON_NAME_MAX ? names[0] : identity_role(who), life_us);
    size_t len = 0;

    for (unsigned i = 0; i < n; i++)
        len += (size_t)snprintf(all + len, sizeof all - len, "%sDNS:%s", i ? "," : "", names[i]);
    for (unsigned bit = 1; bit <= who->scopes; bit <<= 1)
        if (who->scopes & bit)
            len += (size_t)snprintf(all + len, sizeof all - len, ",URI:" IDENTITY_SCOPE "%s",
                                    scopes_format(scope, bit));
    if (who->slots)
        len += (size_t)snprintf(all + len, sizeof all - len, ",URI:" IDENTITY_SLOTS "%u", who->slots);
    if (who->has_uid)
        snprintf(all + len, sizeof all - len, ",URI:" IDENTITY_UID "%u", who->uid);
    add_extension(p.certificate, root->certificate, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(p.certificate, root->certificate, NID_key_usage, "critical,digitalSignature");
    add_extension(p.certificate, root->certificate, NID_ext_key_usage,
                  who->role == ROLE_NONE ? "clientAuth" : "clientAuth,serverAuth");
    add_extension(p.certificate, root->certificate, NID_subject_alt_name, all);
    add_extension(p.certificate, root->certificate, NID_subject_key_identifier, "hash");
    add_extension(p.certificate, root->certificate, NID_authority_key_identifier, "keyid");
    if (ASN1_TIME_compare(X509_get0_notAfter(p.certificate), X509_get0_notAfter(root->certificate)) > 0)
        CHECK(X509_set1_notAfter(p.certificate, X509_get0_notAfter(root->certificate)) == 1);
    sign_with(&p, root);
    return p;
}

/* ---- The roots ---- */

/* Only those above it, where other things may lie, are everybody's to enter. */
static int make_dir(const char *path, char *why, size_t size)
{
    char above[PATH_MAX];
    int err;

    snprintf(above, sizeof above, "%s", path);
    err = dir_make(dirname(above), 0755, why, size);
    return err ? err : dir_make(path, 0700, why, size);
}

static int write_root(const char *dir, const char *room, const struct pair *root, char *why, size_t size)
{
    char path[PATH_MAX];
    int err;

    path_join(path, dir, room);
    if ((err = dir_make(path, 0700, why, size)) != 0)
        return err;
    return write_pair(root, path, "root", why, size);
}

/* Whether roots, or parts of them, are there already. */
static int check_empty(const char *dir, char *why, size_t size)
{
    static const char *const files[] = {CA_ROOTS, "nodes/root.key", "nodes/root.crt", "users/root.key",
                                        "users/root.crt"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        path_join(path, dir, files[i]);
        if (access(path, F_OK) == 0)
            return ca_complain(
                why, size, HAWK_EEXISTS, path,
                "a root is there already, and machines may trust it; choose another directory");
    }
    return 0;
}

int ca_init(const char *dir, char *why, size_t size)
{
    char path[PATH_MAX];
    struct pair nodes, users;
    int err;

    if (strlen(dir) > PATH_MAX - 32)
        return ca_complain(why, size, HAWK_EIO, dir, strerror(ENAMETOOLONG));
    if ((err = check_empty(dir, why, size)) != 0 || (err = make_dir(dir, why, size)) != 0)
        return err;
    path_join(path, dir, CA_ROOTS);
    nodes = root_new("Hawk node root", "critical,permitted;DNS:central.hawk,permitted;DNS:dist.hawk,"
                                       "permitted;DNS:worker.hawk,permitted;DNS:" IDENTITY_SCHEDULER);
    users = root_new("Hawk user root", "critical,permitted;DNS:user.hawk");
    if ((err = write_root(dir, "nodes", &nodes, why, size)) == 0 &&
        (err = write_root(dir, "users", &users, why, size)) == 0)
        err = write_certificates(path, (X509 *const[]){nodes.certificate, users.certificate}, 2, why, size);
    pair_free(&nodes);
    pair_free(&users);
    return err;
}

/* ---- Issuing ---- */

/* Whether a certificate and a key that lie where new ones go are somebody else's. */
static int check_place(const char *out, const struct identity *who, char *why, size_t size)
{
    char path[PATH_MAX], leaf[LIMIT_NAME_BYTES + 8];
    struct identity other;
    X509 *certificate;
    bool same;

    snprintf(leaf, sizeof leaf, "%s.crt", who->name);
    path_join(path, out, leaf);
    if (access(path, F_OK) == 0) {
        certificate = read_certificate(path);
        same = certificate && certificate_names(certificate, &other) && other.role == who->role &&
               strcmp(other.name, who->name) == 0;
        X509_free(certificate);
        return same ? 0
                    : ca_complain(why, size, HAWK_EEXISTS, path,
                                  "it is there, and not of this name and role: move it away");
    }
    snprintf(leaf, sizeof leaf, "%s.key", who->name);
    path_join(path, out, leaf);
    return access(path, F_OK) != 0 ? 0
                                   : ca_complain(why, size, HAWK_EEXISTS, path,
                                                 "it is there without its certificate: move it away");
}

int ca_issue(const char *dir, const struct identity *who, int64_t life_us, const char *out, char *why,
             size_t size)
{
    char path[PATH_MAX];
    struct pair root, p;
    int err;

    if (!identity_name_fits(who->name)) {
        snprintf(why, size, "'%s' cannot be in a certificate: a name has letters, digits, '-', '_' and '.'",
                 who->name);
        return HAWK_EINVALID;
    }
    if (strlen(dir) > PATH_MAX - 32 || strlen(out) > PATH_MAX - LIMIT_NAME_BYTES - 16)
        return ca_complain(why, size, HAWK_EIO, dir, strerror(ENAMETOOLONG));
    if ((err = check_place(out, who, why, size)) != 0)
        return err;
    path_join(path, dir, who->role == ROLE_NONE ? "users" : "nodes");
    err = read_root(path, &root, why, size);
    if (!err) {
        p = leaf_new(&root, EVP_EC_gen("P-256"), who, life_us);
        err = write_pair(&p, out, who->name, why, size);
        pair_free(&p);
    }
    pair_free(&root);
    return err;
}

/* ---- A root that stays open ---- */

struct ca_root {
    struct pair pair;
};

int ca_root_open(struct ca_root **out, const char *dir, enum role role, char *why, size_t size)
{
    char path[PATH_MAX];
    struct ca_root *r = xcalloc(1, sizeof *r);
    int err = HAWK_EIO;

    *out = NULL;
    if (ca_path(path, dir, role == ROLE_NONE ? "users" : "nodes", why, size) && strlen(path) < PATH_MAX - 32)
        err = read_root(path, &r->pair, why, size);
    if (!err) {
        *out = r;
        return 0;
    }
    ca_root_free(r);
    return err;
}

void ca_root_free(struct ca_root *r)
{
    if (!r)
        return;
    pair_free(&r->pair);
    free(r);
}

X509 *ca_root_certificate(const struct ca_root *r) { return r->pair.certificate; }

int ca_make_pair(const struct ca_root *r, const struct identity *who, int64_t life_us, char **certificate,
                 char **key)
{
    struct pair p;

    if (!identity_name_fits(who->name))
        return HAWK_EINVALID;
    p = leaf_new(&r->pair, EVP_EC_gen("P-256"), who, life_us);
    *certificate = pem_of(&p.certificate, 1);
    *key = pem_of_key(p.key);
    pair_free(&p);
    return 0;
}

void ca_sign_text(const struct ca_root *r, const char *text, char base64[SIGNATURE_TEXT])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t signature[SIGNATURE_TEXT / 2];
    size_t n = sizeof signature;

    CHECK(ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, r->pair.key) == 1 &&
          EVP_DigestSign(ctx, signature, &n, (const uint8_t *)text, strlen(text)) == 1);
    EVP_MD_CTX_free(ctx);
    EVP_EncodeBlock((uint8_t *)base64, signature, (int)n);
}

/* The key that a request is for; NULL: the request is not good. */
static EVP_PKEY *requested_key(const uint8_t *der, size_t len)
{
    const unsigned char *at = der;
    X509_REQ *request = len > 0 && len <= CA_REQUEST_MAX ? d2i_X509_REQ(NULL, &at, (long)len) : NULL;
    EVP_PKEY *key = request && at == der + len ? X509_REQ_get0_pubkey(request) : NULL;
    char group[32] = "";

    if (key && (!EVP_PKEY_is_a(key, "EC") || EVP_PKEY_get_group_name(key, group, sizeof group, NULL) != 1 ||
                strcmp(group, SN_X9_62_prime256v1) != 0 || X509_REQ_verify(request, key) != 1 ||
                EVP_PKEY_up_ref(key) != 1))
        key = NULL;
    X509_REQ_free(request);
    return key;
}

bool ca_request_is_of(const uint8_t *der, size_t len, const struct identity *who)
{
    EVP_PKEY *key = requested_key(der, len);
    X509 *holder = X509_new();
    uint8_t hash[EVP_MAX_MD_SIZE];
    bool same;

    CHECK(holder);
    same = key && X509_set_pubkey(holder, key) == 1 &&
           X509_pubkey_digest(holder, EVP_sha256(), hash, NULL) == 1 &&
           memcmp(hash, who->key, IDENTITY_KEY) == 0;
    X509_free(holder);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return same;
}

int ca_sign_request(const struct ca_root *r, const struct identity *who, const uint8_t *der, size_t len,
                    int64_t life_us, char **pem, uint64_t *number)
{
    EVP_PKEY *key = requested_key(der, len);
    uint8_t hash[EVP_MAX_MD_SIZE];
    struct pair p;

    ERR_clear_error();
    if (!key || !identity_name_fits(who->name)) {
        EVP_PKEY_free(key);
        return HAWK_EINVALID;
    }
    p = leaf_new(&r->pair, key, who, life_us);
    CHECK(X509_pubkey_digest(p.certificate, EVP_sha256(), hash, NULL) == 1);
    memcpy(number, hash, sizeof *number);
    *pem = pem_of(&p.certificate, 1);
    pair_free(&p);
    return 0;
}
