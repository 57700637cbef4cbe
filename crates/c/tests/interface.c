/* Every function of the C interface, on a drive in memory and on an emulated drive. */
#include <headtime.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition)) {                                                      \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

enum { MIB = 1 << 20, BLOCK = 4096 };

static headtime_drive *open_drive(const char *name, const char *setting, const char *value) {
    headtime_setting settings[] = {{setting, value}};
    headtime_error *error = NULL;
    headtime_drive *drive = headtime_open(name, settings, setting ? 1 : 0, &error);
    if (!drive) fprintf(stderr, "%s\n", headtime_error_message(error));
    CHECK(drive && !error);
    return drive;
}

static void what_was_written_is_read(void) {
    headtime_drive *drive = open_drive("memory:64MiB", "policy", "cds-scan");
    CHECK(headtime_capacity(drive) == 64 * MIB);
    CHECK(headtime_sector_size(drive) == 512 && headtime_physical_block(drive) >= 512);
    char written[BLOCK], read[BLOCK];
    memset(written, 7, sizeof written);
    headtime_done done;
    headtime_io io = {.operation = HEADTIME_WRITE, .flags = HEADTIME_DURABLE, .offset = MIB,
                      .length = BLOCK, .buffer = written, .user_data = 42};
    CHECK(headtime_wait(drive, &io, &done) == HEADTIME_OK);
    CHECK(done.user_data == 42 && !done.error && !done.missed_deadline);
    io = (headtime_io){.operation = HEADTIME_FLUSH};
    CHECK(headtime_wait(drive, &io, &done) == HEADTIME_OK);
    io = (headtime_io){.offset = MIB, .length = BLOCK, .buffer = read,
                       .deadline_ns = 60000000000, .priority = "rt/2"};
    CHECK(headtime_wait(drive, &io, &done) == HEADTIME_OK);
    CHECK(memcmp(written, read, BLOCK) == 0);
    CHECK(!done.guaranteed);
    io.flags = HEADTIME_GUARANTEED;
    CHECK(headtime_wait(drive, &io, &done) == HEADTIME_OK && done.guaranteed);
    headtime_io late = io;
    late.deadline_ns = 1;
    CHECK(headtime_wait(drive, &late, &done) == HEADTIME_ERROR_INFEASIBLE);
    headtime_error_free(done.error);
    late.deadline_ns = 0;
    late.priority = NULL;
    CHECK(headtime_wait(drive, &late, &done) == HEADTIME_ERROR_INVALID);
    CHECK(strstr(headtime_error_message(done.error), "give it a deadline"));
    headtime_error_free(done.error);
    late.deadline_ns = 1;
    late.flags = HEADTIME_GUARANTEED_IF_POSSIBLE;
    CHECK(headtime_wait(drive, &late, &done) == HEADTIME_OK && !done.guaranteed);
    headtime_promises promises;
    CHECK(headtime_promises_of(drive, "rt", &promises) == 0);
    CHECK(promises.guaranteed == 1 && promises.refused == 1 && promises.best_effort == 0);
    CHECK(headtime_promises_of(drive, "be", &promises) == 0);
    CHECK(promises.guaranteed == 0 && promises.refused == 0 && promises.best_effort == 1);
    CHECK(headtime_promises_of(drive, NULL, &promises) == 0);
    CHECK(promises.guaranteed == 1 && promises.best_effort == 1 && promises.broken == 0);
    CHECK(headtime_promises_of(drive, "urgent", &promises) == EINVAL);
    CHECK(headtime_promises_of(NULL, NULL, &promises) == EINVAL);
    io.flags = 0;
    CHECK(headtime_wait(drive, &io, &done) == HEADTIME_OK);
    CHECK(done.response_ns == done.queue_ns + done.service_ns && done.disk_ns <= done.response_ns);
    io = (headtime_io){.operation = HEADTIME_ZERO, .offset = MIB, .length = BLOCK};
    CHECK(headtime_wait(drive, &io, &done) == HEADTIME_OK);
    io.operation = HEADTIME_DISCARD;
    io.offset = 2 * MIB;
    CHECK(headtime_wait(drive, &io, &done) == HEADTIME_OK);
    io = (headtime_io){.offset = MIB, .length = BLOCK, .buffer = read};
    CHECK(headtime_wait(drive, &io, &done) == HEADTIME_OK && read[0] == 0);
    CHECK(headtime_set_policy(drive, "sptf", NULL) == 0);
    headtime_error *error = NULL;
    CHECK(headtime_set_policy(drive, "speedy", &error) == EINVAL);
    CHECK(strstr(headtime_error_message(error), "policy=speedy: "));
    headtime_error_free(error);
    CHECK(headtime_close(drive, NULL) == 0);
}

