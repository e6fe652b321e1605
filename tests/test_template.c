/* Replacement strings and their quoting. The judge is the shell itself: what it prints must be the value's bytes, and
 * none of them may run. */
#include "base/mem.h"
#include "template/template.h"
#include "tests/test_base.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS(...)                                                                                           \
    (const char *const[]) { __VA_ARGS__ }

/* A filled command. */
struct filled {
    struct text text;
    size_t at[16];
    char why[TEMPLATE_WHY_MAX];
    int err;
};

static const char *word_of(const struct filled *f, int i) { return f->text.data + f->at[i]; }

static struct filled fill(uint32_t argc, const char *const *argv, const char *arg, size_t len,
                          uint32_t columns)
{
    struct filled f = {0};
    struct template *t = template_command(argc, argv, columns, true);
    struct template_input in = {.arg = arg, .len = len, .columns = columns, .number = 7};

    f.err = template_fill(t, &in, 1 << 20, &f.text, f.at, f.why);
    template_free(t);
    return f;
}

/* One word without a shell. */
static void assert_word(const char *word, const char *arg, size_t len, uint32_t columns, const char *expected)
{
    struct filled f = fill(1, &word, arg, len, columns);

    assert_int_equal(f.err, 0);
    assert_string_equal(word_of(&f, 0), expected);
    text_free(&f.text);
}
#define ONE(word, arg, expected) assert_word(word, arg, strlen(arg), 0, expected)
#define MANY(word, arg, columns, expected) assert_word(word, arg, sizeof(arg) - 1, columns, expected)

/* As GNU parallel has them. */
static void test_forms(void **state)
{
    ONE("{}", "a/b.c", "a/b.c");
    ONE("<{}{}>", "x", "<xx>");
    ONE("{.}", "a.d/b.c.gz", "a.d/b.c");
    ONE("{.}", "a.d/b", "a.d/b");
    ONE("{.}", "a.", "a.");
    ONE("{.}", ".x", "");
    ONE("{/}", "a/b.c", "b.c");
    ONE("{/}", "a/", "");
    ONE("{/}", "a", "a");
    ONE("{//}", "a/b/c", "a/b");
    ONE("{//}", "a/b//", "a");
    ONE("{//}", "a", ".");
    ONE("{//}", "/a", "/");
    ONE("{//}", "/", "/");
    ONE("{//}", "", ".");
    ONE("{/.}", "a/b.c.gz", "b.c");
    ONE("{#}", "a", "7");
    ONE("{1} {1/.}", "a/b.c", "a/b.c b");
    ONE("{2} {0} {} {.", "x", "{2} {0} x {.");
    ONE("{name} {-1} {/..} {1", "x", "{name} {-1} {/..} {1");
    ONE("$(touch x)'\"\\", "", "$(touch x)'\"\\");
}

static void test_columns(void **state)
{
    MANY("{}", "a\0b c\0d", 3, "a b c d");
    MANY("{2}-{3}-{1}", "a\0b c\0d", 3, "b c-d-a");
    MANY("{4}", "a\0b\0c", 3, "{4}");
    MANY("{2}|{3}", "a", 3, "|"); /* fewer than there are columns */
    MANY("{2/.} {/}", "a/b\0c/d.e", 2, "d b d.e");
    MANY("{100}", "a\0b", 2, "{100}");
    MANY("{99999999999999999999}", "a\0b", 2, "{99999999999999999999}");
}

static void test_whole_commands(void **state)
{
    struct filled f = fill(4, WORDS("cp", "--", "{}", "{.}.bak"), "-a b.c", 6, 0);

    assert_int_equal(f.err, 0);
    assert_string_equal(word_of(&f, 0), "cp");
    assert_string_equal(word_of(&f, 2), "-a b.c");
    assert_string_equal(word_of(&f, 3), "-a b.bak");
    text_free(&f.text);
    struct template *t = template_words(2, WORDS("{}{}{}{}", "x"), 0);
    struct template_input in = {.arg = "0123456789", .len = 10};
    assert_int_equal(template_fill(t, &in, 39, &f.text, f.at, f.why), HAWK_ETOO_LARGE);
    text_free(&f.text);
    assert_int_equal(template_fill(t, &in, 43, &f.text, f.at, f.why), 0);
    text_free(&f.text);
    template_free(t);
    t = template_words(1, WORDS("x{y}"), 0);
    assert_int_equal(template_fill(t, &in, 43, &f.text, f.at, f.why), 0);
    assert_string_equal(word_of(&f, 0), "x{y}");
    text_free(&f.text);
    template_free(t);
}

