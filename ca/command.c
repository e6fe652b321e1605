/* `hawk ca init`, and `hawk ca issue|invite|revoke`. */
#include "ca/command.h"

#include "base/entropy.h"
#include "ca/audit.h"
#include "ca/ca.h"
#include "ca/file.h"
#include "ca/invitation.h"
#include "ca/users.h"
#include "cli/document.h"
#include "cli/print.h"
#include "net/addr.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INVITATION_LIFE_US (3600 * US_PER_S)

struct ca_options {
    const char *role, *name, *scopes, *out, *output;
    const char *central;
    bool yes;
    uint32_t uses, slots;
    int64_t life_us;
};

const struct flag ca_flags[] = {
    FLAG(CHOICE, struct ca_options, role, "role", 0, "central|dist|worker|user",
         "issue, invite, revoke: whom the certificate is for"),
    FLAG(TEXT, struct ca_options, name, "name", 0, "NAME",
         "issue, invite, revoke: the node's name, as it joins under it, or the user's; invite: a pattern "
         "with one *, "
         "too"),
    FLAG(TEXT, struct ca_options, scopes, "scopes", 0, "LIST",
         "issue: what the user may do, of read, submit, operate, admin; default: read,submit"),
    FLAG_ABOVE_0(struct ca_options, life_us, "for", 0, "TIME",
                 "issue: how long the certificate is good; default: 14d, and 30d for users; invite: how long "
                 "the invitation is; default: 1h"),
    FLAG(TEXT, struct ca_options, central, "central", 0, "ADDRESS",
         "invite: where central is; several centrals: all of theirs, comma separated"),
    FLAG_NUMBER(struct ca_options, uses, "uses", 0, "N", "invite: how many nodes may use it; default: 1", 1,
                INVITATION_USES_MAX),
    FLAG_NUMBER(struct ca_options, slots, "slots", 0, "N",
                "invite: the most slots that a worker may have; default: any number", 1, UINT32_MAX),
    FLAG(TEXT, struct ca_options, out, "out", 0, "DIR",
         "issue, invite: where the files go; default: this directory"),
    FLAG(BOOL, struct ca_options, yes, "yes", 'y', NULL,
         "revoke: also a name for which no certificate is on record"),
    FLAG(CHOICE, struct ca_options, output, "output", 'o', "table|json", "form of the output"),
    {0},
};

const char ca_details[] =
    "DIR is /etc/hawk/ca unless another is named.\n"
    "init makes two roots in it, and issue makes keys and certificates that one of them signs:\n"
    "  DIR/nodes   the node root, for centrals, dists and workers\n"
    "  DIR/users   the user root; keep this folder where users are administered, and never on central\n"
    "  DIR/roots.crt   both roots' certificates, for every machine (tls.roots, HAWK_TLS_ROOTS)\n"
    "issue writes NAME.crt and NAME.key. It replaces those of an earlier certificate of the same name and\n"
    "role, and daemons that use them notice that by themselves.\n"
    "invite writes NAME.invitation, with which `hawk worker --join FILE` or `hawk dist --join FILE` gets a\n"
    "certificate of central by itself, and renews it. Central must have been started with --ca. Whoever has\n"
    "the file can use it.\n"
    "People get their certificates by `hawk user add`.\n"
    "revoke makes the certificates of a name worthless that were made until now, and ends its connections.\n"
    "It writes DIR/denied, signed with the node root. A central with --ca DIR takes that within seconds and\n"
    "tells all nodes; for any other, copy the file into its state_dir while it runs: it keeps the newest\n"
    "list of each root. A name for which DIR/audit.log and DIR/users/list know no certificate and no\n"
    "invitation is refused without --yes.\n"
    "\nExit codes: 0 done, 1 a file could not be read or written, 2 the command line is wrong, or names\n"
    "what was never issued.\n"
    "\nexamples:\n"
    "  hawk ca init\n"
    "  hawk ca issue /etc/hawk/ca --role worker --name node7\n"
    "  hawk ca invite /etc/hawk/ca --role worker --name node7 --for 1h --central 10.0.0.1:7070\n"
    "  hawk ca invite /etc/hawk/ca --role worker --name 'hpc-*' --uses 40 --slots 64 --for 1d\n"
    "  hawk ca revoke /etc/hawk/ca --role worker --name node7\n"
    "  hawk ca issue /etc/hawk/ca --role user --name ci --for 90d\n";

static int say_files(const char *dir, const char *name, const char *text)
{
    char certificate[PATH_MAX], key[PATH_MAX];

    snprintf(certificate, sizeof certificate, "%s/%s.crt", dir, name);
    snprintf(key, sizeof key, "%s/%s.key", dir, name);
    if (!document_wanted())
        puts(text);
    else if (strcmp(name, "roots") == 0)
        document_print(json_pack("{s:s}", "roots", certificate));
    else
        document_print(json_pack("{s:s, s:s}", "certificate", certificate, "key", key));
    return HAWK_EXIT_OK;
}

