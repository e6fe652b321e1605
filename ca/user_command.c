/* `hawk user add|list|revoke|serve`, where the user root is kept. */
#include "ca/user_command.h"

#include "base/account.h"
#include "base/mem.h"
#include "base/units.h"
#include "ca/audit.h"
#include "ca/ca.h"
#include "ca/credential.h"
#include "ca/file.h"
#include "ca/grant.h"
#include "ca/login_socket.h"
#include "cli/document.h"
#include "cli/print.h"
#include "net/addr.h"
#include "net/denied.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WHY (PATH_MAX + 300)

struct user_options {
    const char *ca, *scopes, *dist, *out, *output, *uid, *socket;
    int64_t life_us;
    uint32_t lowest_uid;
};

const struct flag user_flags[] = {
    FLAG(TEXT, struct user_options, ca, "ca", 0, "DIR",
         "the directory of `hawk ca init`, with its users/; default: " CA_DIR),
    FLAG(TEXT, struct user_options, uid, "uid", 0, "N",
         "add: the user's uid on the cluster's machines; default: that of the account of this name here"),
    FLAG(TEXT, struct user_options, scopes, "scopes", 0, "LIST",
         "add, serve: what the user may do, of read, submit, operate, admin; default: read,submit, or as "
         "before"),
    FLAG_ABOVE_0(struct user_options, life_us, "for", 0, "TIME",
                 "add, serve: how long the credential is good; default: 30d, and 12h at the socket"),
    FLAG(TEXT, struct user_options, dist, "dist", 0, "ADDRESS",
         "add, serve: dists that the user's commands ask, comma separated; default: $HAWK_DIST, else none"),
    FLAG(TEXT, struct user_options, out, "out", 0, "FILE",
         "add: where the credential goes, to be taken with `hawk login FILE`; default: the home of the user, "
         "or "
         "NAME.credential where he has none here"),
    FLAG(TEXT, struct user_options, socket, "socket", 0, "PATH",
         "serve: the login socket; default: " LOGIN_SOCKET),
    FLAG_NUMBER(struct user_options, lowest_uid, "lowest-uid", 0, "N",
                "serve: users below get no credential there; default: 1000", 1, UINT32_MAX - 2),
    FLAG(CHOICE, struct user_options, output, "output", 'o', "table|json", "form of the output"),
    {0},
};

const char user_details[] =
    "add makes a credential: a key, and a certificate with the user's name, uid, scopes and time, signed by "
    "the\n"
    "user root. A user who has an account and a home on this machine finds it there, and can submit at once\n"
    "(run it as root). For others it goes to a file: whoever has it is that user, so carry it well, and "
    "remove\n"
    "it when the user has taken it with `hawk login FILE`. Adding a user again renews the credential.\n"
    "list shows who has been given one.\n"
    "serve opens a socket on this machine. Whoever runs `hawk login` here takes a credential there: the "
    "kernel "
    "says\n"
    "who it is. It serves until SIGTERM; hawk-login.service runs it.\n"
    "revoke makes all credentials of a user worthless that were made until now, and ends his connections. "
    "It\n"
    "writes DIR/denied, which a central with --ca DIR tells all nodes; for any other, copy that file into\n"
    "its state_dir while it runs: it adds what it has of the node root.\n"
    "\nExit codes: 0 done, 1 a file could not be read or written, 2 the command line is wrong.\n"
    "\nexamples:\n"
    "  hawk user add ann\n"
    "  hawk user add olga --scopes read,submit,operate --for 90d\n"
    "  hawk user add bob --uid 1002 --dist 10.0.0.1:7071 --out bob.credential\n"
    "  hawk user list\n"
    "  hawk user serve --dist 10.0.0.1:7071\n"
    "  hawk user revoke bob\n";

static int say_failure(int err, const char *why)
{
    say_error("user", "%s", why);
    return err == HAWK_EINVALID ? HAWK_EXIT_USAGE : HAWK_EXIT_FAILED;
}

/* ---- Whom ---- */

/* The account of this name; without a name, there is none. An exit code. */
static int find_account(const struct user_options *o, const char *name, struct account *account)
{
    int err = account_of_name(account, name);

    if (err == HAWK_EUNAVAILABLE && !(o->uid && o->out)) {
        say_error("user", "the account %s could not be looked up: try again, or say --uid and --out", name);
        return HAWK_EXIT_FAILED;
    }
    return HAWK_EXIT_OK;
}

/* The uid that is asked for, that the user had, or that his account has. An exit code. */
static int choose_uid(const struct user_options *o, const struct users *u, const struct account *account,
                      struct identity *who)
{
    const struct identity *known = users_find(u, who->name);
    char why[WHY];
    uint64_t n;

    who->has_uid = true;
    if (o->uid && (u64_parse(o->uid, 0, UINT32_MAX, &n) != 0 || !identity_uid_fits((uint32_t)n)))
        return usage_error("user add: --uid is a number, and not 65534, which is nobody's");
    if (o->uid)
        who->uid = (uint32_t)n;
    else if (known)
        who->uid = known->uid;
    else if (account->name && identity_uid_fits(account->uid))
        who->uid = account->uid;
    else
        return usage_error("user add: no account is called %s here: say with --uid which uid he has on the "
                           "cluster's machines",
                           who->name);
    if (grant_check(u, who, why, sizeof why) != 0)
        return usage_error("user add: %s", why);
    return HAWK_EXIT_OK;
}

