/* `hawk ca init DIR`, `hawk ca issue DIR`. */
#include "ca/command.h"

#include "ca/ca.h"
#include "cli/document.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

struct ca_options {
    const char *role, *name, *scopes, *out, *output;
    int64_t life_us;
};

const struct flag ca_flags[] = {
    FLAG(CHOICE, struct ca_options, role, "role", 0, "central|dist|worker|user",
         "issue: whom the certificate is for"),
    FLAG(TEXT, struct ca_options, name, "name", 0, "NAME",
         "issue: the node's name, as it joins under it, or the user's"),
    FLAG(TEXT, struct ca_options, scopes, "scopes", 0, "LIST",
         "issue: what the user may do, of read, submit, operate, admin; default: read,submit"),
    FLAG_ABOVE_0(struct ca_options, life_us, "for", 0, "TIME",
                 "issue: how long the certificate is good; default: 14d, and 30d for users"),
    FLAG(TEXT, struct ca_options, out, "out", 0, "DIR", "issue: where the files go; default: this directory"),
    FLAG(CHOICE, struct ca_options, output, "output", 'o', "table|json", "form of the output"),
    {0},
};

const char ca_details[] =
    "init makes two roots in a directory, and issue makes keys and certificates that one of them signs:\n"
    "  DIR/nodes   the node root, for centrals, dists and workers\n"
    "  DIR/users   the user root; keep this folder where users are administered, and never on central\n"
    "  DIR/roots.crt   both roots' certificates, for every machine (tls.roots, HAWK_TLS_ROOTS)\n"
    "issue writes NAME.crt and NAME.key. It replaces those of an earlier certificate of the same name and\n"
    "role, and daemons that use them notice that by themselves.\n"
    "\nExit codes: 0 done, 1 a file could not be read or written, 2 the command line is wrong.\n"
    "\nexamples:\n"
    "  hawk ca init /etc/hawk/ca\n"
    "  hawk ca issue /etc/hawk/ca --role worker --name node7\n"
    "  hawk ca issue /etc/hawk/ca --role user --name ann --for 90d\n"
    "  hawk ca issue /etc/hawk/ca --role user --name olga --scopes read,submit,operate\n";

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
    snprintf(text, sizeof text, "%s/roots.crt: copy it to every machine; keep %s/users to yourself", dir,
             dir);
    return say_files(dir, "roots", text);
}

static int issue_one(const char *dir, const struct ca_options *o)
{
    char why[PATH_MAX + 200], text[PATH_MAX + IDENTITY_TEXT + 100], names[IDENTITY_TEXT];
    const char *out = o->out ? o->out : ".";
    struct identity who;
    int64_t life_us = o->life_us;
    int err;

    if (!o->role || !o->name)
        return usage_error("ca issue needs --role and --name");
    if (!identity_set_role(&who, o->role) || strlen(o->name) > LIMIT_NAME_BYTES)
        return usage_error("ca issue: a name has at most %u characters", LIMIT_NAME_BYTES);
    snprintf(who.name, sizeof who.name, "%s", o->name);
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
    snprintf(text, sizeof text, "%s/%s.crt, %s/%s.key: for %s", out, o->name, out, o->name,
             identity_text(&who, names));
    return say_files(out, o->name, text);
}

int ca_main(int argc, char **argv)
{
    struct ca_options o = {0};
    int first = flags_parse("ca", ca_flags, NULL, false, argc, argv, &o);

    if (first < 0)
        return -first;
    if (argc - first == 2 && strcmp(argv[first], "init") == 0)
        return make_roots(argv[first + 1]);
    if (argc - first == 2 && strcmp(argv[first], "issue") == 0)
        return issue_one(argv[first + 1], &o);
    return usage_error("ca: write `hawk ca init DIR` or `hawk ca issue DIR --role ROLE --name NAME`; "
                       "`hawk help ca` tells more");
}
