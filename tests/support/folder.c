/* A folder for the length of a case. */
#include "folder.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char folder[64];

void enter_folder(void)
{
    strcpy(folder, "/tmp/symm-meet-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    setenv("SYMM_DIR", folder, 1);
}

void leave_folder(void)
{
    ck_assert_msg(rmdir(folder) == 0, "something is left in %s", folder);
}
