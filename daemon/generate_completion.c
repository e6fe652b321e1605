/* Completion for bash, zsh and fish. */
#include "daemon/commands.h"
#include "daemon/generate.h"

#include <string.h>

#define EACH_COMMAND(c)                                                                                      \
    for (const struct command *const *table_ = command_tables; *table_; table_++)                            \
        for (const struct command *c = *table_; (c)->name; (c)++)

typedef void put_flag_fn(FILE *out, const struct command *c, const struct flag *f);

static void each_flag(FILE *out, const struct command *c, put_flag_fn *put)
{
    for (const struct flag *f = generate_flags(c); f && f->name; f++)
        put(out, c, f);
    for (const struct flag *f = c->common; f && f->name; f++)
        put(out, c, f);
}

/* What an ID may be: the shell runs the command when it completes one. A cluster that is away is not waited for. */
#define ID_WORDS "last all $(hawk jobs --mine --quiet --limit 100 --timeout 500ms 2>/dev/null)"

/* "a|b|ID" as "a b" and the words of an ID. */
static void put_words(FILE *out, const char *words)
{
    for (size_t n; *words; words += n + (words[n] == '|')) {
        n = strcspn(words, "|");
        if (n == 2 && memcmp(words, "ID", 2) == 0)
            fputs(ID_WORDS, out);
        else
            fwrite(words, 1, n, out);
        if (words[n])
            fputc(' ', out);
    }
}

/* What the flag's value may be; "": nothing that is known. */
static const char *value_words(const struct flag *f)
{
    if (f->kind == FLAG_CHOICE)
        return f->arg;
    return f->arg && strncmp(f->arg, "ID", 2) == 0 ? "ID" : "";
}

/* The same of the command's arguments. */
static const char *argument_words(const struct command *c)
{
    if (c->words)
        return c->words;
    return c->synopsis && strstr(c->synopsis, " ID") ? "ID" : "";
}

static bool names_a_file(const struct flag *f)
{
    return f->arg && (strstr(f->arg, "FILE") || strstr(f->arg, "DIR") || strstr(f->arg, "PATH") ||
                      strstr(f->name, "file") || strstr(f->name, "dir"));
}

/* ---- bash ---- */

static void bash_choice(FILE *out, const struct command *c, const struct flag *f)
{
    if (f->kind == FLAG_BOOL)
        return;
    fprintf(out, "    '%s --%s'", c->name, f->name);
    if (f->letter)
        fprintf(out, " | '%s -%c'", c->name, f->letter);
    fputs(") words='", out);
    put_words(out, value_words(f));
    fprintf(out, "'; value=%s ;;\n", names_a_file(f) ? "file" : "word");
}

static void bash_name(FILE *out, const struct command *c, const struct flag *f)
{
    fprintf(out, " --%s", f->name);
}

static void bash(FILE *out)
{
    fputs(
        "# Completion of hawk for bash.\n_hawk()\n{\n"
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}\n"
        "    local commands flags words value i\n    COMPREPLY=()\n    commands='help",
        out);
    EACH_COMMAND(c)
    fprintf(out, " %s", c->name);
    fputs("'\n    if ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [[ $command == help ]]; }; then\n"
          "        COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n        return\n    fi\n"
          "    for ((i = 2; i < COMP_CWORD; i++)); do\n        if [[ ${COMP_WORDS[i]} == -- ]]; then\n"
          "            ((i + 1 == COMP_CWORD)) && COMPREPLY=($(compgen -c -- \"$cur\"))\n            return\n"
          "        fi\n    done\n    value=\n    case \"$command $prev\" in\n",
          out);
    EACH_COMMAND(c)
    each_flag(out, c, bash_choice);
    fputs("    esac\n    if [[ $value == file ]]; then\n        return\n    elif [[ $value ]]; then\n"
          "        compopt +o default +o bashdefault\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n        return\n    fi\n"
          "    case $command in\n",
          out);
    EACH_COMMAND(c)
    {
        fprintf(out, "    %s) flags='--help", c->name);
        each_flag(out, c, bash_name);
        fputs("'; words='", out);
        put_words(out, argument_words(c));
        fputs("' ;;\n", out);
    }
    fputs("    *) return ;;\n    esac\n    if [[ $cur == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$flags --\" -- \"$cur\"))\n    else\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n    fi\n}\n"
          "complete -o bashdefault -o default -F _hawk hawk\n",
          out);
}

