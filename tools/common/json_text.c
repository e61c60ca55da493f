#include "json_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes of the character at c; 0: it is none. */
static size_t length_of(const char *c)
{
    const size_t most = strnlen(c, 4);

    for (size_t n = 1; n <= most; n++) {
        json_t *character = json_stringn(c, n);
        const bool valid = character != NULL;

        json_decref(character);
        if (valid)
            return n;
    }
    return 0;
}

json_t *json_text(const char *text)
{
    char *copy = text ? strdup(text) : NULL;

    if (!copy)
        return json_null();
    for (char *c = copy; *c;) {
        const size_t n = length_of(c);

        if (n == 0)
            *c = '?';
        c += n > 0 ? n : 1;
    }
    json_t *string = json_string(copy);
    free(copy);
    return string;
}

json_t *json_command_line(void)
{
    json_t *words = json_array();
    FILE *file = fopen("/proc/self/cmdline", "re");
    char *word = NULL;
    size_t size = 0;

    while (file && getdelim(&word, &size, 0, file) > 0)
        json_array_append_new(words, json_text(word));
    free(word);
    if (file)
        fclose(file);
    return words;
}