/* ---- With the shells ---- */

static const char *const shells[] = {"/bin/dash", "/bin/bash", "/bin/ksh", "/bin/mksh", "/bin/zsh"};

/* What would show that a shell ran a value, in an empty directory. */
static const char *const values[] = {
    "$(touch x)",
    "`touch x`",
    "a b  c",
    "it's",
    "'",
    "''",
    "'\"'\"'",
    "\"$(touch x)\"",
    "'$(touch x)'",
    "';touch x;'",
    "\";touch x;\"",
    "\\",
    "\\'",
    "a\\",
    "$HOME ${HOME} $$ $(",
    "line\nline two\n",
    "\n",
    "\nE\ntouch x\n",
    "-n",
    "-",
    "--",
    "-rf /",
    "*",
    "?[a]~",
    "~",
    "!x !!",
    "#x",
    " # x",
    "\xff\xfe\x80",
    "\x81'$(touch x)",
    "\xe3\x81",
    "\x81\"$(touch x)",
    "",
    "a;b&c|d<e>f(g)h{i}j",
    "=ls",
    "plain-value_1.txt",
    "%s\\n",
};

struct printed {
    char data[4096];
    size_t len;
    int status;
};

/* Runs argv in an empty directory. */
static void run_in(const char *dir, const char *const *argv, struct printed *p)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], 1);
        dup2(open("/dev/null", O_RDWR), 2);
        if (chdir(dir))
            _exit(99);
        execv(argv[0], (char *const *)argv);
        _exit(98);
    }
    close(ends[1]);
    p->len = 0;
    for (ssize_t n; (n = read(ends[0], p->data + p->len, sizeof p->data - p->len)) > 0;)
        p->len += (size_t)n;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &p->status, 0), pid);
}

static bool has_file(const char *dir)
{
    char path[300];

    snprintf(path, sizeof path, "%s/x", dir);
    return unlink(path) == 0;
}

/* `before` VALUE `after` is what the shell prints of the text. */
struct shell_case {
    const char *text, *before, *after;
    bool bash_only;
};

/* Whether the value's end would be lost: a command substitution drops newlines. */
static bool is_cut(const struct shell_case *c, const char *value)
{
    size_t len = strlen(value);

    return strstr(c->text, "$(printf") && len && value[len - 1] == '\n';
}

/* Fills the text with every value, and has one shell run all of it, with a NUL printed after each. */
static void check_case(const char *dir, const char *shell, const struct shell_case *c)
{
    static const char end[] = "\nprintf '\\0'\n";
    struct text script = {0}, expected = {0};
    struct printed p;

    for (size_t i = 0; i < COUNT(values); i++) {
        if (is_cut(c, values[i]))
            continue;
        struct filled f = fill(3, WORDS(shell, "-c", c->text), values[i], strlen(values[i]), 0);
        assert_int_equal(f.err, 0);
        text_add(&script, word_of(&f, 2), strlen(word_of(&f, 2)));
        text_add(&script, end, sizeof end - 1);
        text_add(&expected, c->before, strlen(c->before));
        text_add(&expected, values[i], strlen(values[i]));
        text_add(&expected, c->after, strlen(c->after) + 1);
        text_free(&f.text);
    }
    text_add(&script, "", 1);
    run_in(dir, WORDS(shell, "-c", script.data, NULL), &p);
    size_t same = 0, at = 0;
    while (same < p.len && same < expected.len && p.data[same] == expected.data[same])
        at = p.data[same++] == '\0' ? same : at;
    if (same < p.len || same < expected.len)
        fail_msg("%s -c '%s' printed '%s' instead of '%s'", shell, c->text, at < p.len ? p.data + at : "",
                 at < expected.len ? expected.data + at : "");
    if (has_file(dir))
        fail_msg("%s -c '%s' ran a value", shell, c->text);
    text_free(&script);
    text_free(&expected);
}

