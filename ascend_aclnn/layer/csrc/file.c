#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP (8ull << 20) /* by which the file grows; a window of that size is mapped */
#define BY_HAND (256u << 10) /* bytes from which a chunk is written with pwrite */

#define NEXT_LINES 3 /* of 64 bytes: what a usual brief record takes */

static int descriptor = -1;
static uint64_t position, reserved; /* where the next chunk goes; the end of what the file system has promised */
static char *window;
static uint64_t window_start, window_size;

/* ------------------------------------------------------------------------------------------------------------ checksums */

static uint32_t crc_tables[16][256];

__attribute__((constructor)) static void make_crc_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? 0xEDB88320u ^ value >> 1 : value >> 1;
        crc_tables[0][i] = value;
    }
    for (int table = 1; table < 16; table++) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t before = crc_tables[table - 1][i];
            crc_tables[table][i] = before >> 8 ^ crc_tables[0][before & 0xFF];
        }
    }
}

static inline uint32_t half(const uint32_t tables[8][256], uint64_t word) {
    return tables[7][word & 0xFF] ^ tables[6][word >> 8 & 0xFF] ^ tables[5][word >> 16 & 0xFF] ^ tables[4][word >> 24 & 0xFF] ^
           tables[3][word >> 32 & 0xFF] ^ tables[2][word >> 40 & 0xFF] ^ tables[1][word >> 48 & 0xFF] ^ tables[0][word >> 56];
}

#if defined(__x86_64__) && !defined(LAYER_PLAIN_CRC)
#include <immintrin.h>

/* The CRC of a multiple of 16 bytes, 16 at a time: the tables would take the cache away from the program. The constants are powers of x modulo
   the polynomial, and its inverse, in reversed bits. */
__attribute__((target("pclmul,sse4.1"))) static uint32_t crc_folded(uint32_t crc, const unsigned char *at, size_t count) {
    const __m128i fold = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0), last = _mm_set_epi64x(0, 0x0163cd6124);
    const __m128i reduce = _mm_set_epi64x(0x01f7011641, 0x01db710641), low = _mm_set_epi32(0, -1, 0, -1);
    __m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)at), _mm_cvtsi32_si128((int)crc));
    for (at += 16, count -= 16; count > 0; at += 16, count -= 16) {
        __m128i next = _mm_loadu_si128((const __m128i *)(const void *)at);
        __m128i high = _mm_clmulepi64_si128(x, fold, 0x11);
        x = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, fold, 0x00), high), next);
    }
    x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, fold, 0x10));
    x = _mm_xor_si128(_mm_srli_si128(x, 4), _mm_clmulepi64_si128(_mm_and_si128(x, low), last, 0x00));
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(x, low), reduce, 0x10);
    x = _mm_xor_si128(x, _mm_clmulepi64_si128(_mm_and_si128(quotient, low), reduce, 0x00));
    return (uint32_t)_mm_extract_epi32(x, 1);
}

static bool can_fold;

__attribute__((constructor)) static void find_fold(void) {
    __builtin_cpu_init();
    can_fold = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}
#else
static const bool can_fold = false;
static uint32_t crc_folded(uint32_t crc, const unsigned char *at, size_t count) {
    (void)at, (void)count;
    return crc;
}
#endif

uint32_t file_crc(uint32_t crc, const void *bytes, size_t count) {
    const unsigned char *at = bytes;
    crc = ~crc;
    if (can_fold && count >= 16) {
        size_t folded = count & ~(size_t)15;
        crc = crc_folded(crc, at, folded);
        at += folded, count -= folded;
    }
    for (; count >= 16; count -= 16, at += 16) {
        uint64_t words[2];
        memcpy(words, at, 16);
        crc = half(crc_tables + 8, words[0] ^ crc) ^ half(crc_tables, words[1]);
    }
    if (count >= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        crc = half(crc_tables, word ^ crc);
        at += 8, count -= 8;
    }
    if (count >= 4) {
        uint32_t word;
        memcpy(&word, at, 4);
        word ^= crc;
        crc = crc_tables[3][word & 0xFF] ^ crc_tables[2][word >> 8 & 0xFF] ^ crc_tables[1][word >> 16 & 0xFF] ^ crc_tables[0][word >> 24];
        at += 4, count -= 4;
    }
    for (; count > 0; count--) crc = crc >> 8 ^ crc_tables[0][(crc ^ *at++) & 0xFF];
    return ~crc;
}

