#include "preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/names.h>
#include <unistd.h>

bool preload_nccl(const char *tool)
{
    const char *before = getenv("LD_PRELOAD"), *real = getenv("SYMM_NCCL_LIBRARY");
    const bool alone = real && strcmp(real, "none") == 0;
    char list[8192];
    Dl_info info = {.dli_fname = ""};

    dladdr((void *)(uintptr_t)symm_version, &info);
    const char *slash = strrchr(info.dli_fname, '/');
    const int folder = slash ? (int)(slash - info.dli_fname) : 0;
    snprintf(list, sizeof list, "%.*s/%s", folder, info.dli_fname,
             alone ? "nccl/libnccl.so.2" : "libsymm_nccl.so");
    if (access(list, R_OK) != 0) {
        fprintf(stderr, "# %s: --nccl: %s: %s\n", tool, list, strerror(errno));
        return false;
    }
    if (before && *before)
        snprintf(list + strlen(list), sizeof list - strlen(list), ":%s", before);
    return setenv("LD_PRELOAD", list, 1) == 0;
}

int preload_run(const struct launch *job)
{
    if (!job->driver || setenv("SYMM_DRIVER", job->driver, 1) == 0)
        execvp(job->argv[0], job->argv);
    fprintf(stderr, "# %s: %s: %s\n", job->tool, job->argv[0], strerror(errno));
    return errno == ENOENT ? LAUNCH_NOT_FOUND : LAUNCH_CANNOT_EXECUTE;
}