/* ---- zsh ---- */

/* Inside '…' of _arguments: a quote ends the word, and [ ] : and \ mean something. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\`$", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

static void zsh_flag(FILE *out, const struct command *c, const struct flag *f)
{
    for (int letter = 0; letter <= (f->letter != 0); letter++) {
        if (letter)
            fprintf(out, "            %s'-%c[", flag_repeats(f) ? "'*'" : "", f->letter);
        else
            fprintf(out, "            %s'--%s[", flag_repeats(f) ? "'*'" : "", f->name);
        zsh_text(out, f->help);
        fputs("]", out);
        if (f->kind != FLAG_BOOL) {
            fputs(":", out);
            zsh_text(out, f->kind == FLAG_CHOICE ? f->name : f->arg);
            fputs(":", out);
            if (*value_words(f)) {
                fputs("(", out);
                put_words(out, value_words(f));
                fputs(")", out);
            } else if (names_a_file(f)) {
                fputs("_files", out);
            }
        }
        fputs("' \\\n", out);
    }
}

static void zsh(FILE *out)
{
    fputs("#compdef hawk\n# Completion of hawk for zsh.\n_hawk()\n{\n    local -a commands\n    commands=(\n",
          out);
    EACH_COMMAND(c)
    {
        fprintf(out, "        '%s:", c->name);
        zsh_text(out, c->help);
        fputs("'\n", out);
    }
    fputs("        'help:tell about a command'\n    )\n    if ((CURRENT == 2)); then\n"
          "        _describe command commands\n        return\n    fi\n    shift words\n    ((CURRENT--))\n"
          "    case $words[1] in\n    help) _describe command commands ;;\n",
          out);
    EACH_COMMAND(c)
    {
        fprintf(out, "    %s)\n        _arguments -S '--help[tell about it]' \\\n", c->name);
        each_flag(out, c, zsh_flag);
        if (*argument_words(c)) {
            fputs("            '1:argument:(", out);
            put_words(out, argument_words(c));
            fputs(")' \\\n", out);
        }
        fputs("            '*:argument:_default'\n        ;;\n", out);
    }
    fputs("    esac\n}\nif [[ $funcstack[1] == _hawk ]]; then\n    _hawk \"$@\"\nelse\n    compdef _hawk "
          "hawk\nfi\n",
          out);
}

/* ---- fish ---- */

static void fish_text(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            fputc('\\', out);
        fputc(*text, out);
    }
    fputc('\'', out);
}

static void fish_flag(FILE *out, const struct command *c, const struct flag *f)
{
    fprintf(out, "complete -c hawk -n '__fish_seen_subcommand_from %s' -l %s", c->name, f->name);
    if (f->letter)
        fprintf(out, " -s %c", f->letter);
    if (*value_words(f)) {
        fputs(" -xa '", out);
        put_words(out, value_words(f));
        fputs("'", out);
    } else if (f->kind != FLAG_BOOL) {
        fputs(names_a_file(f) ? " -rF" : " -x", out);
    }
    fputs(" -d ", out);
    fish_text(out, f->help);
    fputc('\n', out);
}

static void fish(FILE *out)
{
    fputs("# Completion of hawk for fish.\ncomplete -c hawk -n __fish_use_subcommand -f\n", out);
    fputs("complete -c hawk -n __fish_use_subcommand -a help -d 'tell about a command'\n", out);
    EACH_COMMAND(c)
    {
        fprintf(out,
                "complete -c hawk -n '__fish_use_subcommand; or __fish_seen_subcommand_from help' -a %s -d ",
                c->name);
        fish_text(out, c->help);
        fputc('\n', out);
        if (*argument_words(c)) {
            fprintf(out, "complete -c hawk -n '__fish_seen_subcommand_from %s' -a '", c->name);
            put_words(out, argument_words(c));
            fputs("'\n", out);
        }
        each_flag(out, c, fish_flag);
    }
}

bool generate_completion(FILE *out, const char *shell)
{
    static const struct {
        const char *name;
        void (*put)(FILE *out);
    } shells[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (strcmp(shells[i].name, shell) == 0) {
            shells[i].put(out);
            return true;
        }
    return false;
}
