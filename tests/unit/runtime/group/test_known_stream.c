/* Which events mark the end of streams that come and go, with a driver that only counts. */
#include "runtime/group/known_stream.h"
#include "runtime/group/capture.h"
#include "test.h"

TEST_GROUP(known_stream, 10);

static struct {
    int events, records, waits;
    bool capturing, record_fails;
} driver;

static CUresult create(CUevent *event, unsigned int flags)
{
    (void)flags;
    driver.events++;
    *event = NULL;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUevent event)
{
    (void)event;
    driver.events--;
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream stream)
{
    (void)event;
    (void)stream;
    driver.records++;
    return driver.record_fails ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult ask_capturing(CUstream stream, int *status)
{
    (void)stream;
    *status = driver.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}

static CUresult wait_for(CUstream stream)
{
    (void)stream;
    driver.waits++;
    return CUDA_SUCCESS;
}

static CUresult error_text(CUresult result, const char **text)
{
    (void)result;
    *text = "an error";
    return CUDA_SUCCESS;
}

static const struct symm_driver drv = {.name = "counting",
                                       .cuEventCreate = create,
                                       .cuEventDestroy = destroy,
                                       .cuEventRecord = record,
                                       .cuStreamIsCapturing = ask_capturing,
                                       .cuStreamSynchronize = wait_for,
                                       .cuGetErrorName = error_text,
                                       .cuGetErrorString = error_text};

/* A stream that was added, and is held. */
static struct symm_known_stream *add(CUstream handle)
{
    struct symm_known_stream *known;

    ck_assert_int_eq(symm__known_stream_add(&drv, handle), SYMM_OK);
    known = symm__known_stream_hold(handle);
    ck_assert(known != NULL);
    return known;
}

static const int places[2];
#define HANDLE(i) ((CUstream)(uintptr_t)&places[i])

TEST(known_stream, a_handle_that_comes_again_is_another_stream)
{
    struct symm_known_stream *first = add(HANDLE(0)), *second;

    ck_assert(symm__known_stream_is(first, HANDLE(0)));
    ck_assert(!symm__known_stream_is(first, HANDLE(1)));
    ck_assert(!symm__known_stream_is(NULL, HANDLE(0)));
    symm__known_stream_remove(&drv, HANDLE(0));
    ck_assert(symm__known_stream_hold(HANDLE(0)) == NULL);
    second = add(HANDLE(0));
    ck_assert(!symm__known_stream_is(first, HANDLE(0)));
    ck_assert(symm__known_stream_is(second, HANDLE(0)));
    symm__known_stream_let_go(&drv, first);
    symm__known_stream_let_go(&drv, second);
    ck_assert_int_eq(driver.events, 1);
    symm__known_stream_remove(&drv, HANDLE(0));
    ck_assert_int_eq(driver.events, 0);
}

TEST(known_stream, a_stream_that_ended_with_its_context_is_forgotten)
{
    struct symm_known_stream *first = add(HANDLE(0)), *second = add(HANDLE(0));

    ck_assert(!symm__known_stream_is(first, HANDLE(0)));
    ck_assert_int_eq(driver.records, 0); /* the driver does not know the stream any more */
    symm__known_stream_let_go(&drv, first);
    symm__known_stream_let_go(&drv, second);
    symm__known_stream_remove(NULL, HANDLE(0));
}

TEST(known_stream, its_end_is_recorded_while_it_exists_and_once_more_at_its_end)
{
    struct symm_known_stream *known = add(HANDLE(0));
    CUevent end;

    ck_assert_int_eq(symm__known_stream_end(&drv, known, &end), SYMM_OK);
    ck_assert_int_eq(symm__known_stream_end(&drv, known, &end), SYMM_OK);
    ck_assert_int_eq(driver.records, 2);
    symm__known_stream_remove(&drv, HANDLE(0));
    ck_assert_int_eq(driver.records, 3);
    ck_assert_int_eq(symm__known_stream_end(&drv, known, &end), SYMM_OK);
    ck_assert_int_eq(driver.records, 3);
    symm__known_stream_let_go(&drv, known);
}

TEST(known_stream, one_that_nobody_holds_records_nothing)
{
    symm__known_stream_let_go(&drv, add(HANDLE(0)));
    ck_assert_int_eq(symm__known_stream_before_capture(&drv, HANDLE(0)), SYMM_OK);
    symm__known_stream_remove(&drv, HANDLE(0));
    ck_assert_int_eq(driver.records, 0);
    ck_assert_int_eq(driver.events, 0);
}

TEST(known_stream, a_stream_that_cannot_be_marked_is_waited_for)
{
    struct symm_known_stream *known = add(HANDLE(0));
    CUevent end;

    driver.record_fails = true;
    ck_assert_int_eq(symm__known_stream_end(&drv, known, &end), SYMM_ERROR_DRIVER);
    symm__known_stream_remove(&drv, HANDLE(0));
    ck_assert_int_eq(driver.waits, 1);
    ck_assert_int_eq(symm__known_stream_end(&drv, known, &end), SYMM_OK);
    symm__known_stream_let_go(&drv, known);
}

TEST(known_stream, a_capture_keeps_the_mark_before_it)
{
    struct symm_known_stream *known = add(HANDLE(0));
    CUevent end;

    ck_assert_int_eq(symm__known_stream_before_capture(&drv, HANDLE(0)), SYMM_OK);
    ck_assert_int_eq(driver.records, 1);
    driver.capturing = true;
    ck_assert_int_eq(symm__known_stream_end(&drv, known, &end), SYMM_ERROR_STATE);
    symm__capture_began(HANDLE(0));
    ck_assert_int_eq(symm__known_stream_end(&drv, known, &end), SYMM_OK);
    ck_assert_int_eq(driver.records, 1);
    symm__known_stream_remove(&drv, HANDLE(0));
    ck_assert_int_eq(driver.records, 1);
    symm__capture_ended(HANDLE(0));
    symm__known_stream_let_go(&drv, known);
}
