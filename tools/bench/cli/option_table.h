/* The table of symm-bench's options. */
#ifndef SYMM_BENCH_OPTION_TABLE_H
#define SYMM_BENCH_OPTION_TABLE_H

#include "options.h"

/* The type of the field, and what its value may be. */
enum option_kind {
    OPTION_FLAG,     /* bool; the option has no value, its nccl_letter 0 or a number */
    OPTION_TEXT,     /* const char * */
    OPTION_SEED,     /* uint64_t */
    OPTION_INT,      /* int from min to max */
    OPTION_BYTES,    /* uint64_t above 0 */
    OPTION_REAL,     /* double */
    OPTION_POSITIVE, /* double above 0, at most max */
    /* const char *, which option_check() checks: */
    OPTION_WORD,    /* one of the names */
    OPTION_NAMES,   /* a list of names, or "all" */
    OPTION_NUMBERS, /* a list of integers from min to max */
    OPTION_SIZES    /* a list of numbers of bytes */
};

enum {
    OPTION_COMMON = 1 << 16, /* a bit of option_use: the help of no command describes it */
    OPTION_ITEMS = 256,      /* characters of a list of names */
    OPTION_WRONG = 320       /* characters of a message */
};

/* What an option means to some commands. A help that ends with a colon is followed by the names. */
struct option_use {
    int commands; /* bits of enum bench_command; 0 ends the uses */
    const char *help;
};

struct option_row {
    const char *name;
    const char *value; /* its name in the help; NULL: the option has none */
    enum option_kind kind;
    size_t field; /* offset in struct bench_options */
    long min, max;
    char letter;       /* 0: none */
    char nccl_letter;  /* of nccl-tests, for operations; it always has a value. 0: none */
    const char *unit;  /* of a positive number, in messages */
    const char *names; /* separated by ", "; NULL: items() makes them */
    const char *(*items)(const struct bench_options *o, char out[OPTION_ITEMS]);
    struct option_use uses[4];
};

/* Ends with a row without a name. */
extern const struct option_row option_table[];

/* What the option means to the command of `o`; NULL: the command has no such option. */
const struct option_use *option_use(const struct option_row *row, const struct bench_options *o);

/* Stores a value. Returns NULL, or what is wrong with it; `wrong` has room for the message. */
const char *option_take(const struct option_row *row, struct bench_options *o, const char *value,
                        char wrong[OPTION_WRONG]);

/*
 * Checks a word or a list; the command must be known. Returns NULL, or what is wrong with the item,
 * which is put into `item`.
 */
const char *option_check(const struct option_row *row, const struct bench_options *o, char item[64],
                         char wrong[OPTION_WRONG]);

/* The names that the option may have. */
const char *option_names(const struct option_row *row, const struct bench_options *o,
                         char out[OPTION_ITEMS]);

#endif
