/* Reads arguments by the conversions of their format, and writes them by these. */
#include "late_text.h"

#include <stdio.h>
#include <string.h>

/* The character of the next conversion, behind its size; *from: its '%'. NULL: none. */
static const char *next_conversion(const char *at, const char **from)
{
    *from = strchr(at, '%');
    if (!*from)
        return NULL;
    for (at = *from + 1; *at == 'z' || *at == 'l';)
        at++;
    return at;
}

void symm__late_text_keep(struct symm_late_text *text, const char *format, va_list args)
{
    const char *from, *at = format;
    uint64_t *value = text->values;

    text->format = format;
    while ((at = next_conversion(at, &from)))
        if (*at == 's' || *at == 'p')
            *value++ = (uintptr_t)va_arg(args, void *);
        else if (*at == 'g' || *at == 'a')
            memcpy(value++, &(double){va_arg(args, double)}, sizeof *value);
        else if (from[1] == *at)
            *value++ = (uint64_t)va_arg(args, int);
        else
            *value++ = va_arg(args, unsigned long long); /* as wide as a size_t */
}

char *symm__late_text_write(const struct symm_late_text *text, char *out, size_t nbytes)
{
    const char *from, *end, *at = text->format ? text->format : "";
    const uint64_t *value = text->values;
    size_t used = 0;
    double real;

    *out = 0;
    for (; (end = next_conversion(at, &from)); at = end + 1, value++) {
        const int literal = (int)(from - at);
        const size_t left = nbytes - used;

        switch (*end) {
        case 's':
            snprintf(out + used, left, "%.*s%s", literal, at, (const char *)(uintptr_t)*value);
            break;
        case 'p':
            snprintf(out + used, left, "%.*s%p", literal, at, (void *)(uintptr_t)*value);
            break;
        case 'g':
            memcpy(&real, value, sizeof real);
            snprintf(out + used, left, "%.*s%g", literal, at, real);
            break;
        case 'a':
            memcpy(&real, value, sizeof real);
            snprintf(out + used, left, "%.*s%a", literal, at, real);
            break;
        case 'd':
            snprintf(out + used, left, "%.*s%d", literal, at, (int)*value);
            break;
        default: /* %u or wider */
            snprintf(out + used, left, "%.*s%llu", literal, at,
                     from[1] == *end ? (unsigned)*value : (unsigned long long)*value);
        }
        used += strlen(out + used);
    }
    snprintf(out + used, nbytes - used, "%s", at);
    return out;
}
