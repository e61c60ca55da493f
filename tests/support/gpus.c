#include "gpus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int ask(int most)
{
    int (*init)(unsigned) = NULL, (*count)(int *) = NULL, n = 0;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (lib) {
        *(void **)&init = dlsym(lib, "cuInit");
        *(void **)&count = dlsym(lib, "cuDeviceGetCount");
    }
    if (!init || !count || init(0) != 0 || count(&n) != 0)
        return 0;
    return n < most ? n : most;
}

int gpus_count(int most)
{
    int status = 0;

    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        _exit(ask(most));
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 0;
    return WEXITSTATUS(status);
}
