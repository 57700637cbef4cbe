/* The C interface of Headtime (docs/c.md). cbindgen writes this file from crates/c/src; to write it
 * again: HEADTIME_ACCEPT=1 cargo test -p headtime-c --test c */

#ifndef HEADTIME_H
#define HEADTIME_H

#include <stddef.h>
#include <stdint.h>

/*
 A flag of headtime_io: the write is durable before it completes (force unit access).
 */
#define HEADTIME_DURABLE 1

/*
 A flag of headtime_io: the deadline is guaranteed, or the request is served as if it had none.
 Only the policies cds-scan and ds-scan guarantee deadlines.
 */
#define HEADTIME_GUARANTEED_IF_POSSIBLE 2

/*
 A flag of headtime_io: the deadline is guaranteed, or the request fails with
 HEADTIME_ERROR_INFEASIBLE. A request without a deadline is invalid.
 */
#define HEADTIME_GUARANTEED 4

/*
 The kinds of errors that a program may treat differently.
 */
typedef enum {
  /*
   No error.
   */
  HEADTIME_OK = 0,
  /*
   The drive could not be opened.
   */
  HEADTIME_ERROR_OPEN = 1,
  /*
   The request or a setting is invalid, and nothing was done.
   */
  HEADTIME_ERROR_INVALID = 2,
  /*
   The drive has reached its bound on requests or bytes, and nothing was done.
   */
  HEADTIME_ERROR_FULL = 3,
  /*
   The request was cancelled.
   */
  HEADTIME_ERROR_CANCELLED = 4,
  /*
   The drive did not answer in time.
   */
  HEADTIME_ERROR_TIMED_OUT = 5,
  /*
   The drive is closed.
   */
  HEADTIME_ERROR_CLOSED = 6,
  /*
   The drive or the system reported an error.
   */
  HEADTIME_ERROR_DRIVE = 7,
  /*
   The deadline cannot be guaranteed, and nothing was done.
   */
  HEADTIME_ERROR_INFEASIBLE = 8,
} headtime_error_kind;

/*
 The operations of a request.
 */
typedef enum {
  /*
   Reads bytes into `buffer`.
   */
  HEADTIME_READ = 0,
  /*
   Writes the bytes of `buffer`.
   */
  HEADTIME_WRITE = 1,
  /*
   Writes zeroes.
   */
  HEADTIME_ZERO = 2,
  /*
   Discards bytes: their content is undefined afterwards.
   */
  HEADTIME_DISCARD = 3,
  /*
   Makes every write durable that completed before the start of the flush.
   */
  HEADTIME_FLUSH = 4,
} headtime_operation;

/*
 An open drive with a scheduler of its own. Any thread may use it.
 */
typedef struct headtime_drive headtime_drive;

/*
 The reason of a failure. Free it with headtime_error_free.
 */
typedef struct headtime_error headtime_error;

/*
 Requests in flight and their results. Any thread may use it.
 */
typedef struct headtime_queue headtime_queue;

/*
 A setting of a drive: a name and a value, such as "policy" and "cds-scan".
 */
typedef struct {
  /*
   The name.
   */
  const char *name;
  /*
   The value.
   */
  const char *value;
} headtime_setting;

/*
 The answers to requests that asked for a guarantee of their deadline.
 */
typedef struct {
  /*
   Guaranteed.
   */
  uint64_t guaranteed;
  /*
   Accepted as best effort. Requests without a deadline are not counted.
   */
  uint64_t best_effort;
  /*
   Refused.
   */
  uint64_t refused;
  /*
   Guaranteed requests that completed after their deadline.
   */
  uint64_t broken;
} headtime_promises;

/*
 A request. Set all that is not needed to zero.
 */
typedef struct {
  /*
   One of headtime_operation.
   */
  uint32_t operation;
  /*
   A sum of flags, such as HEADTIME_DURABLE.
   */
  uint32_t flags;
  /*
   The first byte, a multiple of the sector size.
   */
  uint64_t offset;
  /*
   The number of bytes, a multiple of the sector size.
   */
  uint64_t length;
  /*
   The bytes to write, which are copied at the start; or the place for the bytes that are read,
   which must stay valid until the result was taken.
   */
  void *buffer;
  /*
   The deadline in nanoseconds from the start; 0 for none. A late request still completes.
   */
  uint64_t deadline_ns;
  /*
   The I/O priority, such as "rt/2"; NULL for the default.
   */
  const char *priority;
  /*
   The process or file that the request belongs to.
   */
  uint32_t stream;
  /*
   The tenant that is charged.
   */
  uint32_t volume;
  /*
   Any number, returned with the result.
   */
  uint64_t user_data;
} headtime_io;

