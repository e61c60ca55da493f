/* Processes that ranks have started and left behind; they become children of this process. */
#ifndef SYMM_TOOLS_ORPHANS_H
#define SYMM_TOOLS_ORPHANS_H

/*
 * Ends and reaps every child of this process: SIGTERM at first, SIGKILL after grace_ms. With
 * PR_SET_CHILD_SUBREAPER these are all its descendants. Returns the number of children that could
 * not be ended.
 */
int orphans_end(int grace_ms);

#endif
