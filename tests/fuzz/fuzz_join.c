/* What a stranger may send in order to join: invitations, certificate requests, and the calls that carry them; and lists
 * of revoked names, which nodes take from central. What is taken is what its text says, and for nobody else. */
#include "base/check.h"
#include "base/mem.h"
#include "base/units.h"
#include "ca/file.h"
#include "ca/invitation.h"
#include "net/api.h"
#include "net/denied.h"
#include "tests/fuzz/lib/input.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ca_root *root;
static char *roots;

/* Roots of this process' own, which are not needed on the disk any more. */
static void make_root(void)
{
    char dir[] = "/tmp/hawk-fuzz-XXXXXX", path[PATH_MAX], command[64], why[PATH_MAX + 200];

    CHECK(mkdtemp(dir) && ca_init(dir, why, sizeof why) == 0);
    CHECK(ca_root_open(&root, dir, ROLE_CENTRAL, why, sizeof why) == 0);
    CHECK(ca_path(path, dir, CA_ROOTS, why, sizeof why) && ca_read(path, &roots, why, sizeof why) == 0);
    snprintf(command, sizeof command, "rm -r %s", dir);
    CHECK(system(command) == 0); /* NOLINT(cert-env33-c): a name of our own */
}

/* The rest of the input as a text. */
static char *take_text(struct input *in)
{
    char *text = xmemdup0((const char *)in->p, input_left(in));

    in->p = in->end;
    return text;
}

/* The text with this root's signature behind it. */
static char *sign(const char *text)
{
    size_t room = strlen(text) + SIGNATURE_TEXT + 40;
    char *all = xcalloc(1, room), base64[SIGNATURE_TEXT];

    ca_sign_text(root, text, base64);
    snprintf(all, room, "%s" SIGNATURE_KEY "%s\n", text, base64);
    return all;
}

static void check_invitation(const char *text, X509 *by)
{
    struct invitation v, again;
    char why[1024], *written;

    if (invitation_read(&v, text, by, why, sizeof why) == 0) {
        CHECK(v.role == ROLE_WORKER || v.role == ROLE_DIST);
        CHECK(invitation_pattern_good(v.name) && v.uses >= 1 && v.uses <= INVITATION_USES_MAX &&
              v.until_s >= 0);
        CHECK(invitation_has_pattern(&v) || invitation_fits(&v, v.name));
        CHECK(!invitation_fits(&v, ""));
        written = invitation_write(&v, root);
        CHECK(invitation_read(&again, written, ca_root_certificate(root), why, sizeof why) == 0);
        CHECK(again.id == v.id && again.uses == v.uses && again.slots == v.slots &&
              again.until_s == v.until_s && strcmp(again.name, v.name) == 0 &&
              strcmp(again.central, v.central) == 0 && again.role == v.role);
        invitation_free(&again);
        free(written);
    } else {
        CHECK(*why);
    }
    invitation_free(&v);
}

/* One that this root has signed: whatever else is in it. */
static void check_signed(const char *text)
{
    char *all = sign(text), why[400];
    struct denied *d = denied_read(all, roots, why, sizeof why);
    const struct identity somebody = {.role = ROLE_WORKER, .name = "node7", .made_s = 1};

    check_invitation(all, ca_root_certificate(root));
    if (d) {
        CHECK(denied_version(d) > 0);
        (void)denied_has(d, &somebody);
    } else {
        CHECK(*why);
    }
    denied_free(d);
    free(all);
}

static void check_request(const uint8_t *der, size_t len)
{
    const struct identity who = {.role = ROLE_WORKER, .name = "node7", .slots = 8};
    struct identity made;
    char *pem = NULL;
    uint64_t number;
    BIO *in;
    X509 *certificate;

    if (ca_sign_request(root, &who, der, len, US_PER_S, &pem, &number)) {
        CHECK(!pem && !ca_request_is_of(der, len, &who));
        return;
    }
    in = BIO_new_mem_buf(pem, -1);
    certificate = PEM_read_bio_X509(in, NULL, NULL, NULL);
    CHECK(certificate && certificate_names(certificate, &made));
    CHECK(made.role == ROLE_WORKER && strcmp(made.name, "node7") == 0 && made.slots == 8);
    CHECK(ca_request_is_of(der, len, &made));
    X509_free(certificate);
    BIO_free(in);
    free(pem);
}

/* The name that somebody wants, by an invitation for any name. */
static void check_wanted_name(const char *name)
{
    const struct invitation any = {.name = "*"};

    if (!invitation_fits(&any, name))
        return;
    CHECK(identity_name_fits(name));
    (void)invitation_use(&any, name, 1);
}

static void check_call(const uint8_t *data, size_t len)
{
    struct api_join_request join;
    struct api_renew_request renew;
    char why[400];

    if (api_decode(&api_join_request_type, data, len, &join, why, sizeof why) == 0) {
        check_invitation(join.invitation, ca_root_certificate(root));
        check_wanted_name(join.name);
        check_request(join.request, join.request_n);
        api_free(&api_join_request_type, &join);
    }
    if (api_decode(&api_renew_request_type, data, len, &renew, why, sizeof why) == 0) {
        check_request(renew.request, renew.request_n);
        api_free(&api_renew_request_type, &renew);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    uint32_t what = take_below(&in, 4);
    char *text;

    if (!root)
        make_root();
    if (what == 0)
        check_request(in.p, input_left(&in));
    else if (what == 1)
        check_call(in.p, input_left(&in));
    else {
        text = take_text(&in);
        if (what == 2)
            check_invitation(text, NULL);
        else
            check_signed(text);
        free(text);
    }
    return 0;
}
