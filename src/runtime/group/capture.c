/* Keeps the list of captures in progress in this process. */
#include "capture.h"

#include <pthread.h>

enum { MOST = 64 }; /* most captures in the list; the driver itself refuses calls during others */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    CUstream stream;
    pthread_t thread;
} captures[MOST];
static int ncaptures;

void symm__capture_began(CUstream stream)
{
    pthread_mutex_lock(&lock);
    if (ncaptures < MOST) {
        captures[ncaptures].stream = stream;
        captures[ncaptures].thread = pthread_self();
        ncaptures++;
    }
    pthread_mutex_unlock(&lock);
}

void symm__capture_ended(CUstream stream)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ncaptures; i++)
        if (captures[i].stream == stream) {
            captures[i] = captures[--ncaptures];
            break;
        }
    pthread_mutex_unlock(&lock);
}

bool symm__capture_is_listed(CUstream stream)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < ncaptures; i++)
        found = found || captures[i].stream == stream;
    pthread_mutex_unlock(&lock);
    return found;
}

symm_status symm__capture_forbids(const struct symm_group *group)
{
    bool found = false;
    int status;
    CUresult cu;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < ncaptures; i++)
        found = found || pthread_equal(captures[i].thread, pthread_self()) ||
                (group->has_last && captures[i].stream == group->last_stream) ||
                (group->has_captured && captures[i].stream == group->captured);
    pthread_mutex_unlock(&lock);
    if (found)
        return symm__fail(SYMM_ERROR_STATE,
                          "a stream is being captured: collective calls are not allowed");
    cu = group->ctx->drv->cuStreamIsCapturing(NULL, &status);
    return cu == CUDA_SUCCESS ? SYMM_OK
                              : symm__driver_fail(group->ctx->drv, cu, "cuStreamIsCapturing");
}
