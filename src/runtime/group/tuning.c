/*
 * Reads SYMM_TUNING_FILE strictly. A row that cannot be parsed is an error, since AUTO would
 * silently choose differently.
 */
#include "tuning.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <symm/names.h>
#include "runtime/base/array.h"
#include "runtime/base/fd.h"
#include "runtime/base/numbers.h"
#include "runtime/base/settings.h"

struct row {
    uint64_t key;
    symm_algo algo;
    uint64_t nbytes;
    int line;
};

struct symm_tuning {
    struct row *rows; /* by key, then by bytes */
    size_t nrows;
};

enum { ROW_WORDS = 6, WORD_SHOWN = 40, MACHINE_SHOWN = 160, DOMAINS_MAX = 1 << 20 };

struct word {
    const char *at;
    size_t length;
};

/* The state of the parser. */
struct reader {
    const char *name;
    const char *machine;  /* the expected text of the machine line */
    const char *at, *end; /* the unread text */
    const char *line_end; /* end of the last word of the line */
    int line;             /* of the last words, from 1 */
    struct word words[ROW_WORDS + 1];
    int nwords; /* ROW_WORDS + 1: more than a row has */
};

/* ---------------------------------------------------------------------------------------- words */

static bool is(struct word w, const char *text)
{
    return w.length == strlen(text) && memcmp(w.at, text, w.length) == 0;
}

/* Copies a word, truncated, without control characters. */
static void show(struct word w, char *out, size_t capacity)
{
    const size_t n = w.length < capacity ? w.length : capacity - 1;

    for (size_t i = 0; i < n; i++)
        out[i] = w.at[i] >= ' ' && w.at[i] < 0x7f ? w.at[i] : '?';
    out[n] = 0;
}

static symm_status wrong(const struct reader *r, struct word w, const char *what)
{
    char shown[WORD_SHOWN + 1];

    show(w, shown, sizeof shown);
    return symm__fail(SYMM_ERROR_ARGUMENT, "%.540s, line %d: \"%s\" %s", r->name, r->line, shown,
                      what);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Reads the words of the next non-empty line. Returns false at the end of the text. */
static bool next_line(struct reader *r)
{
    r->nwords = 0;
    while (r->at < r->end && r->nwords == 0) {
        const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at)),
                   *end = newline ? newline : r->end,
                   *comment = memchr(r->at, '#', (size_t)(end - r->at)), *at = r->at;

        r->line++;
        r->at = newline ? newline + 1 : r->end;
        end = comment ? comment : end;
        while (end > at && is_blank(end[-1]))
            end--;
        r->line_end = end;
        while (r->nwords <= ROW_WORDS) {
            while (at < end && is_blank(*at))
                at++;
            if (at == end)
                break;
            struct word *w = &r->words[r->nwords++];
            w->at = at;
            while (at < end && !is_blank(*at))
                at++;
            w->length = (size_t)(at - w->at);
        }
    }
    return r->nwords > 0;
}

/* Parses decimal digits only. */
static bool parse_number(struct word w, uint64_t *out)
{
    uint64_t value = 0;

    for (size_t i = 0; i < w.length; i++)
        if (w.at[i] < '0' || w.at[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(w.at[i] - '0'), &value))
            return false;
    *out = value;
    return true;
}

/* The names that symm-bench uses; -1: no operation. */
static int parse_operation(struct word w)
{
    static const char *const names[] = {
        [SYMM_OPERATION_ALL_REDUCE] = "all-reduce",
        [SYMM_OPERATION_REDUCE_SCATTER] = "reduce-scatter",
        [SYMM_OPERATION_ALL_GATHER] = "all-gather",
        [SYMM_OPERATION_ALL_REDUCE_RMS_NORM] = "all-reduce-rms-norm",
        [SYMM_OPERATION_BROADCAST] = "broadcast",
    };
    int i = SYMM_OPERATION_COUNT - 1;

    while (i >= 0 && !is(w, names[i]))
        i--;
    return i;
}

