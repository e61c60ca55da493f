/*
 * Frames on a SOCK_SEQPACKET socket: a header of fixed size, then the text of a call, a reason and
 * a payload. A frame with its descriptors is sent and parsed as a whole. Numbers of the header are
 * little-endian. Its first 16 bytes never change their meaning, so ranks of different versions can
 * report each other's version.
 */
#ifndef SYMM_MESSAGE_H
#define SYMM_MESSAGE_H

#include <stdbool.h>
#include <sys/socket.h>
#include <symm/types.h>
#include "runtime/base/rank_set.h"
#include "runtime/base/status.h"

/* The message types. X(name, most descriptors, least payload, most payload) */
#define SYMM_MESSAGES(X)                                                                           \
    /* to the hub */                                                                               \
    X(HELLO, 0, 72, 72)                 /* identity: struct symm_hello; status, reason */          \
    X(VOTE, 1, 0, SYMM_PAYLOAD_MAX)     /* seq, op, status, args, text, payload */                 \
    X(CREATE, 0, 9, 8 + SYMM_MAX_RANKS) /* a first vote; parent's key, ranks; args[3]: kind */     \
    X(SPAN, 0, 32, SYMM_PAYLOAD_MAX)    /* the first vote of a comm of several domains */          \
    X(FREED, 0, 8, SYMM_PAYLOAD_MAX)    /* offsets of 8 bytes */                                   \
    X(ABORT, 0, 0, 0)                   /* status, reason */                                       \
    X(SLOW, 0, 0, 0)                    /* seq of a vote: which ranks are missing? */              \
    X(EXPIRED, 0, 0, 0)                 /* seq, args[0]: ms: end the comm by timeout */            \
    X(ASK, 0, 0, 0)                     /* args[0]: rank: what is its activity? */                 \
    X(CLOSE, 0, 0, 0)                   /* this rank has closed the comm */                        \
    X(CONFIRM, 0, 0, 0) /* seq: is the comm alive after all messages sent so far? */               \
    X(BYE, 0, 0, 0)     /* this rank, or the hub, leaves in order */                               \
    /* from a domain's hub to the root: this, and some of those of ranks (root.h) */               \
    X(DOMAIN, 0, 0, 0) /* args[0]: which domain, args[1]: of how many */                           \
    /* from the hub */                                                                             \
    X(RESULT, SYMM_MAX_RANKS, 0, SYMM_PAYLOAD_MAX) /* as VOTE; set: the ranks with descriptors */  \
    X(ENDED, 0, 0, 0)                              /* status, reason; args[0]: 1 + exited rank */  \
    X(LATE, 0, 0, 0)                               /* seq, reason: the answer to SLOW */           \
    X(CONFIRMED, 0, 0, 0)                          /* seq: the comm was alive */                   \
    X(ASKED, 0, 0, 0)                              /* args[0]: the asking rank */                  \
    /* both ways */                                                                                \
    X(EXIT, 0, 0, 0)  /* this rank's, or rank 0's, process exits without BYE */                    \
    X(QUIET, 0, 0, 0) /* no kernel of this rank (from the hub: of any) runs */                     \
    X(TOLD, 0, 0, 0)  /* args[0]: asking rank, then answering one; activity.h */                   \
    /* between hosts, both ways: meeting.c. args: nranks, nbytes, first byte of the piece, rank */ \
    X(MEET, 0, 0, SYMM_PAYLOAD_MAX)

enum symm_message_type {
    SYMM_MESSAGE_NONE,
#define SYMM_MESSAGE_ID_(name, nfds, least, most) SYMM_MESSAGE_##name,
    SYMM_MESSAGES(SYMM_MESSAGE_ID_)
#undef SYMM_MESSAGE_ID_
        SYMM_MESSAGE_TYPES
};

/* The op of a RESULT. Settled: no block is freed on some of its ranks and live on others. */
enum { SYMM_RESULT_UNSETTLED, SYMM_RESULT_SETTLED };

enum {
    SYMM_MESSAGE_HEADER = 112,
    SYMM_PAYLOAD_MAX = 60 << 10,
    SYMM_MESSAGE_MAX = SYMM_MESSAGE_HEADER + 2 * SYMM_TEXT_MAX + SYMM_PAYLOAD_MAX,
};

