/* Where a place stands in a shell's text. Internal to template/. */
#ifndef HAWK_TEMPLATE_SHELL_H
#define HAWK_TEMPLATE_SHELL_H

#include "template/template.h"

/* How a value is written there. */
enum place_where {
    WHERE_BYTES,  /* as it is */
    WHERE_BARE,   /* outside quotes */
    WHERE_DOUBLE, /* inside "..." */
    WHERE_SINGLE, /* inside '...' */
    WHERE_NEVER,  /* only a safe value may stand here */
    WHERE_NUMBER, /* only a number: the shell computes, and evaluates the content of any variable named here */
};

#define WHERE_SECOND "the text of another `sh -c`"

struct found {
    size_t at, len;
    struct place place;
    enum place_where where;
    bool
        always; /* also a safe value is quoted: its neighbours would read it with them, as in $x{} and {}>file */
    const char *why;    /* WHERE_NEVER, WHERE_NUMBER: what it stands in, "backquotes" */
    const char *reader; /* who will read the value as code; NULL: nobody */
};

/* Calls fn for each place in the text, in order. */
void shell_places(const char *text, uint32_t columns, void (*fn)(void *arg, const struct found *f),
                  void *arg);

/* Follows the words of a simple command, and finds those that a program among them reads as code. Zeros are the
 * beginning of a command. */
struct reader;
struct command_words {
    uint8_t stage;               /* enum words_stage */
    uint8_t builtin;             /* enum words_builtin */
    bool begun;                  /* there was a word */
    bool named;                  /* there was one that is neither reserved nor an assignment: the program */
    bool names_next;             /* BUILTIN_PRINTF: the next word is the name of a variable */
    bool shell;                  /* the program is a shell */
    bool takes;                  /* the next word belongs to its last option, like -o pipefail */
    const struct reader *reader; /* the program, where it is no shell */
};
enum words_stage {
    WORDS_NONE,      /* no such program yet */
    WORDS_NAMED,     /* its options come */
    WORDS_CODE_NEXT, /* the next word is code (a shell's: the next that is no option) */
    WORDS_CODE_HERE, /* the next word is code, although it may look like an option: it stands behind `--` */
    WORDS_CODE_ALL   /* all further words are code */
};

/* What a shell's own command computes: a subscript in the name of a variable, and so a command in that. */
enum words_builtin {
    BUILTIN_OTHER,
    BUILTIN_TEST,    /* [[, [, test: computes beside -eq and the like */
    BUILTIN_LET,     /* all its words */
    BUILTIN_NAMES,   /* read, unset: its words are names */
    BUILTIN_DECLARE, /* export, local: its words are names, up to a = */
    BUILTIN_INTEGER, /* a declare whose variables compute what they are given */
    BUILTIN_PRINTF,  /* the word after -v */
};

/* In a word: what only the shell knows, such as a variable. */
#define WORD_UNKNOWN "\1"

/* Takes a whole word. */
void command_words_add(struct command_words *c, const char *word);
/* Who reads the word that comes next, and begins so ('\0': it has not begun), as code; NULL: nobody. */
const char *command_words_reader(const struct command_words *c, char begin);

/* The index of the text after `-c` in the command of argv, behind env, nice and timeout; -1: none. */
int shell_text_of(uint32_t argc, const char *const *argv);

#endif
