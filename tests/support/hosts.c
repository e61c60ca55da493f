#include "hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int hosts_nranks(const struct hosts *hosts)
{
    int n = 0;

    for (int h = 0; h < hosts->n; h++)
        n += hosts->sizes[h];
    return n;
}

int hosts_of(const struct hosts *hosts, int rank)
{
    int h = 0;

    if (hosts->round_robin)
        return rank % hosts->n;
    for (int end = hosts->sizes[0]; rank >= end; end += hosts->sizes[++h])
        ;
    return h;
}

void hosts_address(struct hosts *hosts)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t nbytes = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &nbytes), 0);
    close(fd);
    snprintf(hosts->address, sizeof hosts->address, "127.0.0.1:%d", ntohs(a.sin_port));
}

symm_config hosts_config(const struct rank *self, const struct hosts *hosts)
{
    symm_config config = rank_config(self);
    char host[32];

    snprintf(host, sizeof host, "host %d", hosts_of(hosts, self->rank));
    setenv("SYMM_HOSTID", host, 1);
    config.span = 1;
    config.address = hosts->address;
    return config;
}

symm_status hosts_join(const struct rank *self, const struct hosts *hosts, symm_context **out)
{
    const symm_config config = hosts_config(self, hosts);

    return symm_context_create(&config, out);
}