/* Waits for a request that is invalid; returns its error. */
static headtime_error *refused(headtime_drive *drive, headtime_io io) {
    headtime_done done;
    CHECK(headtime_wait(drive, &io, &done) == HEADTIME_ERROR_INVALID);
    CHECK(done.kind == HEADTIME_ERROR_INVALID && done.user_data == io.user_data);
    CHECK(headtime_error_kind_of(done.error) == HEADTIME_ERROR_INVALID);
    CHECK(headtime_error_errno(done.error) == EINVAL);
    CHECK(strcmp(headtime_error_drive(done.error), "memory:64MiB") == 0);
    CHECK(headtime_error_offset(done.error) == io.offset);
    CHECK(headtime_error_length(done.error) == io.length);
    return done.error;
}

static void errors_name_the_drive_the_bytes_and_the_cause(void) {
    headtime_drive *drive = open_drive("memory:64MiB", NULL, NULL);
    char buffer[512];
    headtime_error *error = refused(
        drive, (headtime_io){.offset = 64 * MIB, .length = 512, .buffer = buffer, .user_data = 9});
    const char *start = "memory:64MiB: read of 512 bytes from byte 67108864: ";
    CHECK(strncmp(headtime_error_message(error), start, strlen(start)) == 0);
    CHECK(strstr(headtime_error_cause(error), "is not on the drive"));
    headtime_error_free(error);
    error = refused(drive, (headtime_io){.length = 512});
    CHECK(strstr(headtime_error_message(error), "buffer is NULL"));
    headtime_error_free(error);
    error = refused(drive, (headtime_io){.length = 512, .buffer = buffer, .flags = 8});
    CHECK(strstr(headtime_error_message(error), "flags 0x8"));
    headtime_error_free(error);
    error = refused(drive, (headtime_io){.operation = 5, .length = 512});
    CHECK(strstr(headtime_error_message(error), "operation 5"));
    headtime_error_free(error);
    error = refused(drive, (headtime_io){.length = 512, .buffer = buffer, .priority = "high"});
    CHECK(strstr(headtime_error_message(error), "high"));
    headtime_error_free(error);
    CHECK(headtime_close(drive, NULL) == 0);

    CHECK(!headtime_open("/nothing/here.img", NULL, 0, &error));
    CHECK(headtime_error_kind_of(error) == HEADTIME_ERROR_OPEN);
    CHECK(headtime_error_errno(error) == ENOENT);
    CHECK(headtime_error_offset(error) == UINT64_MAX && headtime_error_length(error) == 0);
    headtime_error_free(error);
    headtime_setting wrong = {"speed", "9"};
    CHECK(!headtime_open("memory:64MiB", &wrong, 1, &error));
    CHECK(headtime_error_kind_of(error) == HEADTIME_ERROR_INVALID);
    CHECK(strstr(headtime_error_message(error), "max_requests"));
    headtime_error_free(error);
    CHECK(!headtime_open(NULL, NULL, 0, NULL));
    headtime_error_free(NULL);
}

