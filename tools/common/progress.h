/* One line on standard error about long work, written over again and again; on a terminal only. */
#ifndef SYMM_TOOLS_PROGRESS_H
#define SYMM_TOOLS_PROGRESS_H

/*
 * Shows the line in place of the last one, at most some times a second. Call it from one rank.
 */
void progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Clears the line, if there is one. */
void progress_end(void);

#endif