static int choose_scopes(const struct user_options *o, const struct users *u, struct identity *who)
{
    const struct identity *known = users_find(u, who->name);

    if (o->scopes && !scopes_parse(o->scopes, &who->scopes))
        return usage_error("user add: --scopes is a list of read, submit, operate and admin, not '%s'",
                           o->scopes);
    if (!o->scopes && known)
        who->scopes = known->scopes;
    return HAWK_EXIT_OK;
}

/* ---- The credential ---- */

/* Where it went, for people. */
struct place {
    char path[PATH_MAX];
    bool home;
};

static int put_credential(const struct credential *c, const struct account *account, const char *out,
                          struct place *at, char *why, size_t size)
{
    char name[LIMIT_NAME_BYTES + 16], *text;
    bool same = account->name && account->uid == c->who.uid;
    int err;

    at->home = !out && same && (geteuid() == 0 || geteuid() == account->uid);
    if (at->home && geteuid() != account->uid)
        err = credential_install_as(c, account, at->path, why, size);
    else if (at->home)
        err = login_dir(at->path)
                  ? credential_install(c, at->path, why, size)
                  : ca_complain(why, size, HAWK_EIO, c->who.name, "you have no home: use --out");
    else {
        snprintf(name, sizeof name, "%s.credential", c->who.name);
        snprintf(at->path, sizeof at->path, "%s", out ? out : name);
        text = credential_write(c);
        err = ca_write(at->path, 0600, text, strlen(text), why, size);
        OPENSSL_cleanse(text, strlen(text));
        free(text);
    }
    return err;
}

static void say_added(const char *dir, const struct identity *who, const struct place *at)
{
    char scopes[SCOPES_TEXT], until[CLOCK_TEXT];

    scopes_format(scopes, who->scopes);
    utc_text(until, who->until_s);
    ca_audit(dir, "added user %s (uid %u; scopes %s), until %s", who->name, (unsigned)who->uid, scopes,
             until);
    if (document_wanted())
        document_print(json_pack("{s:s, s:I, s:s, s:s, s:s}", "user", who->name, "uid", (json_int_t)who->uid,
                                 "scopes", scopes, "until", until, at->home ? "directory" : "credential",
                                 at->path));
    else if (at->home)
        printf("%s (uid %u; scopes %s), until %s: the credential is in %s\n", who->name, (unsigned)who->uid,
               scopes, until, at->path);
    else
        printf("%s (uid %u; scopes %s), until %s: %s, a secret, is for `hawk login FILE`\n", who->name,
               (unsigned)who->uid, scopes, until, at->path);
}

static int check_life(const struct user_options *o, const char *word)
{
    return o->life_us && o->life_us < US_PER_S ? usage_error("user %s: --for is at least 1s", word) : 0;
}

static int check_dists(const char *list, const char *word)
{
    char addr[ADDR_TEXT], why[512];

    if (list && strlen(list) >= LOGIN_DIST_MAX)
        return usage_error("user %s: these are too many dists", word);
    while (list && *list) {
        list = addr_first(list, addr);
        if (addr_check(addr, why, sizeof why) != 0)
            return usage_error("user %s: --dist: %s", word, why);
    }
    return HAWK_EXIT_OK;
}

static const char *dists_told(const struct user_options *o)
{
    const char *env = getenv("HAWK_DIST");

    return o->dist ? o->dist : env ? env : "";
}

static int add_user(const char *dir, const char *name, const struct user_options *o)
{
    struct identity who = {.scopes = SCOPES_OF_USERS};
    struct account account = {0};
    struct credential c = {0};
    struct place at = {0};
    struct users u = {.lock = -1};
    char why[WHY];
    int code, err;

    if (strlen(name) > LIMIT_NAME_BYTES || !identity_name_fits(name))
        return usage_error("user add: a name has letters, digits, '-', '_' and '.'");
    snprintf(who.name, sizeof who.name, "%s", name);
    if (o->out && strlen(o->out) > PATH_MAX - sizeof ".new")
        return usage_error("user add: --out is too long");
    if ((code = check_life(o, "add")) != 0 || (code = check_dists(o->dist, "add")) != 0)
        return code;
    code = find_account(o, name, &account); /* before others have to wait for the list */
    if (!code) {
        err = users_open(&u, dir, true, why, sizeof why);
        code = err ? say_failure(err, why) : choose_uid(o, &u, &account, &who);
    }
    if (!code)
        code = choose_scopes(o, &u, &who);
    if (!code) {
        err = grant_credential(&u, &who, o->life_us ? o->life_us : CA_USER_LIFE_US, dists_told(o), &c, why,
                               sizeof why);
        users_free(&u); /* others need the list, and the user may hold up what happens in his home */
        if (!err)
            err = put_credential(&c, &account, o->out, &at, why, sizeof why);
        if (err)
            code = say_failure(err, why);
        else
            say_added(dir, &c.who, &at);
    }
    account_free(&account);
    credential_free(&c);
    users_free(&u);
    return code;
}

