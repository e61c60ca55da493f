/* The names of the public enums, out of their maps. */
#include <string.h>
#include <symm/names.h>
#include "array.h"
#include "status.h"
#include "text.h"

struct name {
    const char *name, *short_name;
    size_t nbytes; /* of an element type */
    int value;
};

#define DTYPE_(id, value, nbytes, name, short_name) {name, short_name, nbytes, value},
#define REDOP_(id, value, name) {name, NULL, 0, value},
#define TEXT_(id, value, name, text) {name, NULL, 0, value},
static const struct name dtypes[] = {SYMM_DTYPE_MAP(DTYPE_)}, redops[] = {SYMM_REDOP_MAP(REDOP_)},
                         algos[] = {SYMM_ALGO_MAP(TEXT_)},
                         strategies[] = {SYMM_STRATEGY_MAP(TEXT_)};
static const struct name none;

#define COUNT(names) (sizeof(names) / sizeof *(names))

static const struct name *find(const struct name *names, size_t count, int value)
{
    for (size_t i = 0; i < count; i++)
        if (names[i].value == value)
            return &names[i];
    return &none;
}

static symm_status parse(const char *call, const struct name *names, size_t count, const char *text,
                         const void *out, int *value)
{
    struct symm_text list = {.used = 0};

    if (!text || !out)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s: %s is NULL", call, text ? "out" : "text");
    for (size_t i = 0; i < count; i++) {
        const struct name *n = &names[i];
        if (strcmp(text, n->name) == 0 || (n->short_name && strcmp(text, n->short_name) == 0)) {
            *value = n->value;
            return SYMM_OK;
        }
        symm__text_add(&list, "%s%s", i ? ", " : "", n->name);
    }
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s: \"%.64s\" is not one of %s", call, text,
                      list.bytes);
}

int symm_version(void)
{
    return SYMM_VERSION;
}

size_t symm_dtype_size(symm_dtype dtype)
{
    return find(dtypes, COUNT(dtypes), (int)dtype)->nbytes;
}

/* symm_NAME_name() and symm_NAME_parse() of an enum. */
#define NAMES_OF(noun, names)                                                                      \
    const char *symm_##noun##_name(symm_##noun value)                                              \
    {                                                                                              \
        return find(names, COUNT(names), (int)value)->name;                                        \
    }                                                                                              \
    symm_status symm_##noun##_parse(const char *text, symm_##noun *out)                            \
    {                                                                                              \
        int value = 0;                                                                             \
        const symm_status st =                                                                     \
            parse("symm_" #noun "_parse", names, COUNT(names), text, out, &value);                 \
        if (st == SYMM_OK)                                                                         \
            *out = (symm_##noun)value;                                                             \
        return st;                                                                                 \
    }
NAMES_OF(dtype, dtypes)
NAMES_OF(redop, redops)
NAMES_OF(algo, algos)
NAMES_OF(strategy, strategies)
