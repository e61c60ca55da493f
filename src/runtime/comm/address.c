/* Reads TCP addresses, finds this host's own, and listens. */
#include "address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/base/fd.h"

enum { BACKLOG = 4096 }; /* the kernel lowers it to its own limit */

/* ---- The port ---- */

struct symm_address symm__address_with_port(const struct symm_address *a, int port)
{
    struct symm_address b = *a;

    if (b.sock.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&b.sock)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)&b.sock)->sin_port = htons((uint16_t)port);
    return b;
}

int symm__address_port(const struct symm_address *a)
{
    if (a->sock.ss_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)&a->sock)->sin6_port);
    return ntohs(((const struct sockaddr_in *)&a->sock)->sin_port);
}

/* ---- Texts ---- */

/* The two parts of an address. A port of -1 is missing. */
struct parts {
    char host[NI_MAXHOST];
    int port;
};

static symm_status read_port(const char *variable, const char *text, const char *digits, int *port)
{
    char *end;
    long value = strtol(digits, &end, 10);

    if (*digits < '0' || *digits > '9' || *end || value > UINT16_MAX)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s=%s: \"%s\" is not a port within 0 to %d",
                          variable, text, digits, UINT16_MAX);
    *port = (int)value;
    return SYMM_OK;
}

static symm_status split(const char *variable, const char *text, struct parts *parts)
{
    const bool bracket = text[0] == '[';
    const char *host = text + bracket;
    const char *end = bracket ? strchr(text, ']') : text + strcspn(text, ":");
    const char *rest = end && bracket ? end + 1 : end;

    parts->port = -1;
    if (!end || (*rest && *rest != ':'))
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s=%s is not HOST:PORT or [IPv6]:PORT", variable,
                          text);
    if (!bracket && *rest && strchr(rest + 1, ':'))
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "%s=%s: an IPv6 address must be in brackets, as in [::1]:4242", variable,
                          text);
    if (end == host)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s=%s names no host", variable, text);
    if ((size_t)(end - host) >= sizeof parts->host)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s names a host of more than %zu bytes", variable,
                          sizeof parts->host - 1);
    memcpy(parts->host, host, (size_t)(end - host));
    parts->host[end - host] = 0;
    return *rest ? read_port(variable, text, rest + 1, &parts->port) : SYMM_OK;
}

static void copy_address(const struct sockaddr *from, socklen_t nbytes, struct symm_address *out)
{
    *out = (struct symm_address){.nbytes = nbytes};
    memcpy(&out->sock, from, nbytes);
}

/*
 * Takes IPv4 first, so that all ranks choose alike if a name has addresses of both kinds.
 * AI_ADDRCONFIG is not set: it would refuse 127.0.0.1 on a host without a network.
 */
static symm_status resolve(const char *variable, const char *host, struct symm_address *out)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const struct addrinfo *best = NULL;
    int err = getaddrinfo(host, NULL, &hints, &list);
    symm_status st = SYMM_OK;

    if (err == EAI_MEMORY)
        return symm__fail(SYMM_ERROR_MEMORY, "no memory to resolve %s", host);
    if (err)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s names an unknown host, %s: %s", variable, host,
                          gai_strerror(err));
    for (const struct addrinfo *a = list; a; a = a->ai_next)
        if ((a->ai_family == AF_INET && (!best || best->ai_family != AF_INET)) ||
            (a->ai_family == AF_INET6 && !best))
            best = a;
    if (best)
        copy_address(best->ai_addr, best->ai_addrlen, out);
    else
        st = symm__fail(SYMM_ERROR_ARGUMENT, "%s names a host without IPv4 or IPv6, %s", variable,
                        host);
    freeaddrinfo(list);
    return st;
}

/* 0.0.0.0 or [::]: an address to listen at everywhere, at which nobody can be met. */
static bool is_every_host(const struct symm_address *a)
{
    if (a->sock.ss_family == AF_INET6)
        return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&a->sock)->sin6_addr);
    return ((const struct sockaddr_in *)&a->sock)->sin_addr.s_addr == htonl(INADDR_ANY);
}

symm_status symm__address_read(const char *variable, const char *text, int port,
                               struct symm_address *out)
{
    struct parts parts;
    symm_status st;