/* BLAKE2b (RFC 7693) without a key, of 16 bytes. */
static const uint64_t blake_start[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
static const unsigned char blake_order[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

static inline uint64_t rotated(uint64_t value, int bits) { return value >> bits | value << (64 - bits); }

static inline void mix(uint64_t *a, uint64_t *b, uint64_t *c, uint64_t *d, uint64_t x, uint64_t y) {
    *a += *b + x, *d = rotated(*d ^ *a, 32), *c += *d, *b = rotated(*b ^ *c, 24);
    *a += *b + y, *d = rotated(*d ^ *a, 16), *c += *d, *b = rotated(*b ^ *c, 63);
}

static void compress_block(uint64_t state[8], const unsigned char block[128], uint64_t count, bool last) {
    uint64_t words[16], v[16];
    memcpy(words, block, sizeof words);
    memcpy(v, state, 64);
    memcpy(v + 8, blake_start, 64);
    v[12] ^= count;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; round++) {
        const unsigned char *s = blake_order[round % 10];
        for (int i = 0; i < 4; i++) mix(&v[i], &v[4 + i], &v[8 + i], &v[12 + i], words[s[2 * i]], words[s[2 * i + 1]]);
        for (int i = 0; i < 4; i++)
            mix(&v[i], &v[4 + (i + 1) % 4], &v[8 + (i + 2) % 4], &v[12 + (i + 3) % 4], words[s[8 + 2 * i]], words[s[9 + 2 * i]]);
    }
    for (int i = 0; i < 8; i++) state[i] ^= v[i] ^ v[8 + i];
}

void file_digest(file_key *key, const void *bytes, size_t count) {
    uint64_t state[8];
    const unsigned char *at = bytes;
    unsigned char block[128] = {0};
    memcpy(state, blake_start, sizeof state);
    state[0] ^= 0x01010000u ^ sizeof key->bytes;
    uint64_t done = 0;
    for (; count - done > sizeof block; done += sizeof block) compress_block(state, at + done, done + sizeof block, false);
    if (count > done) memcpy(block, at + done, count - done);
    compress_block(state, block, count, true);
    memcpy(key->bytes, state, sizeof key->bytes);
}

/* ----------------------------------------------------------------------------------------------------------------- file */

bool file_create(const char *path) {
    static const char prefix[16] = "ACLNNREC\3\0\0\0\0\0\0";
    descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) return false;
    position = reserved = 0;
    if (pwrite(descriptor, prefix, sizeof prefix, 0) != (ssize_t)sizeof prefix) {
        close(descriptor);
        descriptor = -1;
        return false;
    }
    position = sizeof prefix;
    return true;
}

bool file_is_open(void) { return descriptor >= 0; }

uint64_t file_size(void) { return position; }

/* Makes sure that the file has space up to `end`: a store into a mapped page for which the disk has none would be fatal. */
static bool reserve(uint64_t end) {
    if (end <= reserved) return true;
    uint64_t wanted = (end + STEP - 1) / STEP * STEP;
    int error = posix_fallocate(descriptor, (off_t)reserved, (off_t)(wanted - reserved));
    if (error != 0) {
        errno = error;
        return false;
    }
    reserved = wanted;
    return true;
}

static bool map_window(void) {
    if (window != NULL) munmap(window, window_size);
    window = NULL;
    window_start = position & ~(uint64_t)0xFFFF;
    window_size = STEP;
    if (!reserve(window_start + window_size)) return false;
    char *mapped = mmap(NULL, window_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, (off_t)window_start);
    if (mapped == MAP_FAILED) return false;
    window = mapped;
#ifdef MADV_POPULATE_WRITE
    /* All pages at once, which costs a fraction of one fault for each; older kernels refuse, and fault. */
    uint64_t used = (position - window_start) & ~(uint64_t)0xFFFF;
    (void)madvise(window + used, window_size - used, MADV_POPULATE_WRITE);
#endif
    return true;
}