static int say_failure(int err, const char *why)
{
    say_error("ca", "%s", why);
    return err == HAWK_EINVALID ? HAWK_EXIT_USAGE : HAWK_EXIT_FAILED;
}

static int make_roots(const char *dir)
{
    char why[PATH_MAX + 200], text[PATH_MAX + 100];
    int err = ca_init(dir, why, sizeof why);

    if (err)
        return say_failure(err, why);
    ca_audit(dir, "made the roots");
    snprintf(text, sizeof text, "%s/roots.crt: copy it to every machine; keep %s/users to yourself", dir,
             dir);
    return say_files(dir, "roots", text);
}

/* Whose certificates a command is about. An exit code. */
static int read_identity(const char *command, const struct ca_options *o, struct identity *who)
{
    *who = (struct identity){0};
    if (!o->role || !o->name)
        return usage_error("ca %s needs --role and --name", command);
    if (!identity_set_role(who, o->role) || strlen(o->name) > LIMIT_NAME_BYTES)
        return usage_error("ca %s: a name has at most %u characters", command, LIMIT_NAME_BYTES);
    snprintf(who->name, sizeof who->name, "%s", o->name);
    return HAWK_EXIT_OK;
}

static int issue_one(const char *dir, const struct ca_options *o)
{
    char why[PATH_MAX + 200], text[PATH_MAX + IDENTITY_TEXT + 100], names[IDENTITY_TEXT];
    const char *out = o->out ? o->out : ".";
    struct identity who = {0};
    int64_t life_us = o->life_us;
    int code = read_identity("issue", o, &who), err;

    if (code)
        return code;
    if (o->scopes && who.role != ROLE_NONE)
        return usage_error("ca issue: --scopes are a user's");
    if (o->scopes && !scopes_parse(o->scopes, &who.scopes))
        return usage_error("ca issue: --scopes is a list of read, submit, operate and admin, not '%s'",
                           o->scopes);
    if (life_us == 0)
        life_us = who.role == ROLE_NONE ? CA_USER_LIFE_US : CA_NODE_LIFE_US;
    if (life_us < US_PER_S)
        return usage_error("ca issue: --for is at least 1s");
    if ((err = ca_issue(dir, &who, life_us, out, why, sizeof why)) != 0)
        return say_failure(err, why);
    identity_text(&who, names);
    ca_audit(dir, "issued a certificate for %s to %s", names, out);
    snprintf(text, sizeof text, "%s/%s.crt, %s/%s.key: for %s", out, o->name, out, o->name, names);
    return say_files(out, o->name, text);
}

/* ---- Invitations ---- */

static int write_invitation(const char *dir, struct invitation *v, const char *out)
{
    char why[PATH_MAX + 200] = "", path[PATH_MAX], leaf[LIMIT_NAME_BYTES + 16], until[CLOCK_TEXT], *text;
    struct ca_root *root = NULL;
    int err = ca_path(path, dir, CA_ROOTS, why, sizeof why) ? 0 : HAWK_EIO;

    if (!err)
        err = ca_read(path, &v->roots, why, sizeof why);
    if (!err)
        err = ca_check_roots(path, v->roots, INVITATION_ROOTS_MAX, "an invitation", why, sizeof why);
    if (!err)
        err = ca_root_open(&root, dir, v->role, why, sizeof why);
    snprintf(leaf, sizeof leaf, "%s.invitation", v->name);
    for (char *at = leaf; *at; at++)
        if (*at == '*')
            *at = '_'; /* a name that no shell takes for a pattern */
    if (!err && ca_path(path, out, leaf, why, sizeof why)) {
        text = invitation_write(v, root);
        err = ca_write(path, 0600, text, strlen(text), why, sizeof why);
        free(text);
    }
    ca_root_free(root);
    if (err || *why)
        return say_failure(err, why);
    ca_audit(dir, "invited %s %s, %u time%s, until %s", role_text(v->role), v->name, v->uses,
             v->uses == 1 ? "" : "s", utc_text(until, v->until_s));
    if (document_wanted())
        document_print(json_pack("{s:s}", "invitation", path));
    else
        printf("%s: use it with `hawk %s --join FILE`\n", path, role_text(v->role));
    return HAWK_EXIT_OK;
}

/* Whether every address of a comma separated list is one. */
static bool addresses_good(const char *list, char *why, size_t size)
{
    char addr[ADDR_TEXT];

    while (*list) {
        list = addr_first(list, addr);
        if (addr_check(addr, why, size) != 0)
            return false;
    }
    return true;
}

