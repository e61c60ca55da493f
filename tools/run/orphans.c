/* Finds the children of this process in /proc, ends them and reaps them. */
#include "orphans.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The parent of a process; 0 when there is no such process any more. */
static pid_t parent_of(const char *pid)
{
    char path[64], line[512], state;
    int parent = 0;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    /* The name is in parentheses and may contain any character, parentheses too. */
    const char *rest = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (!rest || sscanf(rest + 1, " %c %d", &state, &parent) != 2)
        parent = 0;
    fclose(file);
    return parent;
}

static int signal_children(int sig)
{
    int n = 0;
    DIR *dir = opendir("/proc");

    if (!dir)
        return 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (!isdigit((unsigned char)entry->d_name[0]) || parent_of(entry->d_name) != getpid())
            continue;
        kill((pid_t)atol(entry->d_name), sig);
        n++;
    }
    closedir(dir);
    return n;
}

int orphans_end(int grace_ms)
{
    /* After SIGKILL the same time again; a process that is stuck in a driver may never end. */
    for (int ms = 0, pause_ms = 10; ms <= 2 * grace_ms; ms += pause_ms) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            return 0;
        /* Every 500 ms, so that handlers can clean up; new orphans appear as parents end. */
        if (ms >= grace_ms)
            signal_children(SIGKILL);
        else if (ms % 500 == 0)
            signal_children(SIGTERM);
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000L}, NULL);
    }
    return signal_children(0);
}
