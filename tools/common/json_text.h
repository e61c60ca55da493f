/* Text of any origin in JSON. */
#ifndef SYMM_TOOLS_JSON_TEXT_H
#define SYMM_TOOLS_JSON_TEXT_H

#include <jansson.h>

/* A string, with '?' for each byte that is no UTF-8: jansson refuses such text. NULL: a null. */
json_t *json_text(const char *text);

/* The words of the command line, in the order in which they were given. */
json_t *json_command_line(void);

#endif