static int invite(const char *dir, const struct ca_options *o)
{
    struct invitation v = {.uses = o->uses ? o->uses : 1, .slots = o->slots, .id = entropy()};
    struct identity who = {0};
    int64_t life_us = o->life_us ? o->life_us : INVITATION_LIFE_US;
    char why[512];
    int code;

    if (!o->role || !o->name)
        return usage_error("ca invite needs --role and --name");
    if (!identity_set_role(&who, o->role) || (who.role != ROLE_WORKER && who.role != ROLE_DIST))
        return usage_error("ca invite: workers and dists can be invited; a central has its own --ca");
    if (!invitation_pattern_good(o->name))
        return usage_error("ca invite: a name has letters, digits, '-', '_' and '.', and at most one *");
    if (o->slots && who.role != ROLE_WORKER)
        return usage_error("ca invite: --slots are a worker's");
    if (life_us < US_PER_S || life_us > INVITATION_LIFE_MAX_US)
        return usage_error("ca invite: --for is 1s to 30d");
    if (o->central &&
        (strlen(o->central) >= sizeof v.central || !addresses_good(o->central, why, sizeof why)))
        return usage_error("ca invite: --central: %s",
                           strlen(o->central) >= sizeof v.central ? "these are too many addresses" : why);
    v.role = who.role;
    v.until_s = time(NULL) + life_us / US_PER_S;
    snprintf(v.name, sizeof v.name, "%s", o->name);
    snprintf(v.central, sizeof v.central, "%s", o->central ? o->central : "");
    code = write_invitation(dir, &v, o->out ? o->out : ".");
    invitation_free(&v);
    return code;
}

/* ---- Revocations ---- */

static bool user_is_listed(const char *dir, const char *name)
{
    char why[PATH_MAX + 200];
    struct users u;
    bool listed = users_open(&u, dir, false, why, sizeof why) == 0 && users_find(&u, name);

    users_free(&u);
    return listed;
}

/* Whether what is issued in the role is on record in this directory: it is where the root is, and central makes its own
 * certificate at its start. */
static bool role_is_recorded(const char *dir, enum role role)
{
    const char *root = role == ROLE_NONE ? "users/root.key" : "nodes/root.key";
    char path[PATH_MAX], why[PATH_MAX + 200];

    return role != ROLE_CENTRAL && ca_path(path, dir, root, why, sizeof why) && access(path, F_OK) == 0;
}

/* A typo would leave the key that was meant good. An exit code. */
static int check_record(const char *dir, const struct identity *who)
{
    char name[IDENTITY_TEXT];
    bool named;
    int err = ca_audit_names(dir, who, &named);

    identity_text(who, name);
    if (named || (who->role == ROLE_NONE && user_is_listed(dir, who->name)))
        return HAWK_EXIT_OK;
    if (!err && role_is_recorded(dir, who->role))
        return usage_error("ca revoke: %s/" CA_AUDIT " has no certificate and no invitation of %s on record: "
                           "mend the name, or say --yes to revoke it all the same",
                           dir, name);
    say_warning("ca",
                "whether there is a certificate of %s is not on record in %s: see that the name is right",
                name, dir);
    return HAWK_EXIT_OK;
}

static int revoke_name(const char *dir, const struct ca_options *o)
{
    char why[PATH_MAX + 200], name[IDENTITY_TEXT];
    struct identity who = {0};
    uint64_t version;
    int code = read_identity("revoke", o, &who), err;

    if (code)
        return code;
    if (!o->yes && (code = check_record(dir, &who)) != 0)
        return code;
    if ((err = ca_revoke(dir, &who, &version, why, sizeof why)) != 0)
        return say_failure(err, why);
    identity_text(&who, name);
    ca_audit(dir, "revoked %s, version %llu", name, (unsigned long long)version);
    if (document_wanted())
        document_print(json_pack("{s:s, s:I}", "revoked", name, "version", (json_int_t)version));
    else
        printf("%s/denied, version %llu: certificates of %s made until now are good no more\n", dir,
               (unsigned long long)version, name);
    return HAWK_EXIT_OK;
}

int ca_main(int argc, char **argv)
{
    struct ca_options o = {0};
    int first = flags_parse("ca", ca_flags, NULL, false, argc, argv, &o);

    if (first < 0)
        return -first;
    if (first < argc && argc - first <= 2) {
        const char *what = argv[first], *dir = argc - first == 2 ? argv[first + 1] : CA_DIR;
        if (strcmp(what, "init") == 0)
            return make_roots(dir);
        if (strcmp(what, "issue") == 0)
            return issue_one(dir, &o);
        if (strcmp(what, "invite") == 0)
            return invite(dir, &o);
        if (strcmp(what, "revoke") == 0)
            return revoke_name(dir, &o);
    }
    return usage_error(
        "ca: write `hawk ca init [DIR]`, or `hawk ca issue|invite|revoke [DIR] --role ROLE --name NAME`; "
        "`hawk help ca` tells more");
}
