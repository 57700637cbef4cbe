/* A plotter that must never wait for its data, beside bursty writers and bookkeeping.
 *
 *     cc plotter.c -o plotter $(pkg-config --cflags --libs headtime) -lm
 *     ./plotter DRIVE [SECONDS [MEMBERS [POLICY]]]
 *
 * Every 130 ms the plotter consumes 15 MiB, which it requests as a batch two seconds before: one
 * read, or up to 2,000 small ones. Beside it, four writers write in bursts, and a bookkeeper reads
 * and writes single blocks. This is the load of 12 drives, scaled to those of an array with MEMBERS
 * (1). One thread does all of it: the queue returns results until something is to be started. */
#include <headtime.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BLOCK = 4096, CHUNK = 64 * BLOCK, WRITERS = 4, KEEPER = WRITERS, CLIENTS };
/* The blocks of a batch, and its maximum number of reads, for 12 drives. */
enum { BLOCKS = 3840, READS = 2000 };
static const int64_t MS = 1000000, CLOCK = 130 * MS, AHEAD = 2000 * MS;

static headtime_drive *drive;
static headtime_queue *queue;
static uint64_t half; /* The plotter reads from the first half; the others use the second. */

/* The response times of the plotter's reads and of the writes and reads beside them. */
static struct times {
    const char *name;
    double *ms;
    size_t count, late;
} times[] = {{.name = "reads"}, {.name = "writers"}, {.name = "bookkeeping"}};

/* A request in flight. Clients are numbered; the plotter is client -1. */
struct request {
    int client;
    char data[];
};

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static uint64_t below(uint64_t bound) { return drand48() * bound; }

static void start(int client, uint32_t operation, uint64_t offset, uint64_t length) {
    struct request *request = calloc(1, sizeof *request + length);
    headtime_io io = {.operation = operation, .offset = offset, .length = length,
                      .buffer = request->data, .user_data = (uintptr_t)request,
                      .deadline_ns = client < 0 ? AHEAD : 0};
    request->client = client;
    headtime_queue_submit(queue, drive, &io);
}

/* Few large reads as often as many small ones. */
static void start_batch(unsigned members) {
    uint64_t most = READS * members / 12, blocks = BLOCKS * members / 12;
    uint64_t count = lround(pow(most, drand48()));
    uint64_t length = blocks / count * BLOCK;
    for (uint64_t i = 0; i < count; i++)
        start(-1, HEADTIME_READ, below((half - length) / BLOCK) * BLOCK, length);
}

/* Starts what a client does next; returns the number of requests. */
static unsigned start_burst(int client, unsigned members) {
    unsigned count = 1 + below(client == KEEPER ? 8 : 2 * members);
    for (unsigned i = 0; i < count; i++) {
        uint32_t operation = client == KEEPER && i % 2 ? HEADTIME_READ : HEADTIME_WRITE;
        uint64_t length = client == KEEPER ? BLOCK : CHUNK;
        start(client, operation, half + below((half - length) / BLOCK) * BLOCK, length);
    }
    return count;
}

/* Records a result; returns the client. */
static int record(headtime_done *done) {
    struct request *request = (struct request *)(uintptr_t)done->user_data;
    int client = request->client;
    struct times *of = &times[client < 0 ? 0 : client == KEEPER ? 2 : 1];
    if (done->error) {
        fprintf(stderr, "%s\n", headtime_error_message(done->error));
        exit(1);
    }
    of->ms = realloc(of->ms, (of->count + 1) * sizeof *of->ms);
    of->ms[of->count++] = done->response_ns / 1e6;
    of->late += done->missed_deadline;
    free(request);
    return client;
}

static int by_value(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: plotter DRIVE [SECONDS [MEMBERS [POLICY]]]\n");
        return 2;
    }
    int64_t seconds = count > 2 ? atoi(arguments[2]) : 10;
    unsigned members = count > 3 ? atoi(arguments[3]) : 1;
    headtime_setting settings[] = {{"max_requests", "100000"}, {"max_bytes", "1GiB"},
                                   {"policy", count > 4 ? arguments[4] : "headtime"}};
    headtime_error *error = NULL;
    drive = headtime_open(arguments[1], settings, 3, &error);
    if (!drive) {
        fprintf(stderr, "%s\n", headtime_error_message(error));
        return 1;
    }
    queue = headtime_queue_new();
    half = headtime_capacity(drive) / 2 / BLOCK * BLOCK;

    int64_t begin = now(), end = begin + seconds * 1000 * MS, batch = begin;
    int64_t next[CLIENTS] = {0};        /* The time of a client's next burst, */
    unsigned running[CLIENTS] = {0};    /* once all of its requests are complete. */
    headtime_done done;
    for (int64_t time; (time = now()) < end;) {
        int64_t wake = batch;
        for (int client = 0; client < CLIENTS; client++) {
            if (running[client]) continue;
            if (next[client] <= time) running[client] = start_burst(client, members);
            else if (next[client] < wake) wake = next[client];
        }
        if (batch <= time) {
            start_batch(members);
            batch += CLOCK;
            continue;
        }
        if (!headtime_queue_next(queue, &done, wake - time)) continue;
        int client = record(&done);
        if (client >= 0 && !--running[client])
            next[client] = now() + below(client == KEEPER ? 500 : 1000) * MS;
    }
    while (headtime_queue_next(queue, &done, -1)) record(&done);

    for (struct times *of = times; of < times + 3; of++) {
        if (!of->count) continue;
        qsort(of->ms, of->count, sizeof *of->ms, by_value);
        printf("%s: %zu in %.1f ms (median), %.1f ms (99 %%), %.1f ms (slowest), %zu late\n",
               of->name, of->count, of->ms[of->count / 2], of->ms[of->count * 99 / 100],
               of->ms[of->count - 1], of->late);
        free(of->ms);
    }
    headtime_queue_free(queue);
    return headtime_close(drive, NULL) ? 1 : 0;
}