    TRY(split(variable, text, &parts));
    if (parts.port < 0)
        parts.port = port;
    if (parts.port < 0 || parts.port > UINT16_MAX)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s=%s names no port", variable, text);
    TRY(resolve(variable, parts.host, out));
    if (is_every_host(out))
        return symm__fail(SYMM_ERROR_ARGUMENT, "%s=%s names no host", variable, text);
    *out = symm__address_with_port(out, parts.port);
out:
    return st;
}

struct symm_address_name symm__address_name(const struct symm_address *a)
{
    const bool is_ipv6 = a->sock.ss_family == AF_INET6;
    struct symm_address_name name;
    char host[64]; /* IPv6 with the name of an interface */

    if (getnameinfo((const struct sockaddr *)&a->sock, a->nbytes, host, sizeof host, NULL, 0,
                    NI_NUMERICHOST))
        strcpy(host, "?");
    snprintf(name.text, sizeof name.text, is_ipv6 ? "[%s]:%d" : "%s:%d", host,
             symm__address_port(a));
    return name;
}

/* ---- This host ---- */

/* Whether other hosts may reach it. A bridge without a container is up, but does not run. */
static bool is_usable(const struct ifaddrs *i, int family)
{
    const unsigned wanted = IFF_UP | IFF_RUNNING;

    if (!i->ifa_addr || i->ifa_addr->sa_family != family || i->ifa_flags & IFF_LOOPBACK ||
        (i->ifa_flags & wanted) != wanted)
        return false;
    return family != AF_INET6 ||
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
}

symm_status symm__address_own(struct symm_address *out)
{
    const struct sockaddr_in loopback = {.sin_family = AF_INET,
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct ifaddrs *own = NULL;
    struct ifaddrs *list;

    if (getifaddrs(&list))
        return symm__fail_errno(errno, "getifaddrs");
    for (const struct ifaddrs *i = list; i && !own; i = i->ifa_next)
        own = is_usable(i, AF_INET) ? i : NULL;
    for (const struct ifaddrs *i = list; i && !own; i = i->ifa_next)
        own = is_usable(i, AF_INET6) ? i : NULL;
    if (own)
        copy_address(own->ifa_addr,
                     own->ifa_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                          : sizeof(struct sockaddr_in),
                     out);
    else
        copy_address((const struct sockaddr *)&loopback, sizeof loopback, out);
    freeifaddrs(list);
    *out = symm__address_with_port(out, 0);
    return SYMM_OK;
}

/* Returns 0 or errno. */
static int bind_and_listen(int fd, const struct symm_address *a)
{
    const int on = 1;

    /* A port whose last connections are in TIME_WAIT counts as free. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on))
        return errno;
    if (a->sock.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on))
        return errno;
    if (bind(fd, (const struct sockaddr *)&a->sock, a->nbytes) || listen(fd, BACKLOG))
        return errno;
    return 0;
}

symm_status symm__address_listen(const struct symm_address *a, struct symm_address *at, int *fd)
{
    const struct symm_address_name name = symm__address_name(a);
    symm_status st = SYMM_OK;
    int err;

    *fd = symm__fd_above_stdio(
        socket(a->sock.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (*fd < 0)
        return symm__fail_errno(errno, "socket for %s", name.text);
    err = bind_and_listen(*fd, a);
    *at = (struct symm_address){.nbytes = sizeof at->sock};
    if (!err && getsockname(*fd, (struct sockaddr *)&at->sock, &at->nbytes))
        err = errno;
    if (err == EADDRINUSE)
        st = symm__fail(SYMM_ERROR_STATE, "%s is in use", name.text);
    else if (err == EADDRNOTAVAIL)
        st = symm__fail(SYMM_ERROR_SYSTEM, "%s is not an address of this host", name.text);
    else if (err)
        st = symm__fail_errno(err, "listening at %s", name.text);
    if (st != SYMM_OK)
        symm__fd_close(fd);
    return st;
}

void symm__address_unlisten(int *fd)
{
    if (*fd >= 0)
        shutdown(*fd, SHUT_RD);
    symm__fd_close(fd);
}
