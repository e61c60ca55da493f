/* Cases that have a meeting folder of their own. */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H

#include <check.h>

extern char folder[64]; /* TMPDIR and SYMM_DIR of the case: nothing may be left in it */

void in_a_folder(TCase *tc);

#endif