static bool write_at(uint64_t at, const void *bytes, size_t count) {
    for (const char *from = bytes; count > 0;) {
        ssize_t done = pwrite(descriptor, from, count, (off_t)at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        at += (uint64_t)done, from += done, count -= (size_t)done;
    }
    return true;
}

typedef struct {
    char type[4];
    uint32_t crc;
    uint64_t length;
} chunk_header;

static uint64_t size_of_chunk(uint64_t length) { return (sizeof(chunk_header) + length + 7) & ~7ull; }

/* Whether the window has room for a chunk of so many bytes. */
static bool has_room(uint64_t size) {
    return (window != NULL && position >= window_start && position + size <= window_start + window_size) || map_window();
}

/* A chunk in the window: the CRC is that of what lies there, and the type makes it one. */
static void put_chunk(const char type[4], const void *head, size_t head_length, const void *payload, size_t length) {
    char *at = window + (position - window_start);
    uint64_t count = head_length + length;
    uint32_t word;
    memcpy(at + 8, &count, sizeof count);
    if (head_length > 0) memcpy(at + sizeof(chunk_header), head, head_length);
    memcpy(at + sizeof(chunk_header) + head_length, payload, length);
    uint32_t crc = file_crc(0, at + 8, sizeof count + count);
    memcpy(at + 4, &crc, sizeof crc);
    memcpy(&word, type, 4);
    __atomic_store_n((uint32_t *)(void *)at, word, __ATOMIC_RELEASE);
}

bool file_append(const char type[4], const void *head, size_t head_length, const void *payload, size_t length) {
    uint64_t size = size_of_chunk(head_length + length);
    bool written;
    if (descriptor < 0) return false;
    if (size < BY_HAND) {
        written = has_room(size);
        if (written) put_chunk(type, head, head_length, payload, length);
    } else {
        chunk_header header = {.length = head_length + length};
        header.crc = file_crc(file_crc(file_crc(0, &header.length, 8), head, head_length), payload, length);
        uint64_t at = position + sizeof header;
        written = reserve(position + size) && write_at(at, head, head_length) && write_at(at + head_length, payload, length);
        memcpy(header.type, type, 4);
        written = written && write_at(position, &header, sizeof header);
    }
    if (written) position += size;
    else file_close();
    return written;
}

uint64_t *file_room(uint64_t most) {
    if (descriptor < 0 || !has_room(size_of_chunk(most))) return NULL;
    return (uint64_t *)(void *)(window + (position - window_start) + sizeof(chunk_header));
}

uint64_t file_finish(const char type[4], uint32_t check, uint64_t length) {
    char *at = window + (position - window_start);
    uint64_t payload = position + sizeof(chunk_header);
    uint32_t word;
    memcpy(at + 8, &length, sizeof length);
    memcpy(at + 4, &check, sizeof check);
    memcpy(&word, type, 4);
    __atomic_store_n((uint32_t *)(void *)at, word, __ATOMIC_RELEASE);
    position += size_of_chunk(length);
    /* The next one is written a launch later: by then its lines are there, and no locked instruction waits for them. */
    for (int line = 0; line < NEXT_LINES; line++) __builtin_prefetch(window + (position - window_start) + line * 64, 1);
    return payload;
}

void file_fill(uint64_t at, uint64_t word) {
    if (window != NULL && at >= window_start && at + sizeof word <= window_start + window_size)
        __atomic_store_n((uint64_t *)(void *)(window + (at - window_start)), word, __ATOMIC_RELEASE);
    else if (descriptor >= 0)
        (void)write_at(at, &word, sizeof word);
}

void file_close(void) {
    if (window != NULL) munmap(window, window_size);
    window = NULL;
    if (descriptor >= 0) {
        if (ftruncate(descriptor, (off_t)position) != 0) { /* zeros stay behind the last chunk, which readers skip */
        }
        close(descriptor);
    }
    descriptor = -1;
}

void file_abandon(void) {
    if (window != NULL) munmap(window, window_size);
    window = NULL;
    if (descriptor >= 0) close(descriptor);
    descriptor = -1;
}
