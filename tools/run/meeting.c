/* Session, token and folder of one job. */
#include "meeting.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static int random_hex(char out[33])
{
    unsigned char bytes[16];

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return errno;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return 0;
}

int meeting_create(struct meeting *m, int nranks)
{
    const char *tmp = getenv("TMPDIR"), *chosen = getenv("SYMM_DIR");
    int error;

    *m = (struct meeting){.nranks = nranks};
    error = random_hex(m->session);
    if (!error)
        error = random_hex(m->token);
    if (error || (chosen && *chosen))
        return error;
    int length = snprintf(m->dir, sizeof m->dir, "%s/symm-run-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    /* Without its own folder the job still runs, in the folder that all jobs share. */
    if (length >= (int)sizeof m->dir || !mkdtemp(m->dir))
        m->dir[0] = 0;
    return 0;
}

void meeting_destroy(struct meeting *m)
{
    DIR *dir = m->dir[0] ? opendir(m->dir) : NULL;

    if (!dir)
        return;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    rmdir(m->dir);
    m->dir[0] = 0;
}

int meeting_describe(const struct meeting *m, int rank)
{
    char text[2][16];

    snprintf(text[0], sizeof text[0], "%d", rank);
    snprintf(text[1], sizeof text[1], "%d", m->nranks);
    const char *variables[][2] = {
        {"SYMM_RANK", text[0]},   {"SYMM_NRANKS", text[1]}, {"SYMM_SESSION", m->session},
        {"SYMM_TOKEN", m->token}, {"LOCAL_RANK", text[0]},  {"SYMM_DIR", m->dir[0] ? m->dir : NULL},
    };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        if (variables[i][1] && setenv(variables[i][0], variables[i][1], 1) != 0)
            return -1;
    }
    return 0;
}
