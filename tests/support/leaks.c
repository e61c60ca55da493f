/* Counts of a process's resources. */
#include "leaks.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "abi/cuda_driver.h"
#include "test.h"

/* A sanitizer reserves address space at any time and has its own thread. */
bool leaks_sees_all(void)
{
    return !TEST_INSTRUMENTED;
}

static int entries(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir))
        n += e->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return n;
}

/* Shared memory shows as a deleted memfd; address space that is only reserved as large, private and
 * without rights. */
static void count_mappings(struct leaks *out)
{
    char line[512];
    FILE *f = fopen("/proc/self/maps", "re");
    while (f && fgets(line, sizeof line, f)) {
        unsigned long from, to;
        char rights[8];
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3)
            continue;
        if (strstr(line, "/memfd:") || strstr(line, "/dev/shm/"))
            out->mappings++;
        else if (!TEST_INSTRUMENTED && strcmp(rights, "---p") == 0 && to - from >= 1ul << 30)
            out->reservations++;
    }
    if (f)
        fclose(f);
}

static bool count_driver(struct symm_emulated_objects *out)
{
    void *lib = dlopen("libsymm_emulated.so", RTLD_NOW | RTLD_NOLOAD);
    if (!lib)
        return false;
    PFN_cuGetProcAddress_v12000 get;
    int (*count)(struct symm_emulated_objects *) = NULL;
    *(void **)&get = dlsym(lib, "cuGetProcAddress_v2");
    if (get)
        get("symm_emulated_objects", (void **)&count, 13000, CU_GET_PROC_ADDRESS_DEFAULT, NULL);
    bool ok = count && count(out) == 0;
    dlclose(lib);
    return ok;
}

void leaks_take(struct leaks *out)
{
    memset(out, 0, sizeof *out);
    out->has_driver = count_driver(&out->driver);
    out->fds = entries("/proc/self/fd") - (int)out->driver.fds;
    out->threads = TEST_INSTRUMENTED ? 0 : entries("/proc/self/task");
    count_mappings(out);
}

static void note(char *text, size_t nbytes, const char *what, long long before, long long now)
{
    size_t used = strlen(text);
    if (now > before)
        snprintf(text + used, nbytes - used, "%s%lld %s more than before (%lld)", used ? ", " : "",
                 now - before, what, before);
}

static void compare(const struct leaks *a, const struct leaks *b, char *text, size_t nbytes)
{
    text[0] = '\0';
    note(text, nbytes, "descriptors", a->fds, b->fds);
    note(text, nbytes, "threads", a->threads, b->threads);
    note(text, nbytes, "mappings of shared memory", a->mappings, b->mappings);
    note(text, nbytes, "reservations", a->reservations, b->reservations);
#define NOTE_DRIVER_(field) note(text, nbytes, "driver " #field, a->driver.field, b->driver.field)
    NOTE_DRIVER_(handles);
    NOTE_DRIVER_(mappings);
    NOTE_DRIVER_(reservations);
    NOTE_DRIVER_(binds);
    NOTE_DRIVER_(allocations);
    NOTE_DRIVER_(host_allocations);
    NOTE_DRIVER_(streams);
    NOTE_DRIVER_(events);
    NOTE_DRIVER_(graphs);
    NOTE_DRIVER_(graph_execs);
    NOTE_DRIVER_(modules);
    NOTE_DRIVER_(contexts);
#undef NOTE_DRIVER_
}

bool leaks_none_since(const struct leaks *before, char *text, size_t nbytes)
{
    for (int tries = 0; tries < 100; tries++) {
        struct leaks now;
        leaks_take(&now);
        compare(before, &now, text, nbytes);
        if (!text[0])
            return true;
        /* A joined thread stays in /proc for a moment. */
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return false;
}

bool leaks_gives_back(const char *call)
{
    static const char *const words[] = {"Destroy", "Free", "Unmap", "Release", "Unload", "Unbind"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(call, words[i]))
            return true;
    return false;
}