static void a_batch_has_one_deadline_and_all_its_results(void) {
    enum { COUNT = 2000 };
    headtime_drive *drive = open_drive("memory:64MiB", "max_requests", "100");
    headtime_io *ios = calloc(COUNT, sizeof *ios);
    headtime_done *done = calloc(COUNT, sizeof *done);
    char *buffers = calloc(COUNT, BLOCK);
    for (size_t i = 0; i < COUNT; i++)
        ios[i] = (headtime_io){.offset = i * BLOCK, .length = BLOCK, .buffer = buffers + i * BLOCK,
                               .user_data = i};
    CHECK(headtime_wait_batch(drive, ios, COUNT, 60000000000, done) == 0);
    for (size_t i = 0; i < COUNT; i++) CHECK(done[i].user_data == i && !done[i].missed_deadline);
    ios[1].offset = 65 * MIB; /* refused by the drive */
    ios[2].flags = 8;         /* refused by the interface */
    CHECK(headtime_wait_batch(drive, ios, 4, 0, done) == 2);
    CHECK(!done[0].error && done[1].error && done[2].error && !done[3].error);
    headtime_error_free(done[1].error);
    headtime_error_free(done[2].error);
    CHECK(headtime_wait_batch(drive, ios, 0, 0, done) == 0);
    free(ios), free(done), free(buffers);
    CHECK(headtime_close(drive, NULL) == 0);
}

struct submitter {
    headtime_queue *queue;
    headtime_drive *drive;
    char *buffers;
    uint64_t first, count;
};

static void *submit(void *argument) {
    struct submitter *one = argument;
    for (uint64_t i = one->first; i < one->first + one->count; i++) {
        headtime_io io = {.offset = i * 512, .length = 512, .buffer = one->buffers + i * 512,
                          .user_data = i};
        headtime_queue_submit(one->queue, one->drive, &io);
    }
    return NULL;
}

static void a_queue_has_each_result_once(void) {
    enum { THREADS = 4, COUNT = 10000 };
    headtime_drive *drive = open_drive("memory:64MiB", "max_requests", "64");
    headtime_queue *queue = headtime_queue_new();
    headtime_done done;
    CHECK(queue && headtime_queue_next(queue, &done, -1) == 0);
    char *buffers = calloc(COUNT, 512), *seen = calloc(COUNT + 1, 1);
    struct submitter submitters[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        submitters[i] = (struct submitter){queue, drive, buffers, (uint64_t)i * COUNT / THREADS,
                                           COUNT / THREADS};
        CHECK(pthread_create(&threads[i], NULL, submit, &submitters[i]) == 0);
    }
    headtime_io wrong = {.offset = 1, .length = 512, .buffer = buffers, .user_data = COUNT};
    headtime_queue_submit(queue, drive, &wrong);
    struct pollfd readable = {.fd = headtime_queue_fd(queue), .events = POLLIN};
    for (int left = COUNT + 1; left > 0;) {
        CHECK(poll(&readable, 1, 60000) == 1);
        for (; headtime_queue_next(queue, &done, 0); left--) {
            CHECK(!seen[done.user_data]++);
            CHECK((done.kind == HEADTIME_ERROR_INVALID) == (done.user_data == COUNT));
            headtime_error_free(done.error);
        }
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(headtime_queue_running(queue) == 0 && headtime_queue_next(queue, &done, -1) == 0);
    headtime_queue_free(queue);
    headtime_queue_free(NULL);
    free(buffers), free(seen);
    CHECK(headtime_close(drive, NULL) == 0);
}

struct taker {
    headtime_queue *queue;
    int taken;
};

static void *take(void *argument) {
    struct taker *one = argument;
    headtime_done done;
    while (headtime_queue_next(one->queue, &done, -1)) {
        CHECK(done.kind == HEADTIME_OK);
        one->taken++;
    }
    return NULL;
}

static void several_threads_take_the_results_and_all_end(void) {
    enum { THREADS = 4, COUNT = 3, ROUNDS = 20 };
    /* All threads wait while the drive works; one of them takes the last result. */
    headtime_drive *drive = open_drive("emulated:atlas10k?backing=taken.img", NULL, NULL);
    headtime_queue *queue = headtime_queue_new();
    char *buffers = calloc(COUNT, 512);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < COUNT; i++) {
            headtime_io io = {.offset = i * 997 * MIB, .length = 512, .buffer = buffers + i * 512};
            headtime_queue_submit(queue, drive, &io);
        }
        struct taker takers[THREADS];
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            takers[i] = (struct taker){queue, 0};
            CHECK(pthread_create(&threads[i], NULL, take, &takers[i]) == 0);
        }
        int taken = 0;
        for (int i = 0; i < THREADS; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
            taken += takers[i].taken;
        }
        CHECK(taken == COUNT);
    }
    headtime_queue_free(queue);
    free(buffers);
    CHECK(headtime_close(drive, NULL) == 0);
}