struct symm_message {
    uint32_t version, type;
    int rank; /* of the sender; -1: none */
    uint64_t comm, seq;
    uint32_t op;
    symm_status status;
    uint64_t args[4];
    struct symm_rank_set set;
    const char *text, *reason; /* never NULL once parsed */
    const void *payload;
    size_t payload_nbytes;
    size_t nbytes; /* of the whole frame, once parsed */
    int nfds;
    int fds[SYMM_MAX_RANKS];
};

/*
 * Parses one frame that arrived with nfds descriptors. Pure; out points into bytes. Errors:
 * ERROR_VERSION for another version (out->version, type and rank are filled in), ERROR_MISMATCH for
 * any malformed frame.
 */
symm_status symm__message_parse(const void *bytes, size_t nbytes, int nfds,
                                struct symm_message *out);

/*
 * A frame to be sent, perhaps to many ranks, so references are counted. owns_fds: it closes its
 * descriptors.
 */
struct symm_frame {
    int refs; /* changed by one thread at a time */
    bool owns_fds;
    int nfds;
    int fds[SYMM_MAX_RANKS];
    size_t nbytes;
    unsigned char bytes[];
};

/*
 * Builds a frame; version is filled in, texts may be NULL and are cut at SYMM_TEXT_MAX. NULL: out
 * of memory.
 */
struct symm_frame *symm__frame_make(const struct symm_message *m);
void symm__frame_put(struct symm_frame *frame); /* NULL is fine */

enum symm_received {
    SYMM_RECEIVED,         /* *out is filled in; the caller owns its descriptors */
    SYMM_RECEIVED_NOTHING, /* would block */
    SYMM_RECEIVED_END,     /* the other side has closed */
    /* Not a frame: see the failure text. out->rank and out->version are set if known. */
    SYMM_RECEIVED_BAD,
    /* *out is filled in, but its descriptors are lost, since too many are open. */
    SYMM_RECEIVED_NO_FDS,
};

/*
 * Receives one frame into buffer (SYMM_MESSAGE_MAX bytes). Never blocks. Closes unexpected
 * descriptors.
 */
enum symm_received symm__message_receive(int fd, void *buffer, struct symm_message *out);

/* Sends one frame. Never blocks. Returns 0 or errno. */
int symm__frame_send(int fd, const struct symm_frame *frame);

/*
 * Keys of host communicators. The hub assigns them. Until then each rank uses its own provisional
 * key with the bit SYMM_COMM_FORMING, a new one for each attempt.
 */
enum {
    SYMM_COMM_JOIN = 0,
    SYMM_COMM_WORLD = 1, /* of a domain */
    SYMM_COMM_SPAN = 2,  /* of all domains, if there are several */
};
#define SYMM_COMM_FORMING (UINT64_C(1) << 63)

/* args[3] of a CREATE. Inner: serves its parent, of several domains, and both end together. */
enum { SYMM_CREATE_ORDINARY, SYMM_CREATE_INNER };

/* Payload of a HELLO. Its args: nranks, pid, SYMM_HELLO_ flags. */
struct symm_hello {
    unsigned char token[16], device[16];
    char boot_id[40];
};
enum { SYMM_HELLO_TOKEN = 1, SYMM_HELLO_DEVICE = 2 };

/*
 * Payload of a SPAN: this, then `ndomains` numbers of domains, 32 bits each and rising, then from a
 * rank to its hub a byte for each rank of the comm in its domain, in the comm's order.
 */
struct symm_span_birth {
    uint64_t parent; /* the sender's key of the parent */
    uint64_t hash;   /* of all ranks of the comm, rising */
    uint32_t ndomains;
    uint32_t most;   /* the most ranks of one domain */
    uint32_t nranks; /* bytes for ranks; 0 to the root */
    uint32_t order;  /* a hash of all ranks of the comm, in its order */
};

/* Stands for the hub as the asking rank, in an ASKED and in the TOLD that answers it. */
enum { SYMM_ASKED_BY_HUB = SYMM_MAX_RANKS };

#endif
