/* The three standard files of a tool. */
#ifndef SYMM_TOOLS_STDIO_GUARD_H
#define SYMM_TOOLS_STDIO_GUARD_H

/*
 * Takes the numbers 0, 1 and 2 if the caller has closed them. Otherwise a socket of symm or a file
 * of results would get one, and with it what is printed. Reading or printing fails as before.
 */
void stdio_guard(void);

#endif