static const struct shell_case printing[] = {
    {"printf %s {}", "", "", false},
    {"printf %s \"{}\"", "", "", false},
    {"printf %s '{}'", "", "", false},
    {"printf %s a{}b", "a", "b", false},
    {"printf %s \"a {} b\"", "a ", " b", false},
    {"printf %s 'a {} b'", "a ", " b", false},
    {"printf %s '\\'{}'\"'", "\\", "\"", false},
    {"printf %s \"it's \"{}", "it's ", "", false},
    {"printf %s \"\\\"{}\\\"\"", "\"", "\"", false},
    {"printf %s \\'{}\\'", "'", "'", false},
    {"v={}; printf %s \"$v\"", "", "", false},
    {"v=\"{}\"; printf %s \"$v\"", "", "", false},
    {"(printf %s {})", "", "", false},
    {"{ printf %s {}; }", "", "", false},
    {"if true; then printf %s {}; fi # don't", "", "", false},
    {"# it's\nprintf %s {}", "", "", false},
    {"case {} in '') printf '';; *) printf %s {};; esac", "", "", false},
    {"f() { printf %s \"$1\"; }; f {}", "", "", false},
    {"x=1; printf %s $x{}", "1", "", false},
    {"x=1; printf %s \"$x{}\"", "1", "", false},
    {"x=abc.d; printf %s \"${x%.*}{}\"", "abc", "", false},
    {"for i in {}; do printf %s \"$i\"; done", "", "", false},
    {"true $((1 + (2))) && printf %s {}", "", "", false},
    {"cat <<E >/dev/null\nit's \"\nE\nprintf %s {}", "", "", false},
    {"cat <<-'E' >/dev/null\n$( `\n\tE\nprintf %s {}", "", "", false},
    {"true `echo \"a\"`; printf %s {}", "", "", false},
    {"true \"`echo a`\"; printf %s '{}'", "", "", false},
    {"true 2>&1 >/dev/null; printf %s {}", "", "", false},
    {"printf %s {} | while IFS= read -r i; do :; done; printf %s \"{}\"", "", "", false},
    {"printf %s \\\n{}", "", "", false},
    {"printf %s {} 2>/dev/null", "", "", false},
    {"sh -c 'printf a'; printf %s {}", "a", "", false},
    {"sh -c 'printf %s \"$1\"' sh {}", "", "", false},
    {"printf '%s' \"$(true)\"'{}'", "", "", false},
    {"printf %s $'a'{}", "a", "", true},
    {"printf %s $\"{}\"", "", "", true},
    {"cat <(true) && printf %s {}", "", "", true},
    {"[[ -n {} || -z {} ]] && printf %s \"{}\"", "", "", true},
    {"printf %s \"$(printf %s {})\"", "", "", false},
    {"printf %s \"$(printf %s \"{}\")\"", "", "", false},
    {"printf %s \"a$(printf %s '{}')b\"", "a", "b", false},
    {"v=$(printf %s \"$(printf %s {})\"); printf %s \"$v\"", "", "", false},
};