/* "any" is 0; -1: no type. */
static int parse_dtype(struct word w)
{
    char text[WORD_SHOWN + 1];
    symm_dtype dtype;

    show(w, text, sizeof text);
    return is(w, "any") ? 0 : symm_dtype_parse(text, &dtype) == SYMM_OK ? (int)dtype : -1;
}

static symm_algo parse_algo(struct word w)
{
    char text[WORD_SHOWN + 1];
    symm_algo algo = SYMM_ALGO_AUTO;

    if (is(w, "forward"))
        return (symm_algo)SYMM_TUNING_FORWARD;
    show(w, text, sizeof text);
    symm_algo_parse(text, &algo);
    return algo;
}

/* ----------------------------------------------------------------------------------------- rows */

static uint64_t number_of_key(const struct symm_tuning_key *key)
{
    const uint64_t group =
        ((uint64_t)key->ndomains << 8 | (uint64_t)key->operation) << 8 | (uint64_t)key->nranks;

    return (group << 8 | (uint64_t)key->dtype) << 1 | key->symmetric;
}

/* Whether a row is of the operation and the number of ranks, of any type and memory. */
static bool is_of(const struct row *row, enum symm_operation operation, int nranks)
{
    return row->key >> 9 == ((uint64_t)operation << 8 | (uint64_t)nranks);
}

/* "8": of a group of one domain. "16x8": of 16 domains of 8 ranks each. */
static bool parse_ranks(struct word w, struct symm_tuning_key *key)
{
    const char *cross = memchr(w.at, 'x', w.length);
    const size_t length = cross ? (size_t)(cross - w.at) : 0, after = cross ? length + 1 : 0;
    uint64_t ndomains = 0, nranks;

    if (cross && (!parse_number((struct word){w.at, length}, &ndomains) || ndomains < 2 ||
                  ndomains > DOMAINS_MAX))
        return false;
    if (!parse_number((struct word){w.at + after, w.length - after}, &nranks) ||
        nranks < (cross ? 1 : 2) || nranks > SYMM_MAX_RANKS)
        return false;
    key->ndomains = (uint32_t)ndomains;
    key->nranks = (int)nranks;
    return true;
}

/* Why the rows of this key cannot have the algorithm; NULL: they can. */
static const char *refuse(const struct symm_tuning_key *key, symm_algo algo)
{
    if (symm__algo_is_form(algo) != (key->ndomains > 0))
        return key->ndomains ? "is neither flat nor hierarchical, as calls between domains are"
                             : "needs a number of domains: DOMAINSxRANKS";
    if (key->ndomains && key->operation == SYMM_OPERATION_ALL_REDUCE_RMS_NORM)
        return "is of an operation that domains have not together";
    if (key->ndomains && key->symmetric)
        return "is for memory any: domains share none";
    if (algo == (symm_algo)SYMM_TUNING_FORWARD)
        return key->symmetric ? "is for memory any: NCCL does not know symmetric memory" : NULL;
    return symm__auto_refuses(key->operation, algo, key->symmetric);
}

/* Parses the words in order, so that the first wrong one is reported. */
static symm_status parse_row(const struct reader *r, struct row *out)
{
    const struct word *w = r->words;
    const int operation = parse_operation(w[0]), dtype = parse_dtype(w[2]);
    const symm_algo algo = parse_algo(w[5]);
    const bool symmetric = is(w[3], "symmetric");
    struct symm_tuning_key key = {.operation = (enum symm_operation)operation,
                                  .dtype = (symm_dtype)dtype,
                                  .symmetric = symmetric};
    const char *reason;

    if (operation < 0)
        return wrong(r, w[0], "is not an operation");
    if (!parse_ranks(w[1], &key))
        return wrong(r, w[1], "is not a valid number of ranks");
    if (dtype < 0)
        return wrong(r, w[2], "is not a dtype");
    if (!symmetric && !is(w[3], "any"))
        return wrong(r, w[3], "is neither any nor symmetric");
    if (!parse_number(w[4], &out->nbytes))
        return wrong(r, w[4], "is not a number of bytes");
    if (algo == SYMM_ALGO_AUTO)
        return wrong(r, w[5], "is not an algorithm");
    reason = refuse(&key, algo);
    if (reason)
        return wrong(r, w[5], reason);
    out->key = number_of_key(&key);
    out->algo = algo;
    out->line = r->line;
    return SYMM_OK;
}

