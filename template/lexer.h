/* The state of the reader of a shell's text: shell.c reads, and where.c keeps the words of its commands and says what a
 * value may be where the reader is. Internal to template/. */
#ifndef HAWK_TEMPLATE_LEXER_H
#define HAWK_TEMPLATE_LEXER_H

#include "template/shell.h"

#define FRAMES_MAX 32
#define HEREDOCS_MAX 4
#define DELIMITER_MAX 64
#define WORD_MAX 32
#define TESTS_MAX 64
#define UNKNOWN (*WORD_UNKNOWN)

/* What the lexer is inside of. */
enum frame_kind {
    FRAME_TOP,
    FRAME_PAREN,   /* ( ) */
    FRAME_COMMAND, /* $( ) */
    FRAME_DOUBLE,
    FRAME_ARITHMETIC, /* $(( )) or (( )) */
    FRAME_PARAMETER,  /* ${ } */
    FRAME_BACKQUOTE,
};

struct frame {
    enum frame_kind kind;
    /* TOP, PAREN, COMMAND: the simple command that is being read, and its last word, after its last slash. */
    struct command_words words;
    char word[WORD_MAX];
    unsigned word_len;
    bool in_word, redirect;    /* redirect: the word is the name of a file */
    bool quoted, assigns;      /* the word has quotes or a slash; a = */
    unsigned test;             /* inside this [[ ]] or [ ] of the text, from 1 on; 0: in none */
    bool brackets;             /* it is a [[ ]] */
    unsigned subscript;        /* how deep inside NAME[ ] */
    bool computes;             /* PARAMETER, BACKQUOTE: there is arithmetic in it */
    unsigned depth;            /* ARITHMETIC: open parentheses; PAREN: 1 in <( ) and NAME=( ) */
    unsigned singles, doubles; /* BACKQUOTE: quotes inside it */
};

struct heredoc {
    char delimiter[DELIMITER_MAX];
    unsigned len, frames;
    bool strip, quoted;
};

struct lexer {
    const char *s;
    size_t at, glued; /* glued: a value here would become part of the name of a variable */
    uint32_t columns;
    struct frame frames[FRAMES_MAX];
    unsigned n;
    struct heredoc pending[HEREDOCS_MAX];
    unsigned pending_n;
    const char *lost; /* why no later place can be trusted; NULL: they can */
    bool lost_number; /* nor that the shell does not compute there */
    unsigned tests;   /* begun so far */
    bool *numbers;    /* which of TESTS_MAX tests compute; a first reading finds out */
    void (*fn)(void *arg, const struct found *f);
    void *arg;
};

static inline struct frame *top(struct lexer *l) { return &l->frames[l->n - 1]; }
static inline bool is_command(const struct frame *f) { return f->kind <= FRAME_COMMAND; }
/* The frame whose word is being read: DOUBLE and the like are parts of a word. */
struct frame *command_frame(struct lexer *l);
bool frame_inside(const struct lexer *l, enum frame_kind kind);

/* No later place can be trusted to stand where the reader believes. */
void lose_track(struct lexer *l, const char *why);
/* Nor is it sure that the shell does not compute there. */
void lose_number(struct lexer *l, const char *why);

/* Adds a byte to the word that is being read. */
void frame_word_add(struct lexer *l, char c);
/* The word, or the simple command, ends. */
void frame_word_end(struct lexer *l);
void frame_command_end(struct lexer *l);

/* Why no value can be quoted where the reader is; NULL: it can. *number: only a number may stand there. */
const char *where_never(struct lexer *l, bool *number);
/* The program that will read a value there as code of its own; NULL: none. */
const char *where_reader(const struct lexer *l);

#endif