/* ---- The list ---- */

static const char *state_of(const struct identity *who, const struct denied *d)
{
    return d && denied_has(d, who) ? "revoked" : who->until_s <= time(NULL) ? "expired" : "good";
}

static void print_users(const struct users *u, const struct denied *d)
{
    struct text_table t = {0};
    char scopes[SCOPES_TEXT], until[CLOCK_TEXT];

    table_columns(&t, "USER", ">UID", "SCOPES", "UNTIL", "STATE", NULL);
    for (uint32_t i = 0; i < u->n; i++) {
        table_cell(&t, "%s", u->v[i].name);
        table_cell(&t, "%u", (unsigned)u->v[i].uid);
        table_cell(&t, "%s", scopes_format(scopes, u->v[i].scopes));
        table_cell(&t, "%s", utc_text(until, u->v[i].until_s));
        table_cell(&t, "%s", state_of(&u->v[i], d));
    }
    table_print(&t, "nobody has been given a credential\n");
}

static json_t *users_json(const struct users *u, const struct denied *d)
{
    json_t *list = json_array();
    char scopes[SCOPES_TEXT], until[CLOCK_TEXT];

    for (uint32_t i = 0; i < u->n; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:I, s:s, s:s, s:s}", "user", u->v[i].name, "uid", (json_int_t)u->v[i].uid,
                            "scopes", scopes_format(scopes, u->v[i].scopes), "until",
                            utc_text(until, u->v[i].until_s), "state", state_of(&u->v[i], d)));
    return json_pack("{s:o}", "users", list);
}

static int list_users(const char *dir)
{
    struct users u;
    char why[WHY];
    struct denied *d = NULL;
    int err = users_open(&u, dir, false, why, sizeof why), code = HAWK_EXIT_OK;

    if (!err)
        err = grant_denied(dir, &d, why, sizeof why);
    if (err)
        code = say_failure(err, why);
    else if (document_wanted())
        document_print(users_json(&u, d));
    else
        print_users(&u, d);
    denied_free(d);
    users_free(&u);
    return code;
}

static int revoke_user(const char *dir, const char *name)
{
    struct identity who = {.scopes = SCOPES_OF_USERS};
    struct users u;
    char why[WHY];
    uint64_t version;
    bool known;
    int err = users_open(&u, dir, true, why, sizeof why);

    known = !err && users_find(&u, name);
    if (!err && !known) {
        users_free(&u);
        return usage_error("user revoke: %s has been given no credential: `hawk user list` shows who has",
                           name);
    }
    snprintf(who.name, sizeof who.name, "%s", name);
    if (!err)
        err = ca_revoke(dir, &who, &version, why, sizeof why);
    users_free(&u);
    if (err)
        return say_failure(err, why);
    ca_audit(dir, "revoked user %s, version %llu", name, (unsigned long long)version);
    if (document_wanted())
        document_print(json_pack("{s:s, s:I}", "revoked", name, "version", (json_int_t)version));
    else
        printf("%s/" CA_DENIED ", version %llu: credentials of %s made until now are good no more\n", dir,
               (unsigned long long)version, name);
    return HAWK_EXIT_OK;
}

/* ---- The login socket ---- */

static int serve(const char *dir, const struct user_options *o)
{
    struct login_socket_config config = {.path = o->socket ? o->socket : LOGIN_SOCKET,
                                         .ca = dir,
                                         .dist = dists_told(o),
                                         .life_us = o->life_us ? o->life_us : LOGIN_SOCKET_LIFE_US,
                                         .scopes = SCOPES_OF_USERS,
                                         .lowest_uid = o->lowest_uid};
    int code = check_life(o, "serve");

    if (!code)
        code = check_dists(config.dist, "serve");
    if (code)
        return code;
    if (o->scopes && !scopes_parse(o->scopes, &config.scopes))
        return usage_error("user serve: --scopes is a list of read, submit, operate and admin, not '%s'",
                           o->scopes);
    return login_socket_serve(&config);
}

int user_main(int argc, char **argv)
{
    struct user_options o = {.lowest_uid = LOGIN_SOCKET_LOWEST_UID};
    int first = flags_parse("user", user_flags, NULL, false, argc, argv, &o), n = argc - first;
    const char *dir = o.ca ? o.ca : CA_DIR;

    if (first < 0)
        return -first;
    if (n == 2 && strcmp(argv[first], "add") == 0)
        return add_user(dir, argv[first + 1], &o);
    if (n == 2 && strcmp(argv[first], "revoke") == 0)
        return revoke_user(dir, argv[first + 1]);
    if (n == 1 && strcmp(argv[first], "list") == 0)
        return list_users(dir);
    if (n == 1 && strcmp(argv[first], "serve") == 0)
        return serve(dir, &o);
    return usage_error("user: write `hawk user add NAME`, `hawk user list`, `hawk user revoke NAME` or `hawk "
                       "user serve`; `hawk help user` tells more");
}
