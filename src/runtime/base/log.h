/*
 * Writes reports on events that no call returns, such as a slow rank. They go to the callback of
 * the configuration, else to the target of SYMM_LOG.
 */
#ifndef SYMM_LOG_H
#define SYMM_LOG_H

enum symm_log_level { SYMM_LOG_ERROR = 1, SYMM_LOG_WARNING, SYMM_LOG_INFO, SYMM_LOG_DETAIL };

struct symm_log {
    void (*to)(void *user, int level, const char *line); /* NULL: SYMM_LOG, else silent */
    void *user;
    int rank; /* -1 until it is known */
};

/* Writes one line, "symm[rank]: ...". Never allocates. Any thread. */
__attribute__((format(printf, 3, 4))) void symm__log(const struct symm_log *log, int level,
                                                     const char *fmt, ...);

#endif
