/* What the driver says about this machine's devices. */
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
    int virtual_memory, fd_handles, fabric_handles, multicast; /* what it can: 0 or 1 */
    size_t least_granularity, best_granularity; /* of memory that is shared by descriptors */
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
 * Asks through a world of one, which is gone again afterwards. `driver` is a word for
 * driver_open(), but here auto never comes to the emulated driver by itself: devices that do not
 * exist are described only to a user who asked for them.
 *
 * ERROR_DRIVER also when a question fails; the text is symm's, or "why" if that is not empty.
 */
symm_status host_info_ask(const char *driver, struct host_info *out, char why[512]);

#endif