/*
 The result of a request.
 */
typedef struct {
  /*
   That of the request.
   */
  uint64_t user_data;
  /*
   HEADTIME_OK, or the kind of the error.
   */
  headtime_error_kind kind;
  /*
   1 if the request had a deadline and completed after it.
   */
  uint32_t missed_deadline;
  /*
   1 if the deadline was guaranteed when the request was accepted.
   */
  uint32_t guaranteed;
  /*
   Nanoseconds from the start to the completion, waiting for room included.
   */
  uint64_t response_ns;
  /*
   Nanoseconds from the start to the dispatch to the drive.
   */
  uint64_t queue_ns;
  /*
   Nanoseconds from the dispatch to the completion.
   */
  uint64_t service_ns;
  /*
   Nanoseconds of the drive that the request was charged with.
   */
  uint64_t disk_ns;
  /*
   The error, to be freed with headtime_error_free; NULL if there is none.
   */
  headtime_error *error;
} headtime_done;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The message: the drive, the bytes of the request, the cause and its remedy; "no error" for NULL.
 Valid until the error is freed, as are the other texts.

 # Safety
 `error` is NULL, or from this library and not freed.
 */
const char *headtime_error_message(const headtime_error *error);

/*
 The kind; HEADTIME_OK for NULL.

 # Safety
 As headtime_error_message.
 */
headtime_error_kind headtime_error_kind_of(const headtime_error *error);

/*
 The nearest of the system's error codes; 0 for NULL.

 # Safety
 As headtime_error_message.
 */
int headtime_error_errno(const headtime_error *error);

/*
 The drive as it was opened; an empty text for an invalid setting.

 # Safety
 As headtime_error_message.
 */
const char *headtime_error_drive(const headtime_error *error);

/*
 The cause and its remedy, without the drive and the bytes.

 # Safety
 As headtime_error_message.
 */
const char *headtime_error_cause(const headtime_error *error);

/*
 The first byte of the request; UINT64_MAX if no request failed.

 # Safety
 As headtime_error_message.
 */
uint64_t headtime_error_offset(const headtime_error *error);

/*
 The bytes of the request; 0 if no request failed.

 # Safety
 As headtime_error_message.
 */
uint64_t headtime_error_length(const headtime_error *error);

/*
 Frees an error. NULL is allowed.

 # Safety
 `error` is NULL, or from this library and not freed.
 */
void headtime_error_free(headtime_error *error);

/*
 Opens a drive: a file, a block device, an NBD server, an emulated drive or a drive in memory, as
 docs/embedding.md names them. `settings` has `count` settings, and may be NULL if there are
 none. In a child process after fork, drives of the parent do not work.

 Returns NULL if the drive cannot be opened, with the reason in `error` unless that is NULL.

 # Safety
 The texts end in a zero byte, and `settings` has `count` of them.
 */
headtime_drive *headtime_open(const char *drive,
                              const headtime_setting *settings,
                              size_t count,
                              headtime_error **error);

/*
 Closes a drive: refuses new requests, waits for those in flight, and makes everything written
 durable. The drive cannot be used afterwards, whatever the result. Queues with requests of the
 drive may still be used and freed.

 Returns 0, or an error code if requests did not complete in time or written data could not be
 made durable, with the reason in `error` unless that is NULL.

 # Safety
 `drive` is from headtime_open, and no other thread uses it.
 */
int headtime_close(headtime_drive *drive, headtime_error **error);

/*
 The size of the drive in bytes; 0 for NULL, as for the next two.

 # Safety
 `drive` is open or NULL.
 */
uint64_t headtime_capacity(const headtime_drive *drive);

/*
 Bytes of a sector. Offsets and lengths of requests are multiples of it.

 # Safety
 `drive` is open or NULL.
 */