static void null_is_an_error_or_nothing(void) {
    headtime_drive *drive = open_drive("memory:1MiB", NULL, NULL);
    headtime_queue *queue = headtime_queue_new();
    headtime_io io = {.operation = HEADTIME_FLUSH, .user_data = 5};
    headtime_done done;
    CHECK(headtime_wait(NULL, &io, &done) == HEADTIME_ERROR_INVALID && done.user_data == 5);
    CHECK(strstr(headtime_error_message(done.error), "drive is NULL"));
    headtime_error_free(done.error);
    CHECK(headtime_wait(drive, NULL, NULL) == HEADTIME_ERROR_INVALID);
    CHECK(headtime_wait(drive, &io, NULL) == HEADTIME_OK);
    CHECK(headtime_wait_batch(drive, NULL, 3, 0, NULL) == 3);
    CHECK(headtime_wait_batch(NULL, &io, 1, 0, NULL) == 1);
    headtime_error *error = NULL;
    CHECK(!headtime_open("memory:1MiB", NULL, 1, &error));
    CHECK(strstr(headtime_error_message(error), "settings is NULL"));
    headtime_error_free(error);
    CHECK(headtime_set_policy(drive, NULL, NULL) == EINVAL);
    CHECK(headtime_set_policy(NULL, "sptf", NULL) == EINVAL);
    CHECK(!headtime_capacity(NULL) && !headtime_sector_size(NULL) && !headtime_physical_block(NULL));
    CHECK(headtime_queue_submit(NULL, drive, &io) == UINT64_MAX);
    headtime_queue_submit(queue, NULL, &io);
    headtime_queue_submit(queue, drive, NULL);
    for (int i = 0; i < 2; i++) {
        CHECK(headtime_queue_next(queue, &done, -1) && done.kind == HEADTIME_ERROR_INVALID);
        headtime_error_free(done.error);
    }
    headtime_queue_submit(queue, NULL, &io);
    CHECK(headtime_queue_next(queue, NULL, -1) == 1 && headtime_queue_next(queue, NULL, -1) == 0);
    CHECK(headtime_queue_next(NULL, &done, -1) == 0 && headtime_queue_running(NULL) == 0);
    CHECK(headtime_queue_fd(NULL) == -1);
    headtime_queue_cancel(NULL, 0);
    headtime_queue_free(queue);
    CHECK(strcmp(headtime_error_message(NULL), "no error") == 0);
    CHECK(headtime_error_kind_of(NULL) == HEADTIME_OK && headtime_error_errno(NULL) == 0);
    CHECK(!*headtime_error_drive(NULL) && !*headtime_error_cause(NULL));
    CHECK(headtime_error_offset(NULL) == UINT64_MAX && headtime_error_length(NULL) == 0);
    CHECK(headtime_close(drive, NULL) == 0 && headtime_close(NULL, NULL) == 0);
}