static void test_shells_print_the_bytes(void **state)
{
    char dir[] = "/tmp/hawk-template-XXXXXX";

    assert_non_null(mkdtemp(dir));
    for (size_t s = 0; s < COUNT(shells); s++) {
        bool bash = strcmp(shells[s], "/bin/bash") == 0;
        for (size_t i = 0; access(shells[s], X_OK) == 0 && i < COUNT(printing); i++)
            if (bash || !printing[i].bash_only)
                check_case(dir, shells[s], &printing[i]);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* Where no quoting helps, a value fails its task; a safe one goes in as it is. */
static void test_refused(void **state)
{
    static const struct {
        const char *text, *why, *filled;
    } cases[] = {
        {"echo $(({} * {}))", "$((...))", "echo $((5 * 5))"},
        {"(({} > 3))", "$((...))", "((5 > 3))"},
        {"echo `echo {}`", "backquotes", "echo `echo 5`"},
        {"echo \"`echo {}`\"", "backquotes", "echo \"`echo 5`\""},
        {"cat <<E\n{}\nE", "a here-document", "cat <<E\n5\nE"},
        {"cat <<'E'\n{}\nE", "a here-document", "cat <<'E'\n5\nE"},
        {"cat <<A <<B\na\nA\n{}\nB", "a here-document", "cat <<A <<B\na\nA\n5\nB"},
        {"echo \"$(cat <<E\n{}\nE\n)\"", "a here-document", "echo \"$(cat <<E\n5\nE\n)\""},
        {"cat <<E; echo {}\nE", "the line of a here-document", "cat <<E; echo 5\nE"},
        {"echo ${x:-{}}", "${...}", "echo ${x:-5}"},
        {"echo \"${x:-{}}\"", "${...}", "echo \"${x:-5}\""},
        {"# {}\necho", "a comment", "# 5\necho"},
        {"echo $'{}'", "$'...'", "echo $'5'"},
        {"a[{}]=1", "a subscript", "a[5]=1"},
        {"sh -c \"echo {}\"", "the text of another `sh -c`", "sh -c \"echo 5\""},
        {"sh -c {}", "the text of another `sh -c`", "sh -c 5"},
        {"exec /bin/bash -eo pipefail -c 'echo {}'", "the text of another `sh -c`",
         "exec /bin/bash -eo pipefail -c 'echo 5'"},
        {"\"$SHELL\" -c 'echo {}'", "the text of another `sh -c`", "\"$SHELL\" -c 'echo 5'"},
        {"find . -exec sh -c 'echo {}' \\;", "the text of another `sh -c`",
         "find . -exec sh -c 'echo 5' \\;"},
        {"sh 2>log -c 'echo {}'", "the text of another `sh -c`", "sh 2>log -c 'echo 5'"},
        {"xargs -a <(ls) sh -c 'echo {}'", "the text of another `sh -c`", "xargs -a <(ls) sh -c 'echo 5'"},
        {"echo \"$(case x in a) echo;; esac; echo {})\"", "$(...) with a `case` or `[[` in it",
         "echo \"$(case x in a) echo;; esac; echo 5)\""},
        {"cat <<E\n$(cat <<E\nE\n)\nE\necho {}", "what follows a here-document with a command in it",
         "cat <<E\n$(cat <<E\nE\n)\nE\necho 5"},
        {"cat <<E\na\\\nE\nE\necho {}", "what follows a here-document with a command in it",
         "cat <<E\na\\\nE\nE\necho 5"},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const argv[] = {"bash", "-c", cases[i].text};
        struct filled f = fill(3, argv, "$(touch x)", 10, 0);
        if (f.err != HAWK_EINVALID || !strstr(f.why, cases[i].why))
            fail_msg("%s: %d %s", cases[i].text, f.err, f.why);
        assert_non_null(strstr(f.why, "safe"));
        text_free(&f.text);
        f = fill(3, argv, "5", 1, 0);
        assert_int_equal(f.err, 0);
        assert_string_equal(word_of(&f, 2), cases[i].filled);
        text_free(&f.text);
    }
}

/* ---- Where a shell computes ---- */

/* A subscript is computed, and so is the content of a variable that is named where the shell computes. */
static const char *const traps[] = {"a[$(touch x)]", "a[$(touch x)]=1", "a[$(touch x)]/HAWK_INPUT",
                                    "HAWK_INPUT"};

/* Texts that have run one of them in some shell. Each fails its task, or runs nothing. */
static const char *const computing[] = {
    "echo $(( {} + 1 ))",
    "echo $(( {/} + 1 ))",
    "(( {/} > 3 ))",
    "x=$[ {} ]",
    "x=$[ {/} ]",
    "for((i=0;i<{};i++)); do :; done",
    "for((i=0;i<{/};i++)); do :; done",
    "if((i<{})); then :; fi",
    "while((i<{})); do :; done",
    "until(({})); do break; done",
    "!(({}))",
    "time(({}))",
    "[[ {} -gt 5 ]]",
    "[[ \"{}\" -le 5 ]]",
    "[[ 5 -eq {} ]]",
    "[[ {/} -eq 5 ]]",
    "[[ -v {} ]]",
    "[[ -t {} ]]",
    "if [[ -n x && {} -gt 5 ]]; then :; fi",
    "[[ ( {} -gt 5 ) ]]",
    "[[ \"]]\" = x || {} -gt 5 ]]",
    "[[ a/]] = x || {} -gt 5 ]]",
    "[[ -n x && test || {} -gt 5 ]]",
    "[[ {} -g\\\nt 5 ]]",
    "[\\\n[ {} -gt 5 ]]",
    "[ {} -gt 5 ]",
    "[ \"{}\" \"-gt\" 5 ]",
    "test 5 -eq {}",
    "test -v {}",
    "if [ -v {} ]; then :; fi",
    "let x={}",
    "let {}",
    "let x={/}",
    "printf -v {} x",
    "printf -v{} x",
    "builtin printf -v {} x",
    "read {} <<< 1",
    "echo 1 | { read -r {}; }",
    "f() { read {} <<< 1; }; f",
    "unset {}",
    "unset -v \"{}\"",
    "declare {}",
    "declare {}=1",
    "typeset \"{}\"",
    "f() { local {}; }; f",
    "export {}",
    "readonly {}",
    "declare -i n={}",
    "declare -i n; n={}",
    "typeset -i n={/}",
    "f() { local -i n={}; }; f",
    "declare -n n={}; echo $n",
    "integer n={}",
    "integer n; n={}",
    "mapfile {} <<< 1",
    "getopts a {} -a",
    "command read {} <<< 1",
    "a=([{}]=1)",
    "a=( [\"{}\"]=1 )",
    "a[{}]=1",
    "a[b[1]+{}]=1",
    "a[{/}]=1",
    "a\\\n[{}]=1",
    "echo ${a[{}]}",
    "echo ${a[{/}]}",
    "x=abc; echo ${x:{}}",
    "x=abc; echo ${x:{/}:1}",
    "echo ${!{/}}",
    "echo $\\\n(( {} + 1 ))",
    "echo $(\\\n( {} + 1 ))",
    "(\\\n( {} ))",
    "echo $(\\\n\\\n( {} + 1 ))",
    "cat <\\\n<E\n{}\nE",
    "echo `echo $(( {/} ))`",
    "cat <<E\n$(( {/} ))\nE",
    "echo $(( \"0\" + {/} ))",
};

static void test_nothing_is_computed(void **state)
{
    char dir[] = "/tmp/hawk-template-XXXXXX";

    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < COUNT(computing); i++)
        for (size_t v = 0; v < COUNT(traps); v++) {
            struct filled f = fill(3, WORDS("sh", "-c", computing[i]), traps[v], strlen(traps[v]), 0);

            /* What HAWK_INPUT has is another value's: as where an input has columns. */
            setenv("HAWK_INPUT", v == COUNT(traps) - 1 ? traps[0] : traps[v], 1);
            for (size_t s = 0; f.err == 0 && s < COUNT(shells); s++) {
                struct printed p;

                if (access(shells[s], X_OK) == 0)
                    run_in(dir, WORDS(shells[s], "-c", word_of(&f, 2), NULL), &p);
                if (has_file(dir))
                    fail_msg("%s -c %s ran a value", shells[s], word_of(&f, 2));
            }
            text_free(&f.text);
        }
    unsetenv("HAWK_INPUT");
    assert_int_equal(rmdir(dir), 0);
}

/* Texts that compute, but not there. */
static void test_what_is_beside_it_is_quoted(void **state)
{
    static const char *const texts[] = {
        "if [[ $x -gt 3 ]]; then printf %s {}; fi",
        "[ \"$x\" -gt 3 ] && cat {}",
        "[[ -f {} && -n \"{}\" ]]",
        "[ -f {} ] && [ 1 -gt 0 ]",
        "test $(wc -l < {}) -gt 5",
        "[[ \"$(stat -c %s \"{}\")\" -gt 5 ]]",
        "export F={}",
        "f() { local f=\"{}\" g; }",
        "declare -r f={}",
        "read x < {}",
        "read x <<< {}",
        "mapfile -t a < <(sort {})",
        "while read -r l; do echo $l {}; done < {}",
        "printf '%s' {}",
        "grep read {}",
        "echo integer {}",
        "cat {} |\\\nsort",
        "foo &&\\\ncat {}",
        "x=$(\\\n  cat {})",
        "a=({} \"{}\")",
        "echo [a-z]* {}",
        "case $x in [yY]*) cat {};; esac",
        "for ((i = 0; i < 3; i++)); do cat {}; done",
        "echo [ {} ]",
        "(cat {}; (cat {}))",
    };

    for (size_t i = 0; i < COUNT(texts); i++) {
        struct filled f = fill(3, WORDS("bash", "-c", texts[i]), "a b", 3, 0);

        if (f.err)
            fail_msg("%s: %s", texts[i], f.why);
        text_free(&f.text);
    }
}

/* Only a number may stand where a shell computes; elsewhere, where no quoting helps, any safe value. */
static void test_numbers(void **state)
{
    static const struct {
        const char *text, *value;
        bool fine;
    } cases[] = {
        {"echo $(({} * {}))", "12", true},
        {"echo $(({} * {}))", "-1.5", true},
        {"echo $(({} * {}))", "0x1F", true},
        {"echo $(({} * {}))", "x", false},
        {"echo $(({} * {}))", "1+x", false},
        {"echo $(({} * {}))", "-", false},
        {"echo $(({} * {}))", "1/2", false},
        {"[[ {} -gt 5 ]]", "x", false},
        {"echo `cat {}`", "a/b.c", true},
        {"echo ${x:-{}}", "a/b.c", true},
        {"echo ${x:{}}", "x", false},
        {"echo ${x:{}}", "2", true},
        {"echo $(( $(wc -l < {}) ))", "a.c", true},
        {"for((;{};)) do :; done", "x", false},
        {"let x={}", "x", false},
        {"unset {}", "x", true},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct filled f =
            fill(3, WORDS("bash", "-c", cases[i].text), cases[i].value, strlen(cases[i].value), 0);

        if ((f.err == 0) != cases[i].fine)
            fail_msg("%s with %s: %d", cases[i].text, cases[i].value, f.err);
        text_free(&f.text);
    }
}

/* Which word is read as a shell's text. */
static void test_which_word(void **state)
{
    static const struct {
        const char *argv[9];
        int text; /* -1: none */
    } cases[] = {
        {{"sh", "-c", "{}"}, 2},
        {{"/bin/bash", "-euo", "pipefail", "-c", "{}", "{}"}, 4},
        {{"bash", "--norc", "--rcfile", "x", "-c", "{}"}, 5},
        {{"dash", "-ec", "{}"}, 2},
        {{"bash", "-c", "-e", "{}"}, 3},
        {{"sh", "-c", "--", "{}"}, 3},
        {{"sh", "-c", "--", "-{}"}, 3},
        {{"sh", "-c", "-", "-{}"}, 3},
        {{"sh", "-c", "+", "{}"}, 3},
        {{"sh", "-c", "-e", "-", "--", "{}"}, 4},
        {{"sh", "-", "-c", "{}"}, -1},
        {{"zsh", "-f", "-c", "{}"}, 3},
        {{"ksh", "+x", "-c", "{}"}, 3},
        {{"env", "A=1", "B={}", "sh", "-c", "{}"}, 5},
        {{"env", "-i", "-u", "A", "--chdir=/", "sh", "-c", "{}"}, 7},
        {{"nice", "-n", "5", "sh", "-c", "{}"}, 5},
        {{"nice", "-5", "timeout", "-k", "1", "2s", "sh", "-c", "{}"}, 8},
        {{"timeout", "--signal", "KILL", "5", "sh", "-c", "{}"}, 6},
        {{"sh", "x.sh", "-c", "{}"}, -1},
        {{"bash", "--", "-c", "{}"}, -1},
        {{"echo", "sh", "-c", "{}"}, -1},
        {{"env", "-S", "sh -c", "sh", "-c", "{}"}, -1},
        {{"python3", "-c", "{}"}, -1},
        {{"sh", "-c"}, -1},
        {{"env"}, -1},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t argc = 0;
        while (argc < 9 && cases[i].argv[argc])
            argc++;
        struct filled f = fill(argc, cases[i].argv, "a b", 3, 0);
        for (uint32_t w = 0; w < argc; w++)
            if (strcmp(cases[i].argv[w], "{}") == 0)
                assert_string_equal(word_of(&f, (int)w), (int)w == cases[i].text ? "'a b'" : "a b");
        text_free(&f.text);
    }
}

static void test_columns_in_a_shell(void **state)
{
    struct filled f = fill(3, WORDS("sh", "-c", "mv {} && echo \"{}\" {2}{#}"), "a b\0c", 5, 2);

    assert_string_equal(word_of(&f, 2), "mv 'a b' c && echo \"\"'a b'\" c\" c7");
    text_free(&f.text);
}

static void test_readers(void **state)
{
    static const struct {
        const char *argv[6];
        const char *reader;
    } cases[] = {
        {{"ssh", "-p", "22", "host", "ls {}"}, "ssh"},
        {{"ssh", "{}", "uptime"}, NULL},
        {{"python3.11", "-c", "print('{}')"}, "python -c"},
        {{"python3", "x.py", "{}"}, NULL},
        {{"python3", "-c", "import sys", "{}"}, NULL},
        {{"perl", "-ne", "print '{}'"}, "perl -e"},
        {{"sudo", "sh", "-c", "echo {}"}, "sh -c"},
        {{"sh", "-c", "eval \"echo {}\""}, "eval"},
        {{"sh", "-c", "sh -c -- '-x; echo {}'"}, "sh -c"},
        {{"sh", "-c", "sh -c - '-x; echo {}'"}, "sh -c"},
        {{"sh", "-c", "sh - -c 'echo {}'"}, NULL},
        {{"sh", "-c", "ssh h 'echo {}'"}, "ssh"},
        {{"sh", "-c", "ssh {} uptime; echo {}"}, NULL},
        {{"sh", "-c", "x=$(eval {})"}, "eval"},
        {{"sh", "-c", "trap 'rm {}' EXIT"}, "trap"},
        {{"echo", "{}"}, NULL},
        {{"rbash", "-c", "eval {}"}, "eval"},
        {{"fish", "-c", "echo {}"}, "fish -c"},
        {{"php", "-r", "echo '{}';"}, "php -r"},
        {{"php", "-d", "x=1", "y.php", "{}"}, NULL},
        {{"lua5.4", "-l", "m", "-e", "f('{}')"}, "lua -e"},
        {{"script", "-qc", "echo {}", "log"}, "script -c"},
        {{"awk", "/{}/ { print }"}, "awk"},
        {{"mawk", "-F", ",", "-v", "x=1", "{ print {} }"}, "awk"},
        {{"awk", "--", "/{}/"}, "awk"},
        {{"awk", "{ print }", "{}"}, NULL},
        {{"gawk", "-vx={}", "{ print x }"}, NULL},
        {{"awk", "-v", "x={}", "{ print x }"}, NULL},
        {{"awk", "-f", "{}", "{}"}, NULL},
        {{"awk", "-fx.awk", "{}"}, NULL},
        {{"gawk", "--file", "x.awk", "{}"}, NULL},
        {{"gawk", "--file=x.awk", "{}"}, NULL},
        {{"sh", "-c", "awk \"/{}/\" log"}, "awk"},
        {{"sh", "-c", "awk '{ print }' {}"}, NULL},
        {{"sh", "-c", "ls | awk -v x={} '{ print x }'"}, NULL},
    };

    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t argc = 0;
        while (argc < 6 && cases[i].argv[argc])
            argc++;
        struct template *t = template_command(argc, cases[i].argv, 0, true);
        const char *reader = template_reader(t);
        if (cases[i].reader ? !reader || strcmp(reader, cases[i].reader) != 0 : reader != NULL)
            fail_msg("%s %s: %s", cases[i].argv[0], cases[i].argv[argc - 1], reader ? reader : "nobody");
        template_free(t);
    }
}

