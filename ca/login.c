/* `hawk login` and `hawk logout`: a user takes his credential, looks at it, and puts it away. */
#include "base/mem.h"
#include "ca/credential.h"
#include "ca/file.h"
#include "ca/login_socket.h"
#include "ca/pem.h"
#include "ca/user_command.h"
#include "cli/document.h"
#include "cli/print.h"
#include "cli/session.h"
#include "net/certificate.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WHY (PATH_MAX + 300)

struct login_options {
    const char *output, *socket;
};

const struct flag login_flags[] = {
    FLAG(TEXT, struct login_options, socket, "socket", 0, "PATH",
         "take a credential at this login socket (`hawk user serve`), also where you have one; without a "
         "good one: " LOGIN_SOCKET),
    FLAG(CHOICE, struct login_options, output, "output", 'o', "table|json", "form of the output"),
    {0},
};
const struct flag logout_flags[] = {
    FLAG(CHOICE, struct login_options, output, "output", 'o', "table|json", "form of the output"),
    {0},
};

const char login_details[] =
    "With a FILE of `hawk user add --out` (-: standard input) it puts that credential into your own "
    "directory,\n"
    "where all commands and libhawk find it: $HAWK_LOGIN, else $XDG_CONFIG_HOME/hawk, else ~/.config/hawk. "
    "Without\n"
    "one it says as whom you are logged in, and until when; if you are not, it takes a credential at this\n"
    "machine's login socket, where there is one. HAWK_LOGIN=none: commands use no credential.\n"
    "`hawk logout` removes it.\n"
    "\nExit codes: 0 done, 1 you are not logged in, or a file could not be read or written, 2 the credential "
    "or the\n"
    "command line is wrong.\n"
    "\nexamples:\n"
    "  hawk login ann.credential\n"
    "  ssh head cat ann.credential | hawk login -\n"
    "  hawk login\n";

static int say_failure(const char *command, int err, const char *why)
{
    say_error(command, "%s", why);
    return err == HAWK_EINVALID ? HAWK_EXIT_USAGE : HAWK_EXIT_FAILED;
}

static void say_who(const struct identity *who, const char *dir)
{
    char scopes[SCOPES_TEXT], until[CLOCK_TEXT], uid[32] = "no uid";
    bool over = who->until_s <= time(NULL);

    if (who->has_uid)
        snprintf(uid, sizeof uid, "uid %u", (unsigned)who->uid);
    scopes_format(scopes, who->scopes);
    utc_text(until, who->until_s);
    if (document_wanted())
        document_print(json_pack("{s:s, s:I, s:s, s:s, s:b, s:s}", "user", who->name, "uid",
                                 (json_int_t)(who->has_uid ? (int64_t)who->uid : -1), "scopes", scopes,
                                 "until", until, "expired", over, "directory", dir));
    else
        printf("%s (%s; scopes %s), until %s%s: %s\n", who->name, uid, scopes, until,
               over ? ", which is over" : "", dir);
}

static int no_directory(void)
{
    const char *told = getenv("HAWK_LOGIN");

    if (told && strcmp(told, "none") == 0)
        say_error("login", "HAWK_LOGIN=none: commands use no credential; unset it, or name a directory");
    else
        say_error("login", "there is no directory for your credential: set HOME or HAWK_LOGIN");
    return HAWK_EXIT_FAILED;
}

/* Puts a credential, which it wipes, into the user's directory. */
static int install(char *text, const char *dir, bool own, char *why, size_t size)
{
    struct credential c = {0};
    int err = credential_read(&c, text, why, size);

    if (!err && own && c.who.uid != geteuid())
        err = ca_complain(why, size, HAWK_EINVALID, c.who.name, "that credential is for another uid");
    if (!err)
        err = credential_install(&c, dir, why, size);
    if (!err) {
        session_warn_of_up("login", dir);
        say_who(&c.who, dir);
    }
    credential_free(&c);
    OPENSSL_cleanse(text, strlen(text));
    free(text);
    return err;
}

static int take_from_file(const char *file, const char *dir)
{
    char why[WHY], *text = NULL;
    int err = ca_read(file, &text, why, sizeof why);

    if (!err)
        err = install(text, dir, false, why, sizeof why);
    return err ? say_failure("login", err, why) : HAWK_EXIT_OK;
}

static int take_at_socket(const char *path, const char *dir)
{
    char why[WHY], *text = NULL;
    int err = login_socket_take(path, &text, why, sizeof why);

    if (!err)
        err = install(text, dir, true, why, sizeof why);
    if (err)
        say_error("login", "%s", why);
    return err ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

/* Whom the credential that is there names. HAWK_ENOT_FOUND: there is none. */
static int look_at_login(struct identity *who, char *why, size_t size)
{
    struct login l;
    X509 *certificate;
    char *pem = NULL;
    bool good;
    int err;

    if (!login_find(&l))
        return HAWK_ENOT_FOUND;
    if ((err = ca_read(l.certificate, &pem, why, size)) != 0)
        return err;
    certificate = pem_first(pem);
    good = certificate && certificate_names(certificate, who);
    X509_free(certificate);
    free(pem);
    if (good)
        return 0;
    snprintf(why, size, "the certificate there cannot be read: take your credential anew");
    return HAWK_ECORRUPT;
}

static int show_or_take(const char *dir)
{
    struct identity who = {0};
    char why[WHY];
    int err = look_at_login(&who, why, sizeof why);
    bool over = !err && who.until_s <= time(NULL);

    if ((over || err == HAWK_ENOT_FOUND) && access(LOGIN_SOCKET, F_OK) == 0)
        return take_at_socket(LOGIN_SOCKET, dir);
    if (err == HAWK_ENOT_FOUND)
        say_error("login",
                  "you are not logged in: take a credential of `hawk user add` with `hawk login FILE`"
                  " (this machine has no login socket)");
    else if (err)
        return say_failure("login", err, why);
    else {
        session_warn_of_up("login", dir);
        say_who(&who, dir);
    }
    return err || over ? HAWK_EXIT_FAILED : HAWK_EXIT_OK;
}

int login_main(int argc, char **argv)
{
    char dir[PATH_MAX];
    struct login_options o = {0};
    int first = flags_parse("login", login_flags, NULL, false, argc, argv, &o);

    if (first < 0)
        return -first;
    if (argc - first > 1)
        return usage_error("login takes one file, not also '%s'", argv[first + 1]);
    if (o.socket && first < argc)
        return usage_error("login takes a credential from --socket or from a file, not both");
    if (!login_dir(dir))
        return no_directory();
    return first < argc ? take_from_file(argv[first], dir)
           : o.socket   ? take_at_socket(o.socket, dir)
                        : show_or_take(dir);
}

int logout_main(int argc, char **argv)
{
    struct login_options o = {0};
    struct login l;
    int first = flags_parse("logout", logout_flags, NULL, false, argc, argv, &o);
    bool there;

    if (first < 0)
        return -first;
    if (first < argc)
        return usage_error("logout takes no argument '%s'", argv[first]);
    there = login_find(&l);
    const char *const paths[] = {l.key, l.certificate, l.dist, l.roots};
    for (int i = 0; there && i < 4; i++)
        if (unlink(paths[i]) != 0 && errno != ENOENT) {
            say_error("logout", "%s: %s", paths[i], strerror(errno));
            return HAWK_EXIT_FAILED;
        }
    if (document_wanted())
        document_print(json_pack("{s:b}", "removed", there));
    else
        puts(there ? "the credential is removed" : "you were not logged in");
    return HAWK_EXIT_OK;
}
