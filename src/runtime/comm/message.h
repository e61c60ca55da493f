/*
 * Frames on a SOCK_SEQPACKET socket: one header of fixed size, then what was called, a reason, and
 * a payload. A frame is sent and parsed whole, descriptors included; numbers are little-endian. The
 * first 16 bytes never change their meaning, so that ranks with different versions of symm can say
 * so.
 */
#ifndef SYMM_MESSAGE_H
#define SYMM_MESSAGE_H

#include <stdbool.h>
#include <sys/socket.h>
#include <symm/types.h>
#include "runtime/base/rank_set.h"
#include "runtime/base/status.h"

/* What each type is for. X(name, most descriptors, least payload, most payload) */
#define SYMM_MESSAGES(X)                                                                           \
    /* to the hub */                                                                               \
    X(HELLO, 0, 72, 72)                 /* who I am: struct symm_hello; status, reason */          \
    X(VOTE, 1, 0, SYMM_PAYLOAD_MAX)     /* seq, op, status, args, text, payload */                 \
    X(CREATE, 0, 9, 8 + SYMM_MAX_RANKS) /* the first vote; parent's key, ranks */                  \
    X(FREED, 0, 8, SYMM_PAYLOAD_MAX)    /* offsets of 8 bytes */                                   \
    X(ABORT, 0, 0, 0)                   /* status, reason */                                       \
    X(SLOW, 0, 0, 0)                    /* seq: who has not come? */                               \
    X(EXPIRED, 0, 0, 0)                 /* seq, args[0]: ms: end the comm */                       \
    X(ASK, 0, 0, 0)                     /* args[0]: rank: what does it do? */                      \
    X(CLOSE, 0, 0, 0)                   /* this rank forgets the comm */                           \
    X(CONFIRM, 0, 0, 0)                 /* seq: is the comm alive, by all that was sent so far? */ \
    X(BYE, 0, 0, 0)                     /* this rank, or the hub, leaves: not dead */              \
    /* from the hub */                                                                             \
    X(RESULT, SYMM_MAX_RANKS, 0, SYMM_PAYLOAD_MAX) /* as VOTE; set: who gave descriptors */        \
    X(ENDED, 0, 0, 0)                              /* status, reason: the comm is dead */          \
    X(LATE, 0, 0, 0)                               /* seq, reason: the answer to SLOW */           \
    X(CONFIRMED, 0, 0, 0)                          /* seq: the comm was alive */                   \
    X(ASKED, 0, 0, 0)                              /* args[0]: who asks */                         \
    /* both ways */                                                                                \
    X(EXIT, 0, 0, 0)  /* this rank's, or rank 0's, process exits and has not left */               \
    X(QUIET, 0, 0, 0) /* nothing of this rank (then: of any rank) runs on the comm any more */     \
    X(TOLD, 0, 0, 0)  /* args[0]: who asked, then who tells; the rest: activity.h */

enum symm_message_type {
    SYMM_MESSAGE_NONE,
#define SYMM_MESSAGE_ID_(name, nfds, least, most) SYMM_MESSAGE_##name,
    SYMM_MESSAGES(SYMM_MESSAGE_ID_)
#undef SYMM_MESSAGE_ID_
        SYMM_MESSAGE_TYPES
};

/*
 * The op of a RESULT. Settled: the arbiter knows of no block that some of its ranks have freed and
 * others not.
 */
enum { SYMM_RESULT_UNSETTLED, SYMM_RESULT_SETTLED };

enum {
    SYMM_MESSAGE_HEADER = 112,
    SYMM_PAYLOAD_MAX = 60 << 10,
    SYMM_MESSAGE_MAX = SYMM_MESSAGE_HEADER + 2 * SYMM_TEXT_MAX + SYMM_PAYLOAD_MAX,
};

struct symm_message {
    uint32_t version, type;
    int rank; /* the sender's; -1: none */
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
 * Parses one frame that arrived with nfds descriptors. Pure; out points into bytes. Everything odd
 * is refused: ERROR_VERSION for another version (out->version, type and rank are filled in), else
 * ERROR_MISMATCH.
 */
symm_status symm__message_parse(const void *bytes, size_t nbytes, int nfds,
                                struct symm_message *out);

/*
 * A frame ready to be sent, perhaps to many: counted references. It owns its descriptors if
 * owns_fds.
 */
struct symm_frame {
    int refs; /* touched by one thread at a time */
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
    SYMM_RECEIVED,         /* *out is filled in, its descriptors are the caller's */
    SYMM_RECEIVED_NOTHING, /* would block */
    SYMM_RECEIVED_END,     /* the other side is gone */
    /* Not a frame; the failure text says why. out->rank and out->version, if they were told. */
    SYMM_RECEIVED_BAD,
    /* *out is filled in, but its descriptors could not be taken: too many are open. */
    SYMM_RECEIVED_NO_FDS,
};

/*
 * Receives one frame into buffer (SYMM_MESSAGE_MAX bytes). Never blocks; leaves no surprise
 * descriptor open.
 */
enum symm_received symm__message_receive(int fd, void *buffer, struct symm_message *out);

/* Sends one frame. Never blocks. Returns 0 or errno. */
int symm__frame_send(int fd, const struct symm_frame *frame);

/*
 * Keys of host communicators. The hub hands out keys. Until a communicator is made, each of its
 * ranks uses a key of its own for it, with SYMM_COMM_FORMING, and a new one for each attempt.
 */
enum { SYMM_COMM_JOIN = 0, SYMM_COMM_WORLD = 1 };
#define SYMM_COMM_FORMING (UINT64_C(1) << 63)

/* Payload of a HELLO. Its args: nranks, pid, SYMM_HELLO_ flags. */
struct symm_hello {
    unsigned char token[16], device[16];
    char boot_id[40];
};
enum { SYMM_HELLO_TOKEN = 1, SYMM_HELLO_DEVICE = 2 };

/* The asking "rank" of an ASKED that the hub sends, and the asked one of the TOLD that answers. */
enum { SYMM_ASKED_BY_HUB = SYMM_MAX_RANKS };

#endif