static void names_that_tell_tasks_apart(void **state)
{
    static const struct {
        const char *name;
        uint32_t columns;
        bool apart;
    } cases[] = {
        {"%t", 0, true},
        {"%J/{#}.log", 0, true},
        {"{}", 2, true},
        {"{1}.log", 0, true},
        {"{1}.log", 1, true},
        {"{2}-{1}", 2, true},
        {"%%{1}/{2}.log", 2, true},
        {"", 0, false},
        {"log", 0, false},
        {"%%t", 0, false},
        {"%J.%n", 0, false},
        {"{1}.log", 2, false},
        {"{2}.log", 2, false},
        {"{1.}", 1, false},
        {"{1}-{2/}", 2, false},
        {"{1}-{2}.log", 3, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        if (place_tells_tasks_apart(cases[i].name, true, cases[i].columns) != cases[i].apart)
            fail_msg("%s of %u columns", cases[i].name, cases[i].columns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_whole_commands),
        cmocka_unit_test(test_shells_print_the_bytes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_nothing_is_computed),
        cmocka_unit_test(test_what_is_beside_it_is_quoted),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_which_word),
        cmocka_unit_test(test_columns_in_a_shell),
        cmocka_unit_test(test_readers),
        cmocka_unit_test(names_that_tell_tasks_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
