#include <stdbool.h>
#include "settings.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FAULTS = 8 };

static struct {
    char call[40];
    int rank; /* -1: any */
    long nth;
    int result;
    atomic_long calls;
} faults[FAULTS];
static int nfaults;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool read_fault(const char *text, int i)
{
    return sscanf(text, "%39[A-Za-z]@%d#%ld=%d", faults[i].call, &faults[i].rank, &faults[i].nth,
                  &faults[i].result) == 4;
}

static void read_faults(void)
{
    const char *text = getenv("NCCL_STANDIN_FAULT");
    while (text && *text) {
        if (nfaults == FAULTS || !read_fault(text, nfaults++)) {
            fprintf(stderr, "nccl stand-in: NCCL_STANDIN_FAULT: %s\n", text);
            abort();
        }
        text = strchr(text, ';');
        text = text ? text + 1 : NULL;
    }
}

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

int settings_version(void)
{
    return (int)number("NCCL_STANDIN_VERSION", NCCL_ABI_VERSION);
}

bool settings_blocking(bool otherwise)
{
    return number("NCCL_COMM_BLOCKING", otherwise) != 0;
}

bool settings_abort_waits(void)
{
    return number("NCCL_STANDIN_ABORT_WAITS", 0) != 0;
}

void settings_delay(void)
{
    static _Atomic uint64_t draws;
    long most = number("NCCL_STANDIN_DELAY_US", 0);
    if (most <= 0)
        return;
    uint64_t x = (uint64_t)number("NCCL_STANDIN_SEED", getpid()) + atomic_fetch_add(&draws, 1);
    x = (x + 1) * 0x9e3779b97f4a7c15u; /* neighbouring numbers give distant ones */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    usleep((useconds_t)((x ^ x >> 31) % (uint64_t)most));
}

int settings_fault(const char *call, int rank)
{
    int result = ncclSuccess;
    pthread_once(&once, read_faults);
    for (int i = 0; i < nfaults && result == ncclSuccess; i++)
        if (strcmp(faults[i].call, call) == 0 && (faults[i].rank == -1 || faults[i].rank == rank) &&
            atomic_fetch_add(&faults[i].calls, 1) + 1 == faults[i].nth)
            result = faults[i].result;
    if (result < STANDIN_SLOW)
        return result;
    usleep((useconds_t)(result - STANDIN_SLOW) * 1000);
    return ncclSuccess;
}

void settings_record(uint64_t id, int rank, const char *format, ...)
{
    const char *prefix = getenv("NCCL_STANDIN_RECORD");
    char path[4096];
    if (!prefix)
        return;
    snprintf(path, sizeof path, "%s.%016llx.%d", prefix, (unsigned long long)id, rank);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    va_list list;
    va_start(list, format);
    vdprintf(fd, format, list);
    va_end(list);
    close(fd);
}
