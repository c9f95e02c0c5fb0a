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
/* Ends the file behind the last chunk. */
void file_close(void);
/* In the child of a fork: the file is the parent's. */
void file_abandon(void);

uint32_t file_crc(uint32_t crc, const void *bytes, size_t count);
void file_digest(file_key *key, const void *bytes, size_t count);

#endif
