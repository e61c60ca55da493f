/* Keeps the descriptors 0, 1 and 2 of a tool occupied. */
#ifndef SYMM_TOOLS_STDIO_GUARD_H
#define SYMM_TOOLS_STDIO_GUARD_H

/*
 * Opens the descriptors 0, 1 and 2 if the caller has closed them. Otherwise a socket of symm or a
 * file of results would get one of them, and with it the printed text. Reading or printing fails as
 * before.
 */
void stdio_guard(void);

#endif
