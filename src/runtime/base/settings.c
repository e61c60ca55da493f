/* Reads the environment at every call, since a program may set a variable before it joins. */
#include "settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name, *fallback;
} settings[SYMM_SETTING_COUNT] = {
#define SYMM_SETTING_ROW_(id, name, type, fallback, help) {name, fallback},
    SYMM_SETTINGS(SYMM_SETTING_ROW_)
#undef SYMM_SETTING_ROW_
};

bool symm__setting_is_set(enum symm_setting_id id)
{
    const char *text = getenv(settings[id].name);

    return text && *text;
}

const char *symm__setting(enum symm_setting_id id)
{
    return symm__setting_is_set(id) ? getenv(settings[id].name) : settings[id].fallback;
}

static bool is_known(const char *name, size_t nbytes)
{
    for (int i = 0; i < SYMM_SETTING_COUNT; i++)
        if (strlen(settings[i].name) == nbytes && !memcmp(settings[i].name, name, nbytes))
            return true;
    return false;
}

const char *symm__setting_unknown(int index)
{
    for (char **e = environ; e && *e; e++) {
        size_t nbytes = strcspn(*e, "=");
        if (!strncmp(*e, "SYMM_", 5) && strncmp(*e, "SYMM_TEST_", 10) && (*e)[nbytes] &&
            (*e)[nbytes + 1] && !is_known(*e, nbytes) && index-- == 0)
            return *e;
    }
    return NULL;
}

/* The power of two of a suffix; -1 if it is unknown. */
static int shift_of(const char *suffix)
{
    static const char letters[] = "KMGT";

    if (!*suffix)
        return 0;
    const char *at = strchr(letters, *suffix >= 'a' ? *suffix - 'a' + 'A' : *suffix);
    return at && *at && !suffix[1] ? 10 * (int)(at - letters + 1) : -1;
}

/*
 * Parses a decimal number with an optional sign and suffix. Returns false for other texts and on
 * overflow.
 */
static bool parse_int(const char *text, int64_t *out)
{
    const char *digits = *text == '-' || *text == '+' ? text + 1 : text;
    char *end;
    int64_t value, factor;

    if (*digits < '0' || *digits > '9')
        return false;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno || shift_of(end) < 0)
        return false;
    factor = INT64_C(1) << shift_of(end);
    return !__builtin_mul_overflow(value, factor, out);
}

symm_status symm__setting_int(enum symm_setting_id id, int64_t least, int64_t most, int64_t *out)
{
    const char *text = symm__setting(id);
    int64_t value;

    if (!*text)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s is not set", settings[id].name);
    if (!parse_int(text, &value))
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s=%s is not a number", settings[id].name, text);
    if (value < least || value > most)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s=%s is not within %lld to %lld",
                          settings[id].name, text, (long long)least, (long long)most);
    *out = value;
    return SYMM_OK;
}

int64_t symm__setting_default(enum symm_setting_id id)
{
    int64_t value = 0;

    parse_int(settings[id].fallback, &value);
    return value;
}

symm_status symm__setting_bytes(enum symm_setting_id id, uint64_t *out)
{
    int64_t value = 0;
    symm_status st = symm__setting_int(id, 0, INT64_MAX, &value);

    if (st == SYMM_OK)
        *out = (uint64_t)value;
    return st;
}
