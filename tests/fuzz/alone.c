/* Replaying inputs, and making them up. */
#include "alone.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUT_MAX = 1 << 17 };

static uint64_t state = 1;

uint32_t alone_chance(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static int replay_file(const char *path)
{
    uint8_t *input = malloc(INPUT_MAX);
    FILE *f = fopen(path, "re");
    int n = f && input;

    if (n)
        LLVMFuzzerTestOneInput(input, fread(input, 1, INPUT_MAX, f));
    if (f)
        fclose(f);
    free(input);
    return n;
}

static int replay(const char *path)
{
    DIR *dir = opendir(path);
    char name[4096];
    int n = 0;

    if (!dir)
        return replay_file(path);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.' &&
            snprintf(name, sizeof name, "%s/%s", path, e->d_name) < (int)sizeof name)
            n += replay_file(name);
    closedir(dir);
    return n;
}

int alone_main(int argc, char **argv, void (*make_up)(void), int nmade_up)
{
    int n = 0;

    for (int i = 1; i < argc; i++)
        n += replay(argv[i]);
    for (; argc == 1 && n < nmade_up; n++)
        make_up();
    printf("# %s: %d inputs\n", program_invocation_short_name, n);
    return n == 0;
}