/* Checks the rest of a `machine` line: the machine of the measurements. */
static symm_status check_machine(const struct reader *r)
{
    const char *at = r->nwords > 1 ? r->words[1].at : r->line_end;
    const struct word named = {at, (size_t)(r->line_end - at)};
    char shown[MACHINE_SHOWN + 1];

    if (is(named, r->machine))
        return SYMM_OK;
    show(named, shown, sizeof shown);
    return symm__fail(SYMM_ERROR_ARGUMENT,
                      "%.540s, line %d: measured on \"%s\", and this is \"%s\": "
                      "measure here with symm-bench tune, or take out the line to use the rows",
                      r->name, r->line, shown, r->machine);
}

static symm_status parse_rows(struct reader *r, struct symm_tuning *t)
{
    size_t capacity = 0;
    symm_status st = SYMM_OK;

    while (next_line(r)) {
        if (is(r->words[0], "machine")) {
            TRY(check_machine(r));
            continue;
        }
        if (r->nwords < ROW_WORDS)
            return symm__fail(SYMM_ERROR_ARGUMENT, "%.540s, line %d: %d of the %d words of a row",
                              r->name, r->line, r->nwords, ROW_WORDS);
        if (r->nwords > ROW_WORDS)
            return wrong(r, r->words[ROW_WORDS], "is one word too many");
        struct row *rows = symm__array_reserve(t->rows, &capacity, t->nrows + 1, sizeof *rows);
        if (!rows)
            return symm__fail(SYMM_ERROR_MEMORY, "no memory for the rows of SYMM_TUNING_FILE");
        t->rows = rows;
        TRY(parse_row(r, &rows[t->nrows]));
        t->nrows++;
    }
out:
    return st;
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_key_and_line(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    return x->key != y->key ? compare(x->key, y->key)
                            : compare((uint64_t)x->line, (uint64_t)y->line);
}

/*
 * Sorts the rows by kind. In the file, rows of one kind may stand between others, but their bytes
 * must ascend.
 */
static symm_status sort_rows(const struct reader *r, struct symm_tuning *t)
{
    if (t->nrows)
        qsort(t->rows, t->nrows, sizeof *t->rows, by_key_and_line);
    for (size_t i = 1; i < t->nrows; i++) {
        const struct row *before = &t->rows[i - 1], *row = &t->rows[i];

        if (row->key == before->key && row->nbytes <= before->nbytes)
            return symm__fail(SYMM_ERROR_ARGUMENT,
                              "%.540s, line %d: \"%llu\" is not more than the "
                              "bytes of line %d",
                              r->name, row->line, (unsigned long long)row->nbytes, before->line);
    }
    return SYMM_OK;
}

static symm_status parse_head(struct reader *r)
{
    if (!next_line(r) || r->nwords != 2 || !is(r->words[0], "symm-tuning"))
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%.540s, line %d: the first line must be \"symm-tuning "
                          "1\"",
                          r->name, r->line);
    return is(r->words[1], "1") ? SYMM_OK : wrong(r, r->words[1], "is not a known version");
}

symm_status symm__tuning_parse(const char *name, const char *machine, const char *text,
                               size_t nbytes, struct symm_tuning **out)
{
    struct reader r = {.name = name, .machine = machine, .at = text, .end = text + nbytes};
    struct symm_tuning *t = calloc(1, sizeof *t);
    symm_status st;

    if (!t)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory for SYMM_TUNING_FILE");
    TRY(parse_head(&r));
    TRY(parse_rows(&r, t));
    TRY(sort_rows(&r, t));
    *out = t;
    return SYMM_OK;
out:
    symm__tuning_destroy(t);
    return st;
}

