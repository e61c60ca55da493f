/* Numbers with units, lists, messages about wrong arguments. */
#include "text.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/types.h>

bool text_bytes(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    char *end = NULL;

    if (!isdigit((unsigned char)text[0]))
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno)
        return false;
    unsigned shift = 0;
    if (*end) {
        const char *unit = strchr(units, toupper((unsigned char)*end));
        if (!unit || end[1])
            return false;
        shift = 10 * (unsigned)(unit - units + 1);
    }
    if (value > UINT64_MAX >> shift)
        return false;
    *out = (uint64_t)value << shift;
    return true;
}

bool text_int(const char *text, long least, long most, int *out)
{
    char *end = NULL;

    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        return false;
    *out = (int)value;
    return true;
}

bool text_real(const char *text, double *out)
{
    char *end = NULL;
    double value = strtod(text, &end);

    /* Written so that a NaN fails too. */
    if (end == text || *end || !(fabs(value) <= (double)FLT_MAX))
        return false;
    *out = value;
    return true;
}

bool text_seconds(const char *text, double *out)
{
    double value;

    if (!text_real(text, &value) || value <= 0 || value >= 1e9)
        return false;
    *out = value;
    return true;
}

bool text_next(const char **list, char *item, size_t nbytes)
{
    if (!**list)
        return false;
    size_t length = strcspn(*list, ",");
    snprintf(item, nbytes, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == ',');
    return true;
}

const char *text_of_bytes(uint64_t nbytes, char *buffer, size_t capacity)
{
    static const char units[] = " KMGT";
    int unit = 0;

    while (unit < 4 && nbytes && nbytes % 1024 == 0) {
        nbytes /= 1024;
        unit++;
    }
    snprintf(buffer, capacity, "%" PRIu64 "%.*s", nbytes, unit > 0, units + unit);
    return buffer;
}

const char *text_of_signal(int sig, char *buffer, size_t capacity)
{
    const char *name = sigabbrev_np(sig);

    if (name)
        snprintf(buffer, capacity, "SIG%s", name);
    else
        snprintf(buffer, capacity, "signal %d", sig);
    return buffer;
}

int text_usage_error(const char *tool, const char *format, ...)
{
    char what[512];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    fprintf(stderr, "# %s: %s (%s --help shows the usage)\n", tool, what, tool);
    return EXIT_USAGE;
}

/* The options that begin with the `length` characters of `name`: ", --this, --that". */
static int find_options(const struct option *options, const char *name, size_t length,
                        char out[512])
{
    size_t used = 0;
    int n = 0;

    out[0] = 0;
    for (const struct option *o = options; o->name; o++) {
        if (strncmp(o->name, name, length) != 0 ||
            (o > options && o->val == o[-1].val && strncmp(o[-1].name, name, length) == 0))
            continue;
        n++;
        if (used < 512)
            used += (size_t)snprintf(out + used, 512 - used, ", --%s", o->name);
    }
    return n;
}

int text_bad_option(const char *tool, char *const *argv, int c, const struct option *options)
{
    const char *shown = argv[optind - 1];
    const int length = (int)strcspn(shown, "=");
    char found[512];

    /* optopt is 0 for a long option, unless its value is missing or unexpected. For a letter it is
     * the letter, and `shown` may be another argument. */
    if (c == '?' && optopt && (strncmp(shown, "--", 2) != 0 || !shown[length]))
        return text_usage_error(tool, "-%c: no such option", optopt);
    if (c == ':')
        return text_usage_error(tool, "%s needs a value", shown);
    if (optopt)
        return text_usage_error(tool, "%s: %.*s takes no value", shown, length, shown);
    if (find_options(options, shown + 2, (size_t)length - 2, found) > 1)
        return text_usage_error(tool, "%.*s may be one of %s", length, shown, found + 2);
    return text_usage_error(tool, "%.*s: no such option", length, shown);
}

void text_version(const char *tool)
{
    printf("# %s %d.%d.%d\n", tool, SYMM_VERSION_MAJOR, SYMM_VERSION_MINOR, SYMM_VERSION_PATCH);
}
