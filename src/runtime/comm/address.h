/* TCP addresses, "HOST:PORT": reading them, listening, and the choice of this host's own. */
#ifndef SYMM_ADDRESS_H
#define SYMM_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

struct symm_address {
    struct sockaddr_storage sock; /* IPv4 or IPv6 */
    socklen_t nbytes;
};

/*
 * Resolves "HOST:PORT", "[IPv6]:PORT" or, with `port` as the port, "HOST" and "[IPv6]"; a port of
 * -1 refuses these. Takes IPv4 if a host has both. text is named `variable` in failures. May ask a
 * name server, so it may block for seconds.
 * Errors: ERROR_ARGUMENT (no host, 0.0.0.0, no port, a port outside of 0 to 65535, an unknown host)
 */
symm_status symm__address_read(const char *variable, const char *text, int port,
                               struct symm_address *out);

/* The same address with another port. */
struct symm_address symm__address_with_port(const struct symm_address *a, int port);
int symm__address_port(const struct symm_address *a);

/* "10.0.0.1:4242" */
struct symm_address_name {
    char text[80];
};
struct symm_address_name symm__address_name(const struct symm_address *a);

/*
 * This host's address if nothing names one: that of the first interface that is up, running and no
 * loopback, IPv4 before IPv6 (no link-local one); without one 127.0.0.1. The port is 0.
 * Errors: ERROR_SYSTEM
 */
symm_status symm__address_own(struct symm_address *out);

/*
 * Listens at the address, on its interface only. Port 0: at any free port; *at gets it. *fd is
 * non-blocking and close-on-exec, above 2.
 * Errors: ERROR_STATE   the port is in use
 *         ERROR_SYSTEM  the address is not this host's, or errno
 */
symm_status symm__address_listen(const struct symm_address *a, struct symm_address *at, int *fd);
/* Closes a listener and sets it to -1. A forked child that holds it does not keep the port. */
void symm__address_unlisten(int *fd);

#endif
