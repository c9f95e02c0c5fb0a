/* The recording file: chunks that are appended, as docs/recording.md describes them. */
#ifndef LAYER_FILE_H
#define LAYER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    unsigned char bytes[16];
} file_key;

/* Creates a file that is not there yet; false, with errno set, where it cannot be. */
bool file_create(const char *path);
bool file_is_open(void);
uint64_t file_size(void);
/* Appends a chunk. The caller holds the recorder's lock. False where the disk is full: nothing more is written then. */
bool file_append(const char type[4], const void *head, size_t head_length, const void *payload, size_t length);
/* Where the payload of the next chunk, of at most so many bytes, is written in place; NULL where there is no room. The space is zeros, and
   is left so where no chunk comes of it. */
uint64_t *file_room(uint64_t most);
/* Makes a chunk of it. The offset of its payload in the file. */
uint64_t file_finish(const char type[4], uint32_t check, uint64_t length);
/* Fills in a word of a payload that was left zero, at an offset in the file. */
void file_fill(uint64_t at, uint64_t word);
/* Ends the file behind the last chunk. */
void file_close(void);
/* In the child of a fork: the file is the parent's. */
void file_abandon(void);

uint32_t file_crc(uint32_t crc, const void *bytes, size_t count);
void file_digest(file_key *key, const void *bytes, size_t count);

#endif
