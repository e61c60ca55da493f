/*
 * A bad network between two hosts: a process that listens at an address of its own and forwards
 * bytes to another one, until it is told to do something else.
 */
#ifndef TEST_PROXY_H
#define TEST_PROXY_H

#include <stdatomic.h>
#include <sys/types.h>

enum proxy_mode {
    PROXY_FORWARDS,
    PROXY_SWALLOWS,      /* what comes is lost, and nobody hears of it */
    PROXY_SWALLOWS_UP,   /* only what goes to the other address */
    PROXY_SWALLOWS_DOWN, /* only what comes from there */
    PROXY_CUT            /* its connections end, and new ones */
};

struct proxy {
    char address[32]; /* of the proxy */
    pid_t pid;
    struct proxy_control {
        _Atomic enum proxy_mode mode;
        atomic_int delay_ms;  /* of each way */
        atomic_int nforwards; /* connections that it has made */
    } * control;              /* shared with the process */
};

/* to: "127.0.0.1:PORT", at which somebody may listen later. Before the ranks start. */
void proxy_start(struct proxy *proxy, const char *to, int delay_ms);
void proxy_end(struct proxy *proxy);

#endif
