/* Cases that have a meeting folder of their own. */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H

extern char folder[64]; /* TMPDIR and SYMM_DIR of the case: nothing may be left in it */

/* Fields of a TEST_GROUP. */
#define IN_A_FOLDER .setup = enter_folder, .teardown = leave_folder
void enter_folder(void);
void leave_folder(void);

#endif