static void a_cancelled_request_has_a_result_and_a_timeout_leaves_it(void) {
    enum { COUNT = 50 };
    headtime_drive *drive =
        open_drive("emulated:nearline-20tb?backing=cancelled.img", "outstanding", "1");
    headtime_queue *queue = headtime_queue_new();
    char *buffers = calloc(COUNT, MIB);
    uint64_t numbers[COUNT];
    for (uint64_t i = 0; i < COUNT; i++) {
        headtime_io io = {.offset = i * 997 * MIB, .length = MIB, .buffer = buffers + i * MIB,
                          .user_data = i};
        numbers[i] = headtime_queue_submit(queue, drive, &io);
    }
    headtime_done done;
    CHECK(headtime_queue_next(queue, &done, 1) == 0);
    CHECK(headtime_queue_running(queue) == COUNT);
    for (int i = 1; i < COUNT; i++) headtime_queue_cancel(queue, numbers[i]);
    int cancelled = 0, results = 0;
    while (headtime_queue_next(queue, &done, -1)) {
        results++;
        if (done.kind == HEADTIME_OK) continue;
        cancelled++;
        CHECK(done.kind == HEADTIME_ERROR_CANCELLED);
        CHECK(headtime_error_errno(done.error) == ECANCELED);
        CHECK(headtime_error_offset(done.error) == done.user_data * 997 * MIB);
        headtime_error_free(done.error);
    }
    CHECK(results == COUNT && cancelled == COUNT - 1);
    headtime_queue_cancel(queue, numbers[0]);
    CHECK(headtime_queue_next(queue, &done, 0) == 0);
    /* A queue may be freed with requests in flight, and after its drive. */
    headtime_io io = {.offset = MIB, .length = MIB, .buffer = buffers};
    headtime_queue_submit(queue, drive, &io);
    CHECK(headtime_close(drive, NULL) == 0);
    headtime_queue_free(queue);
    free(buffers);
}

struct canceller {
    headtime_queue *queue;
    uint64_t first, count;
};

static void *cancel(void *argument) {
    struct canceller *one = argument;
    for (uint64_t i = 0; i < one->count; i += 2) headtime_queue_cancel(one->queue, one->first + i);
    return NULL;
}

static void a_storm_of_cancellations_leaves_one_result_for_each_request(void) {
    enum { COUNT = 10000 };
    headtime_drive *drive = open_drive("emulated:atlas10k?backing=storm.img", "max_requests", "1000");
    headtime_queue *queue = headtime_queue_new();
    char *buffers = calloc(COUNT, 512), *seen = calloc(COUNT, 1);
    struct canceller canceller = {.queue = queue, .count = COUNT};
    for (uint64_t i = 0; i < COUNT; i++) {
        headtime_io io = {.offset = i * 7919 % COUNT * 512, .length = 512,
                          .buffer = buffers + i * 512, .user_data = i, .deadline_ns = 60000000000};
        uint64_t number = headtime_queue_submit(queue, drive, &io);
        if (i == 0) canceller.first = number;
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, cancel, &canceller) == 0);
    headtime_done done;
    int cancelled = 0;
    while (headtime_queue_next(queue, &done, -1)) {
        CHECK(!seen[done.user_data]++);
        cancelled += done.kind == HEADTIME_ERROR_CANCELLED;
        CHECK(done.kind == HEADTIME_OK ||
              (done.kind == HEADTIME_ERROR_CANCELLED && done.user_data % 2 == 0));
        headtime_error_free(done.error);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    while (headtime_queue_next(queue, &done, -1)) {
        CHECK(!seen[done.user_data]++);
        cancelled++;
        headtime_error_free(done.error);
    }
    for (int i = 0; i < COUNT; i++) CHECK(seen[i] == 1);
    CHECK(cancelled > 0);
    headtime_queue_free(queue);
    free(buffers), free(seen);
    CHECK(headtime_close(drive, NULL) == 0);
}

int main(void) {
    what_was_written_is_read();
    errors_name_the_drive_the_bytes_and_the_cause();
    a_batch_has_one_deadline_and_all_its_results();
    a_queue_has_each_result_once();
    several_threads_take_the_results_and_all_end();
    null_is_an_error_or_nothing();
    a_cancelled_request_has_a_result_and_a_timeout_leaves_it();
    a_storm_of_cancellations_leaves_one_result_for_each_request();
    return 0;
}