uint32_t headtime_sector_size(const headtime_drive *drive);

/*
 Bytes of a physical sector. Smaller or unaligned writes cost the drive a revolution.

 # Safety
 `drive` is open or NULL.
 */
uint32_t headtime_physical_block(const headtime_drive *drive);

/*
 Changes the policy of an open drive: a name of `headtime policies`, with parameters as
 NAME:parameter=value,… Returns 0, or an error code with the reason in `error` unless that is
 NULL.

 # Safety
 `drive` is open, and `policy` ends in a zero byte.
 */
int headtime_set_policy(const headtime_drive *drive, const char *policy, headtime_error **error);

/*
 The answers to deadlines since the drive was opened, for requests whose priority has the class
 `priority_class`: "rt", "be" or "idle"; NULL for all. Requests without a priority are in "be".
 Returns 0, or EINVAL for another text or NULL instead of the others.

 # Safety
 `drive` is open or NULL, `priority_class` ends in a zero byte or is NULL, and `promises` is a
 place for the counts or NULL.
 */
int headtime_promises_of(const headtime_drive *drive,
                         const char *priority_class,
                         headtime_promises *promises);

/*
 Starts a request when the drive has room, waits for it, and stores its result in `done`, which
 may be NULL. Returns the kind of its error, HEADTIME_OK if there is none.

 # Safety
 `drive` is open, the pointers are valid, and the buffer of `io` has its length.
 */
headtime_error_kind headtime_wait(const headtime_drive *drive,
                                  const headtime_io *io,
                                  headtime_done *done);

/*
 Starts `count` requests together, waits for all, and stores a result for each in `done`, which
 may be NULL. Each is due `deadline_ns` from the start of the batch, unless it has a deadline of
 its own; 0 is for none. Returns the number of requests that failed.

 # Safety
 As headtime_wait; `ios` and `done` have `count` elements.
 */
size_t headtime_wait_batch(const headtime_drive *drive,
                           const headtime_io *ios,
                           size_t count,
                           uint64_t deadline_ns,
                           headtime_done *done);

/*
 Makes an empty queue. Returns NULL if the system has no file descriptor left.
 */
headtime_queue *headtime_queue_new(void);

/*
 Frees a queue, and cancels its requests. NULL is allowed.

 # Safety
 `queue` is NULL, or from headtime_queue_new, and no other thread uses it.
 */
void headtime_queue_free(headtime_queue *queue);

/*
 The file descriptor that is readable when headtime_queue_next may return a result, for poll,
 epoll and event loops. Call headtime_queue_next until it returns 0, then wait again. The
 descriptor belongs to the queue. -1 for NULL.

 # Safety
 `queue` is valid or NULL.
 */
int headtime_queue_fd(const headtime_queue *queue);

/*
 Starts a request. A drive without room starts it later, in the order of submission. Each request
 has exactly one result, also if it is invalid or cancelled. Returns the number of the request
 for headtime_queue_cancel; UINT64_MAX if `queue` is NULL.

 # Safety
 `queue` and `drive` are valid. The buffer of `io` has its length; that of a read stays valid
 until the result was taken or the queue was freed.
 */
uint64_t headtime_queue_submit(const headtime_queue *queue,
                               const headtime_drive *drive,
                               const headtime_io *io);

/*
 Cancels a request that has no result yet: its result is then HEADTIME_ERROR_CANCELLED. A request
 at the drive may still take effect. A request that was complete stays complete.

 # Safety
 `queue` is valid or NULL.
 */
void headtime_queue_cancel(const headtime_queue *queue, uint64_t number);

/*
 The number of requests without a result.

 # Safety
 `queue` is valid or NULL.
 */
size_t headtime_queue_running(const headtime_queue *queue);

/*
 Takes a result, and waits for it for at most `timeout_ns` nanoseconds: 0 does not wait, a
 negative number waits as long as requests are running. Returns 1 with a result in `done`, 0
 without one. Several threads may take results; each result is returned once.

 # Safety
 The pointers are valid or NULL, and the buffers of all reads of the queue are valid.
 */
int headtime_queue_next(const headtime_queue *queue, headtime_done *done, int64_t timeout_ns);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* HEADTIME_H */
