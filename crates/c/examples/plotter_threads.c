/* The load of plotter.c without a scheduler: plain threads with direct I/O.
 *
 *     cc plotter_threads.c -o plotter_threads -pthread -lm
 *     ./plotter_threads PATH [SECONDS [MEMBERS [THREADS]]]
 *
 * PATH is a file or a block device, which is overwritten. The plotter's reads are taken in order by
 * THREADS (64) threads; four writers and a bookkeeper have a thread each. docs/embedding.md tells
 * how to run it on an emulated drive. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, CHUNK = 64 * BLOCK, WRITERS = 4 };
/* The blocks of a batch, and its maximum number of reads, for 12 drives. */
enum { BLOCKS = 3840, READS = 2000 };
static const int64_t MS = 1000000, CLOCK = 130 * MS, AHEAD = 2000 * MS;

static int file;
static unsigned members = 1;
static uint64_t half; /* The plotter reads from the first half; the others use the second. */
static atomic_bool over;

/* The plotter's reads, each with the start of its batch. The lock also protects the times. */
static struct read {
    uint64_t offset, length;
    int64_t begun;
} *reads;
static size_t queued, taken;
static int closed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static struct times {
    const char *name;
    double *ms;
    size_t count;
} times[] = {{.name = "reads"}, {.name = "writers"}, {.name = "bookkeeping"}};

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void sleep_until(int64_t time) {
    struct timespec until = {time / 1000000000, time % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) {}
}

static uint64_t below(unsigned short seed[3], uint64_t bound) { return erand48(seed) * bound; }

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* Memory that direct I/O accepts. */
static void *aligned(uint64_t length) {
    void *memory = aligned_alloc(BLOCK, length);
    if (!memory) fail("aligned_alloc");
    return memory;
}

static void read_at(void *data, uint64_t length, uint64_t offset) {
    if (pread(file, data, length, offset) != (ssize_t)length) fail("read");
}

static void write_at(void *data, uint64_t length, uint64_t offset) {
    if (pwrite(file, data, length, offset) != (ssize_t)length) fail("write");
}

static void record(struct times *of, int64_t begun) {
    of->ms = realloc(of->ms, (of->count + 1) * sizeof *of->ms);
    of->ms[of->count++] = (now() - begun) / 1e6;
}

static void record_locked(struct times *of, int64_t begun) {
    pthread_mutex_lock(&lock);
    record(of, begun);
    pthread_mutex_unlock(&lock);
}

/* Queues a batch every 130 ms: few large reads as often as many small ones. */
static void plot(int64_t seconds) {
    unsigned short seed[3] = {0};
    uint64_t most = fmax(READS * members / 12, 1), blocks = fmax(BLOCKS * members / 12, 1);
    int64_t begin = now();
    for (int64_t next = begin; next < begin + seconds * 1000 * MS; next += CLOCK) {
        sleep_until(next);
        uint64_t count = lround(pow(most, erand48(seed))), length = blocks / count * BLOCK;
        pthread_mutex_lock(&lock);
        reads = realloc(reads, (queued + count) * sizeof *reads);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t offset = below(seed, (half - length) / BLOCK) * BLOCK;
            reads[queued++] = (struct read){offset, length, next};
        }
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_lock(&lock);
    closed = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* Reads what the plotter queues, in that order. */
static void *read_batches(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (taken == queued && !closed) pthread_cond_wait(&changed, &lock);
        if (taken == queued) break;
        struct read next = reads[taken++];
        pthread_mutex_unlock(&lock);
        void *data = aligned(next.length);
        read_at(data, next.length, next.offset);
        free(data);
        pthread_mutex_lock(&lock);
        record(&times[0], next.begun);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

/* Writes bursts of chunks. */
static void *write_bursts(void *number) {
    unsigned short seed[3] = {(uintptr_t)number};
    char *data = calloc(1, CHUNK + BLOCK), *chunk = data + BLOCK - (uintptr_t)data % BLOCK;
    while (!over) {
        int64_t begun = now();
        for (uint64_t left = 1 + below(seed, 2 * members); left; left--) {
            write_at(chunk, CHUNK, half + below(seed, (half - CHUNK) / BLOCK) * BLOCK);
            record_locked(&times[1], begun);
        }
        sleep_until(now() + below(seed, 1000) * MS);
    }
    free(data);
    return NULL;
}

/* Reads and writes single blocks, and makes them durable. */
static void *keep_books(void *unused) {
    unsigned short seed[3] = {9};
    void *block = aligned(BLOCK);
    while (!over) {
        for (uint64_t left = 1 + below(seed, 8); left; left--) {
            uint64_t offset = half + below(seed, half / BLOCK) * BLOCK;
            int64_t begun = now();
            read_at(block, BLOCK, offset);
            record_locked(&times[2], begun);
            begun = now();
            write_at(block, BLOCK, offset);
            record_locked(&times[2], begun);
        }
        if (fdatasync(file)) fail("flush");
        sleep_until(now() + below(seed, 500) * MS);
    }
    free(block);
    return unused;
}

static int by_value(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static pthread_t start(void *(*work)(void *), uintptr_t number) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, work, (void *)number)) fail("pthread_create");
    return thread;
}

int main(int count, char **arguments) {
    int64_t seconds = count > 2 ? atoi(arguments[2]) : 10;
    members = count > 3 ? atoi(arguments[3]) : 1;
    size_t threads = count > 4 ? atoi(arguments[4]) : 64;
    if (count < 2 || !members || !threads) {
        fprintf(stderr, "usage: plotter_threads PATH [SECONDS [MEMBERS [THREADS]]]\n");
        return 2;
    }
    file = open(arguments[1], O_RDWR | O_DIRECT);
    if (file < 0) fail(arguments[1]);
    half = lseek(file, 0, SEEK_END) / 2 / BLOCK * BLOCK;
    if (half < 2ull * BLOCKS * BLOCK * members / 12 + 2 * CHUNK) {
        fprintf(stderr, "%s: %llu bytes are too few\n", arguments[1], 2ull * half);
        return 1;
    }
    pthread_t readers[threads], others[WRITERS + 1];
    for (size_t i = 0; i < threads; i++) readers[i] = start(read_batches, i);
    for (size_t i = 0; i < WRITERS; i++) others[i] = start(write_bursts, i + 1);
    others[WRITERS] = start(keep_books, 0);
    plot(seconds);
    for (size_t i = 0; i < threads; i++) pthread_join(readers[i], NULL);
    over = 1;
    for (size_t i = 0; i <= WRITERS; i++) pthread_join(others[i], NULL);

    size_t late = 0;
    for (size_t i = 0; i < times[0].count; i++) late += times[0].ms[i] > (double)(AHEAD / MS);
    printf("plotter: %zu reads late; due after 2 s\n", late);
    for (struct times *of = times; of < times + 3; of++) {
        qsort(of->ms, of->count, sizeof *of->ms, by_value);
        printf("%s: %zu in %.1f ms (median), %.1f ms (99 %%), %.1f ms (slowest)\n", of->name,
               of->count, of->ms[of->count / 2], of->ms[of->count * 99 / 100],
               of->ms[of->count - 1]);
        free(of->ms);
    }
    free(reads);
    return 0;
}
