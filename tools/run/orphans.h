/* What is left of a job when its ranks have ended: processes they started, which have become
 * children of ours. */
#ifndef SYMM_TOOLS_ORPHANS_H
#define SYMM_TOOLS_ORPHANS_H

/*
 * Ends and reaps every child of this process: SIGTERM at first, SIGKILL after grace_ms. With
 * PR_SET_CHILD_SUBREAPER that is everything which descends from it. Returns how many could not be
 * ended.
 */
int orphans_end(int grace_ms);

#endif