void symm__tuning_destroy(struct symm_tuning *t)
{
    if (t)
        free(t->rows);
    free(t);
}

/* ----------------------------------------------------------------------------------------- file */

/* Reads the file up to one byte more than allowed. *nbytes: bytes read. */
static symm_status read_all(int fd, const char *name, char *text, size_t *nbytes)
{
    size_t used = 0;
    ssize_t n = 1;

    while (n != 0 && used <= SYMM_TUNING_NBYTES_MAX) {
        n = read(fd, text + used, SYMM_TUNING_NBYTES_MAX + 1 - used);
        if (n < 0 && errno != EINTR) {
            symm__fail_errno(errno, "%.540s", name);
            return SYMM_ERROR_ARGUMENT;
        }
        used += n > 0 ? (size_t)n : 0;
    }
    *nbytes = used;
    if (used > SYMM_TUNING_NBYTES_MAX)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%.540s has more than %d bytes", name,
                          SYMM_TUNING_NBYTES_MAX);
    return SYMM_OK;
}

symm_status symm__tuning_load(const char *file, const char *machine, struct symm_tuning **out)
{
    const char *path = file ? file : symm__setting(SYMM_SETTING_TUNING_FILE);
    char name[544], *text = NULL;
    struct stat about;
    size_t nbytes;
    symm_status st;

    *out = NULL;
    if (!*path)
        return SYMM_OK;
    snprintf(name, sizeof name, "%s=%.512s", file ? "config.tuning_file" : "SYMM_TUNING_FILE",
             path);
    /* O_NONBLOCK, so that a named pipe does not block. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &about) != 0) {
        symm__fail_errno(errno, "%.540s", name);
        st = SYMM_ERROR_ARGUMENT; /* any error means that the setting is wrong */
        goto out;
    }
    if (!S_ISREG(about.st_mode)) {
        st = symm__fail(SYMM_ERROR_ARGUMENT, "%.540s is not a regular file", name);
        goto out;
    }
    text = malloc(SYMM_TUNING_NBYTES_MAX + 1);
    if (!text) {
        st = symm__fail(SYMM_ERROR_MEMORY, "no memory for SYMM_TUNING_FILE");
        goto out;
    }
    TRY(read_all(fd, name, text, &nbytes));
    TRY(symm__tuning_parse(name, machine, text, nbytes, out));
out:
    free(text);
    symm__fd_close(&fd);
    return st;
}

/* -------------------------------------------------------------------------------------- answers */

symm_algo symm__tuning_find(const struct symm_tuning *t, const struct symm_tuning_key *key,
                            uint64_t nbytes)
{
    const uint64_t wanted = number_of_key(key);
    size_t low = 0, high = t ? t->nrows : 0; /* the first row with more bytes */

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct row *row = &t->rows[middle];

        if (row->key < wanted || (row->key == wanted && row->nbytes <= nbytes))
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && t->rows[low - 1].key == wanted ? t->rows[low - 1].algo : SYMM_ALGO_AUTO;
}

bool symm__tuning_knows_nccl(const struct symm_tuning *t, enum symm_operation operation, int nranks)
{
    for (size_t i = 0; t && i < t->nrows; i++)
        if (is_of(&t->rows[i], operation, nranks) &&
            t->rows[i].algo == (symm_algo)SYMM_TUNING_FORWARD)
            return true;
    return false;
}

uint64_t symm__tuning_hash(const struct symm_tuning *t)
{
    uint64_t hash = 1;

    if (!t)
        return 0;
    for (size_t i = 0; i < t->nrows; i++)
        hash = symm__mix(symm__mix(symm__mix(hash, t->rows[i].key), t->rows[i].nbytes),
                         (uint64_t)t->rows[i].algo);
    return hash ? hash : 1;
}
