/* This host's devices, as the driver describes them. */
#ifndef SYMM_INFO_HOST_INFO_H
#define SYMM_INFO_HOST_INFO_H

#include <stdbool.h>
#include <sys/resource.h>
#include <symm/symm.h>

enum { HOST_INFO_MAX_DEVICES = 64 };

struct device {
    char uuid[48], name[256], bus_id[32];
    uint64_t memory;
    int major, minor, multiprocessors;
    int virtual_memory, fd_handles, fabric_handles, multicast; /* capabilities: 0 or 1 */
    size_t least_granularity, best_granularity;                /* of memory shared by descriptors */
};

struct host_info {
    char driver[16], why_driver[512];
    int driver_version; /* 13000: 13.0 */
    int ndevices;
    struct device devices[HOST_INFO_MAX_DEVICES];
    bool reaches[HOST_INFO_MAX_DEVICES][HOST_INFO_MAX_DEVICES]; /* [from][to] */
    char multicast_off[512]; /* in a world of one; empty: it is on */
    struct symm_usage usage;
    struct rlimit files;
};

/*
 * The word for driver_open(): auto never selects the emulated driver by itself, since emulated
 * devices are shown only on request.
 */
const char *host_info_driver(const char *choice);

/*
 * Asks the driver of this word, by host_info_driver(), through a temporary world of one rank.
 *
 * Errors: ERROR_DRIVER also if a query fails; the text is `why`, or symm's if that is empty.
 */
symm_status host_info_ask(const char *driver, struct host_info *out, char why[512]);

#endif
