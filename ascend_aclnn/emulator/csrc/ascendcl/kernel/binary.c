#include "ascendcl/kernel/binary.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t entry;
    char *name;
} entry_name;

struct emu_binary {
    entry_name *functions;
    size_t count;
};

static bool lies_within(size_t size, uint64_t offset, uint64_t length) { return offset <= size && length <= size - offset; }

/* Of NAME_3, NAME_3_mix_aic and NAME_3_mix_aiv the compiler's number and the length of NAME; false for another symbol. */
static bool split_symbol(const char *symbol, size_t *length, uint64_t *entry) {
    size_t end = strlen(symbol);
    if (end > 8 && (strcmp(symbol + end - 8, "_mix_aic") == 0 || strcmp(symbol + end - 8, "_mix_aiv") == 0)) end -= 8;
    size_t digits = end;
    while (digits > 0 && symbol[digits - 1] >= '0' && symbol[digits - 1] <= '9') digits--;
    if (digits == end || end - digits > 19 || digits < 2 || symbol[digits - 1] != '_') return false;
    *entry = strtoull(symbol + digits, NULL, 10);
    *length = digits - 1;
    return true;
}

static void add_function(emu_binary *binary, const char *symbol) {
    size_t length;
    uint64_t entry;
    if (!split_symbol(symbol, &length, &entry) || emu_binary_function(binary, entry) != NULL) return;
    binary->functions = realloc(binary->functions, (binary->count + 1) * sizeof binary->functions[0]);
    char *name = strndup(symbol, length);
    if (binary->functions == NULL || name == NULL) abort();
    binary->functions[binary->count++] = (entry_name){entry, name};
}

/* The functions of a symbol table, whose names are in the section `strings`. Data need not be aligned. */
static void read_symbols(emu_binary *binary, const char *data, size_t size, const Elf64_Shdr *table, const Elf64_Shdr *strings) {
    if (!lies_within(size, table->sh_offset, table->sh_size) || !lies_within(size, strings->sh_offset, strings->sh_size)) return;
    if (strings->sh_size == 0 || data[strings->sh_offset + strings->sh_size - 1] != '\0') return;
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Sym); i++) {
        Elf64_Sym symbol;
        memcpy(&symbol, data + table->sh_offset + i * sizeof symbol, sizeof symbol);
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_name < strings->sh_size)
            add_function(binary, data + strings->sh_offset + symbol.st_name);
    }
}

static bool read_section(const char *data, size_t size, const Elf64_Ehdr *header, uint64_t number, Elf64_Shdr *section) {
    if (number >= header->e_shnum || header->e_shentsize != sizeof *section) return false;
    if (!lies_within(size, header->e_shoff, (number + 1) * sizeof *section)) return false;
    memcpy(section, data + header->e_shoff + number * sizeof *section, sizeof *section);
    return true;
}

emu_binary *emu_binary_read(const void *data, size_t size) {
    emu_binary *binary = calloc(1, sizeof *binary);
    if (binary == NULL) abort();
    Elf64_Ehdr header;
    if (size < sizeof header || memcmp(data, ELFMAG, SELFMAG) != 0) return binary;
    memcpy(&header, data, sizeof header);
    Elf64_Shdr table, strings;
    for (uint64_t i = 0; read_section(data, size, &header, i, &table); i++)
        if (table.sh_type == SHT_SYMTAB && read_section(data, size, &header, table.sh_link, &strings))
            read_symbols(binary, data, size, &table, &strings);
    return binary;
}

emu_binary *emu_binary_read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    size_t size = 0, read = 0;
    do {
        data = realloc(data, size + (64u << 10));
        if (data == NULL) abort();
        if (file != NULL) read = fread(data + size, 1, 64u << 10, file);
        size += read;
    } while (read > 0);
    if (file != NULL) fclose(file);
    emu_binary *binary = emu_binary_read(data, size);
    free(data);
    return binary;
}

void emu_binary_free(emu_binary *binary) {
    for (size_t i = 0; i < binary->count; i++) free(binary->functions[i].name);
    free(binary->functions);
    free(binary);
}

const char *emu_binary_function(const emu_binary *binary, uint64_t entry) {
    for (size_t i = 0; i < binary->count; i++)
        if (binary->functions[i].entry == entry) return binary->functions[i].name;
    return NULL;
}
